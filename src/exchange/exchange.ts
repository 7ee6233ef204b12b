import type { Clock } from "../clock/clock.ts";
import { type Random, uuidFrom } from "../clock/random.ts";
import type { EndpointRegistry } from "../endpoints/registry.ts";
import type { AttemptFailure, Endpoint } from "../inference/endpoint.ts";
import { messageOf } from "../inference/errors.ts";
import { HEADER, HeaderList } from "../inference/headers.ts";
import { Rejection } from "../inference/outcomes.ts";
import { Attempts } from "./attempts.ts";
import { BodyAssembler } from "./body-assembler.ts";
import type { BudgetHolder, ByteBudget } from "./byte-budget.ts";
import type { Decider } from "./decide.ts";
import type { ExchangeMetrics } from "./exchange-metrics.ts";
import type { RequestSeries } from "./request-series.ts";
import { ResponseObserver } from "./response-observer.ts";
import type { Decision, DynamicMetadata, EndCause, Exchange, SubsetHint, Wire } from "./wire.ts";

/** What every exchange of a process shares. */
export interface ExchangeServices {
  readonly clock: Clock;
  readonly random: Random;
  readonly endpoints: EndpointRegistry;
  readonly decider: Decider;
  readonly metrics: ExchangeMetrics;
  readonly budget: ByteBudget;
  /** Bytes; a longer request body is refused with 413. */
  readonly maxRequestBytes: number;
  /** Told of failures of our own, which the client sees as 500. */
  onError(error: unknown): void;
}

const NOTHING = new Uint8Array(0);

/** How Envoy's own answer to a failed upstream connection begins (data-plane D-85). */
const PROXY_FAILURES = ["upstream connect error", "no healthy upstream"];

/** The one implementation of `Exchange`: gathers the body, asks for the decision, keeps the books. */
export class InferenceExchange implements Exchange, BudgetHolder {
  requestId = "";
  requestIdGenerated = false;
  readonly #services: ExchangeServices;
  readonly #wire: Wire;
  readonly #response = new ResponseObserver();
  #headers = new HeaderList();
  #receivedAt: number;
  #subset: SubsetHint | undefined;
  readonly #body = new BodyAssembler();
  #requestedStream = false;
  #series: RequestSeries | undefined;
  #refused: RequestSeries | undefined;
  #attempts: Attempts | undefined;
  #rejection: Rejection | undefined;
  #decided = false;
  #ended = false;
  #served = false;

  constructor(services: ExchangeServices, wire: Wire) {
    this.#services = services;
    this.#wire = wire;
    this.#receivedAt = services.clock.now();
  }

  get streaming(): boolean {
    return this.#requestedStream || this.#response.isEventStream;
  }

  get rewritesResponse(): boolean {
    return false;
  }

  get responseMetadata(): DynamicMetadata | undefined {
    return undefined;
  }

  get holdsResponse(): boolean {
    return this.#response.holding;
  }

