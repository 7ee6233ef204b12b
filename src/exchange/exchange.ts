import type { Clock } from "../clock/clock.ts";
import { type Random, uuidFrom } from "../clock/random.ts";
import type { EndpointRegistry } from "../endpoints/registry.ts";
import type { AttemptFailure, Endpoint } from "../inference/endpoint.ts";
import { messageOf, oneLine } from "../inference/errors.ts";
import { HEADER, HeaderList } from "../inference/headers.ts";
import { Rejection } from "../inference/outcomes.ts";
import type { AnswerFormat } from "../inference/request.ts";
import { Attempts } from "./attempts.ts";
import { BodyAssembler } from "./body-assembler.ts";
import type { BudgetHolder, ByteBudget } from "./byte-budget.ts";
import type { Decider } from "./decide.ts";
import type { ExchangeMetrics } from "./exchange-metrics.ts";
import { forwardedBody } from "./forwarded-body.ts";
import { HookRun } from "./hook-run.ts";
import type { NameRestorer } from "./name-restorer.ts";
import { isProxyFailure } from "./proxy-failure.ts";
import type { RequestHooks } from "./request-hooks.ts";
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
  readonly hooks: () => RequestHooks;
  readonly budget: ByteBudget;
  /** Bytes; a longer request body is refused with 413. */
  readonly maxRequestBytes: number;
  /** Told of failures of our own, which the client sees as 500. */
  onError(error: unknown): void;
  /** Told of a report that somebody served who is no endpoint of the pool. @param reported one line, `ip:port` at best */
  onStrangerServed(reported: string): void;
}

const NOTHING = new Uint8Array(0);

/** Answers that are one gRPC message, unless a stream was asked for. */
const SINGLE_ANSWERS: ReadonlySet<AnswerFormat> = new Set(["vllm-generate", "vllm-embed"]);

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
  readonly #hooks: HookRun;
  #moved: ((endpoint: Endpoint) => void) | undefined;
  #restorer: NameRestorer | undefined;
  #series: RequestSeries | undefined;
  #refused: RequestSeries | undefined;
  #attempts: Attempts | undefined;
  #rejection: Rejection | undefined;
  #decided = false;
  #ended = false;
  #served = false;
  responseMetadata: DynamicMetadata | undefined;

  constructor(services: ExchangeServices, wire: Wire) {
    this.#services = services;
    this.#wire = wire;
    this.#hooks = new HookRun(services.hooks);
    this.#receivedAt = services.clock.now();
  }

  get streaming(): boolean {
    return this.#requestedStream || this.#response.isEventStream;
  }

  get rewritesResponse(): boolean {
    return this.#restorer !== undefined;
  }

  get holdsResponse(): boolean {
    return this.#response.holding;
  }

  requestHeaders(headers: HeaderList, end: boolean, subset?: SubsetHint): Decision | undefined {
    // A second set of headers must not open a second attempt.
    if (this.#decided || this.#ended) return undefined;
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
    if (endpoint === undefined) {
      this.#services.onStrangerServed(oneLine(hostPort));
      return;
    }
    this.#attempts?.moveTo(endpoint);
  }

  responseHeaders(
    status: number,
    headers: HeaderList,
    end: boolean,
    metadata?: Readonly<Record<string, unknown>>,
  ): HeaderList | undefined {
    this.#response.headers(status, headers, this.#services.clock.now());
    // Nothing can be found, or put back, in bytes that somebody compressed.
    if (this.#response.isEncoded) this.#restorer = undefined;
    const added = this.#hooks.received(this.#attempts?.current, status, headers, metadata);
    if (end) {
      this.#answered();
      this.end("complete");
    }
    return added;
  }

  responseTrailers(): Uint8Array {
    const rest = this.#restorer?.feed(NOTHING, true) ?? NOTHING;
    this.end("complete");
    return rest;
  }

  /** Gives the running exchange up in favour of others (epp-protocol 5.5); without effect once it is over. */
  evict(): void {
    if (this.#ended) return;
    this.#rejection = new Rejection("evicted", "request evicted by flow control");
    this.#wire.evict(this.#rejection);
  }

  responseBody(chunk: Uint8Array, end: boolean): Uint8Array {
    if (this.#ended) return chunk;
    if (this.#response.chunks === 0 && chunk.length > 0) {
      if (!this.#served && isProxyFailure(this.#response, chunk)) this.#proxyFailed();
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
    const out = this.#restorer?.feed(chunk, end) ?? chunk;
    if (end) this.end("complete");
    return out;
  }

  end(cause: EndCause, rejection?: Rejection): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#body.clear();
    this.#services.budget.release(this);
    this.#attempts?.release();
    if (cause === "complete") this.#response.finish();
    else this.#response.drop();
    this.responseMetadata = this.#hooks.ended(cause, this.#rejection?.reason === "evicted", {
      endpoint: this.#attempts?.current,
      status: this.#response.status,
      usage: this.#response.usage,
    });
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
      this.#response.format = request.answerFormat;
      this.#response.single = !request.streaming && SINGLE_ANSWERS.has(request.answerFormat);
      this.#moved = result.moved;
      this.#attempts = new Attempts(
        result.endpoints,
        endpoints.inFlight.open(first, result.uncachedTokens),
        result.uncachedTokens,
      );
      this.#series = metrics.routed(request, body.length, this.#services.clock.now() - this.#receivedAt);
      const forwarded = forwardedBody(request);
      this.#restorer = forwarded.restorer;
      return {
        kind: "routed",
        endpoints: result.endpoints,
        offered: outcome.offered,
        body: forwarded.pieces,
        bodyLength: forwarded.length,
        record: result.record,
        ...this.#hooks.routed(request, result.endpoints),
        scores: result.scores,
        skipResponse: request.answerFormat === "opaque",
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
    const { endpoints } = this.#services;
    const { current } = attempts;
    endpoints.attemptSucceeded(current);
    // One that has left the pool may have left its place to another, who learns nothing from this.
    if (attempts.moved && endpoints.get(current.id) === current) this.#moved?.(current);
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