  requestHeaders(headers: HeaderList, end: boolean, subset?: SubsetHint): Decision | undefined {
    this.#receivedAt = this.#services.clock.now();
    this.#headers = headers;
    this.#subset = subset;
    this.#identify();
    if (end) return this.#decideWithoutBody();
    const declared = Number(headers.get("content-length"));
    if (declared > this.#services.maxRequestBytes) return this.#refuse(this.#tooLarge());
    this.#body.expect(declared);
    return undefined;
  }

  requestBody(chunk: Uint8Array, end: boolean, subset?: SubsetHint): Decision | Promise<Decision> | undefined {
    // A second end, or bytes behind a refusal: answered by nobody (epp-protocol 3.3).
    if (this.#decided || this.#ended) return undefined;
    if (this.requestId === "") this.#identify();
    if (subset !== undefined) this.#subset = subset;
    if (this.#body.length + chunk.length > this.#services.maxRequestBytes) return this.#refuse(this.#tooLarge());
    if (chunk.length > 0) this.#services.budget.add(this, chunk.length);
    if (end) return this.#decide(this.#body.finish(chunk));
    if (chunk.length > 0) this.#body.add(chunk);
    return undefined;
  }

  pause(): void {
    this.#wire.pauseRequest();
  }

  resume(): void {
    this.#wire.resumeRequest();
  }

  releaseBody(): void {
    this.#body.clear();
    this.#services.budget.release(this);
  }

  attemptFailed(endpoint: Endpoint, failure: AttemptFailure, detail: string): Endpoint | Rejection {
    this.#services.endpoints.attemptFailed(endpoint, failure, detail);
    const next = this.#attempts?.next(endpoint);
    if (next !== undefined) return next;
    this.#rejection = new Rejection(
      "upstream_connect",
      `no endpoint answered; the last tried was ${endpoint.hostPort}: ${detail}`,
    );
    return this.#rejection;
  }

  servedBy(hostPort: string): void {
    this.#served = true;
    const endpoint = this.#services.endpoints.byHostPort(hostPort);
    if (endpoint !== undefined) this.#attempts?.moveTo(endpoint);
  }

  responseHeaders(status: number, headers: HeaderList, end: boolean): HeaderList | undefined {
    this.#response.headers(status, headers, this.#services.clock.now());
    if (end) {
      this.#answered();
      this.end("complete");
    }
    return undefined;
  }

  responseTrailers(): Uint8Array {
    this.end("complete");
    return NOTHING;
  }

  responseBody(chunk: Uint8Array, end: boolean): Uint8Array {
    if (this.#ended) return chunk;
    if (this.#response.chunks === 0 && chunk.length > 0) {
      if (this.#isProxyFailure(chunk)) this.#proxyFailed();
      else this.#answered();
    }
    const { budget } = this.#services;
    const held = this.#response.holding;
    if (held && chunk.length > 0 && !budget.tryAdd(this, chunk.length)) this.#response.drop();
    const now = this.#services.clock.now();
    const gap = this.#response.chunk(chunk, end, now);
    // Given up or complete: what is only passed on is not paid for.
    if (held && !this.#response.holding) budget.release(this);
    if (this.streaming && gap >= 0) this.#series?.itl.observe(gap / 1000);
    // A second look at the clock costs as much as the rest of a chunk's handling: one chunk in sixteen stands for all.
    if ((this.#response.chunks & 15) === 1) this.#response.handling += 16 * (this.#services.clock.now() - now);
    if (end) this.end("complete");
    return chunk;
  }

  end(cause: EndCause, rejection?: Rejection): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#body.clear();
    this.#services.budget.release(this);
    this.#attempts?.release();
    if (cause === "complete") this.#response.finish();
    else this.#response.drop();
    this.#services.metrics.ended({
      cause,
      series: this.#series,
      refused: this.#refused,
      // A model server's answer that was passed on is no refusal, even if a retry would have been.
      rejection: cause === "complete" && this.#response.status !== 0 ? undefined : (rejection ?? this.#rejection),
      response: this.#response,
      streaming: this.streaming,
      receivedAt: this.#receivedAt,
      endedAt: this.#services.clock.now(),
    });
  }

  #identify(): void {
    const id = this.#headers.get(HEADER.requestId);
    this.requestIdGenerated = !id;
    this.requestId = id || uuidFrom(this.#services.random);
  }

  #decideWithoutBody(): Decision {
    const decision = this.#services.decider.withoutBody(this.#subset);
    if (decision instanceof Rejection) return this.#refuse(decision);
    this.#decided = true;
    this.#attempts = new Attempts(decision.endpoints);
    return decision;
  }

  #decide(body: Uint8Array): Decision {
    const { decider, endpoints, metrics } = this.#services;
    try {
      const outcome = decider.decide(this.requestId, this.#headers, body, this.#subset);
      if (outcome instanceof Rejection) return this.#refuse(outcome);
      const { request, result } = outcome;
      if (result instanceof Rejection) {
        this.#refused = metrics.refused(request);
        return this.#refuse(result);
      }
      const first = result.endpoints[0]!;
      this.#decided = true;
      this.#requestedStream = request.streaming;
      this.#attempts = new Attempts(
        result.endpoints,
        endpoints.inFlight.open(first, result.uncachedTokens),
        result.uncachedTokens,
      );
      this.#series = metrics.routed(request, body.length, this.#services.clock.now() - this.#receivedAt);
      return {
        kind: "routed",
        endpoints: result.endpoints,
        offered: outcome.offered,
        body: body.length === 0 ? [] : [body],
        bodyLength: body.length,
        record: result.record,
        headers: undefined,
        metadata: undefined,
        scores: undefined,
        skipResponse: false,
      };
    } catch (error) {
      this.#services.onError(error);
      return this.#refuse(new Rejection("internal", messageOf(error)));
    }
  }

  #refuse(rejection: Rejection): Rejection {
    this.#decided = true;
    this.#rejection = rejection;
    this.releaseBody();
    return rejection;
  }

  #tooLarge(): Rejection {
    return new Rejection("too_large", `request body exceeds ${this.#services.maxRequestBytes} bytes`);
  }

  #answered(): void {
    const attempts = this.#attempts;
    if (attempts === undefined) return;
    attempts.answered();
    this.#services.endpoints.attemptSucceeded(attempts.current);
  }

  #isProxyFailure(chunk: Uint8Array): boolean {
    if (this.#response.status !== 503 || this.#served || !this.#response.contentType.startsWith("text/plain"))
      return false;
    const text = Buffer.from(chunk.buffer, chunk.byteOffset, Math.min(chunk.length, 64)).toString("latin1");
    return PROXY_FAILURES.some((start) => text.startsWith(start));
  }

  /** The proxy could not reach the endpoint and answered in its place. */
  #proxyFailed(): void {
    const detail = "the proxy could not connect";
    // The model server has said nothing: neither its error nor its times are counted.
    this.#response.status = 0;
    this.#rejection = new Rejection("upstream_connect", detail);
    const attempts = this.#attempts;
    if (attempts !== undefined) this.#services.endpoints.attemptFailed(attempts.current, "connect", detail);
  }
}
