import { uuidFrom } from "../../base/clock/random.ts";
import type { AttemptFailure, Endpoint } from "../../base/inference/endpoint.ts";
import { messageOf, oneLine } from "../../base/inference/errors.ts";
import { HEADER, HeaderList, requestPath } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { NameRestorer } from "../apis/model-name.ts";
import type { Ticket } from "../flowcontrol/flow-control.ts";
import type { DecisionTrace } from "../scheduling/plugin-calls.ts";
import { Attempts, noneAnswered } from "./attempts.ts";
import type { BudgetHolder } from "./body-account.ts";
import type { Processed } from "./decide.ts";
import { asksForDecision, decisionHeaders, together } from "./decision-headers.ts";
import type { EndedExchange, RequestSeries } from "./exchange-metrics.ts";
import { ExchangeQuota } from "./exchange-quota.ts";
import type { ExchangeServices } from "./exchange-services.ts";
import { ExchangeTrace } from "./exchange-trace.ts";
import { HeldBytes } from "./held-bytes.ts";
import type { Prepared } from "./prepare.ts";
import { bodyTooLarge, forwardedBody } from "./request-body.ts";
import { HookRun } from "./request-hooks.ts";
import type { RequestEntry } from "./request-log.ts";
import { RequestWaits, type WaitingExchange } from "./request-waits.ts";
import { isProxyFailure, ResponseObserver } from "./response-observer.ts";
import { routedOf } from "./routed.ts";
import { TokenLesson } from "./token-lesson.ts";
import type { Decision, DynamicMetadata, EndCause, Exchange, Routed, SubsetHint, Wire } from "./wire.ts";

const NOTHING = new Uint8Array(0);
/** Before the headers come. Nobody adds to them. */
const NO_HEADERS = new HeaderList();

/** Gathers the body, asks for the decision, counts the exchange. */
export class InferenceExchange implements Exchange, BudgetHolder, WaitingExchange {
  requestIdGenerated = false;
  readonly #services: ExchangeServices;
  readonly #wire: Wire;
  readonly #response = new ResponseObserver();
  #headers = NO_HEADERS;
  #receivedAt: number;
  #subset: SubsetHint | undefined;
  readonly #held: HeldBytes;
  #requestedStream = false;
  readonly #hooks: HookRun;
  #requestId = "";
  #restorer: NameRestorer | undefined;
  #series: RequestSeries | undefined;
  #refused: RequestSeries | undefined;
  #attempts: Attempts | undefined;
  #lesson: TokenLesson | undefined;
  #rejection: Rejection | undefined;
  /** Undefined = there are no limits. */
  readonly #quota: ExchangeQuota | undefined;
  #trace: ExchangeTrace | undefined;
  /** For the log of requests; undefined = there is none. */
  readonly #entry: RequestEntry | undefined;
  readonly #waits: RequestWaits;
  #deciding: DecisionTrace | undefined;
  #decided = false;
  /** The number of its decision record; 0 = it has none. */
  #sequence = 0;
  #ended = false;
  #served = false;
  responseMetadata: DynamicMetadata | undefined;
  #decisionHeaders: HeaderList | undefined;

  constructor(services: ExchangeServices, wire: Wire) {
    this.#services = services;
    this.#wire = wire;
    this.#held = new HeldBytes(services.budget, this);
    this.#hooks = new HookRun(services.hooks);
    this.#entry = services.log?.open(wire);
    this.#quota = services.quotas && new ExchangeQuota(services.quotas, wire);
    this.#waits = new RequestWaits(services, this);
    this.#receivedAt = services.clock.now();
    services.observer?.opened(this.#receivedAt);
  }

  get requestId(): string {
    // A request that is refused before its headers arrive has an id too.
    if (this.#requestId === "") this.#identify();
    return this.#requestId;
  }

  get streaming(): boolean {
    return this.#requestedStream || this.#response.isEventStream;
  }

  get rewritesResponse(): boolean {
    return this.#restorer !== undefined;
  }

  get ownHeaders(): HeaderList | undefined {
    return together(this.#quota?.headers(), this.#decisionHeaders);
  }

  get holdsResponse(): boolean {
    return this.#response.holding;
  }

  requestHeaders(headers: HeaderList, end: boolean, subset?: SubsetHint): Decision | undefined {
    // A second set of headers must not start a second decision.
    if (this.#decided || this.#ended) return undefined;
    this.#receivedAt = this.#services.clock.now();
    this.#headers = headers;
    this.#subset = subset;
    this.#identify();
    if (end) return this.#decideWithoutBody();
    const declared = Number(headers.get("content-length"));
    if (declared > this.#services.maxRequestBytes) return this.#refuse(this.#tooLarge());
    if (declared > 0) this.#held.expect(declared);
    return undefined;
  }

  requestBody(chunk: Uint8Array, end: boolean, subset?: SubsetHint): Decision | Promise<Decision> | undefined {
    // A second end, or bytes after a refusal, get no answer (epp-protocol 3.3).
    if (this.#decided || this.#ended) return undefined;
    if (this.#requestId === "") this.#identify();
    if (subset !== undefined) this.#subset = subset;
    this.#entry?.received(chunk.length);
    if (this.#held.length + chunk.length > this.#services.maxRequestBytes) return this.#refuse(this.#tooLarge());
    const body = this.#held.add(chunk, end, this.#headers, this.#wire);
    return body && this.#decide(body);
  }

  pause(): void {
    this.#wire.pauseRequest();
  }

  resume(): void {
    this.#wire.resumeRequest();
  }

  letGo(): void {
    if (this.#decided || this.#ended) return;
    this.#wire.evict(this.#refuse(new Rejection("body_stalled", this.#services.budget.stallReason)));
  }

  releaseBody(): void {
    this.#held.clear();
  }

  attemptFailed(endpoint: Endpoint, failure: AttemptFailure, detail: string): Endpoint | Rejection {
    const next = this.#attempts?.failed(endpoint, failure, detail);
    this.#services.observer?.attemptFailed(this.#sequence, endpoint, failure, detail, next);
    if (next !== undefined) {
      this.#waits.room?.moved(next);
      return next;
    }
    this.#rejection = noneAnswered(endpoint, detail);
    return this.#rejection;
  }

  servedBy(hostPort: string): void {
    this.#served = true;
    if (hostPort === this.#attempts?.via) return;
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
    // The request was answered while it waits for its decision: it needs none.
    this.#waits.cancel();
    // Sluice cannot find or replace names in compressed bytes.
    if (this.#response.isEncoded) this.#restorer = undefined;
    const added = this.#hooks.received(this.#attempts?.current, status, headers, metadata);
    if (end) {
      this.#answered();
      this.end("complete");
    }
    return together(added, this.ownHeaders);
  }

  responseTrailers(): Uint8Array {
    const rest = this.#restorer?.feed(NOTHING, true) ?? NOTHING;
    this.end("complete");
    return rest;
  }

  /** Ends the running exchange to make room for others (epp-protocol 5.5). No effect once it is over. */
  revoke(): void {
    if (this.#ended) return;
    this.#rejection = new Rejection("evicted", "request evicted by flow control");
    this.#trace?.evicted();
    this.#wire.evict(this.#rejection);
  }

  responseBody(chunk: Uint8Array, end: boolean, parts = 1): Uint8Array {
    if (this.#ended) return chunk;
    if (this.#response.chunks === 0 && chunk.length > 0) {
      if (!this.#response.begun) this.#response.beginWithoutHeaders(chunk, this.#services.clock.now());
      if (!this.#served && isProxyFailure(this.#response, chunk)) this.#proxyFailed();
      else this.#answered();
    }
    const gap = this.#response.pass(chunk, end, this.#services.clock, this.#held, parts);
    if (this.#series !== undefined && this.streaming) {
      if (gap >= 0) this.#series.itl.observe(gap / 1000);
      if (parts > 1) this.#series.itl.observe(0, parts - 1);
    }
    const out = this.#restorer?.feed(chunk, end) ?? chunk;
    if (end) this.end("complete");
    return out;
  }

  end(cause: EndCause, rejection?: Rejection): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#waits.cancel();
    this.releaseBody();
    this.#attempts?.release();
    if (cause === "complete") this.#response.finish();
    else this.#response.drop();
    this.#quota?.settle(this.#response, cause, this.#attempts !== undefined);
    this.#waits.place?.ended(this.#response.usage);
    this.#waits.room?.ended();
    this.#learn(cause === "complete");
    this.responseMetadata = this.#hooks.ended(cause, this.#rejection?.reason === "evicted", {
      endpoint: this.#attempts?.current,
      status: this.#response.status,
      usage: this.#response.usage,
    });
    const ended: EndedExchange = {
      cause,
      series: this.#series,
      refused: this.#refused,
      // An answer of a model server that was passed on is no refusal, even if a retry would have been one.
      rejection: cause === "complete" && this.#response.status !== 0 ? undefined : (rejection ?? this.#rejection),
      response: this.#response,
      streaming: this.streaming,
      receivedAt: this.#receivedAt,
      endedAt: this.#services.clock.now(),
    };
    const error = this.#services.metrics.ended(ended);
    const { observer } = this.#services;
    observer?.ended(ended, this.#sequence, this.#attempts?.lastTried(this.#wire.retries ?? 0));
    this.#trace?.ended(cause, error, this.#response.status);
    this.#entry?.ended(ended, {
      requestId: this.#requestId,
      headers: this.#headers,
      attempts: this.#attempts,
      wait: this.#waits.place?.wait,
    });
  }

  /** Process and plugins learn from the answer. */
  #learn(isComplete: boolean): void {
    const attempts = this.#attempts;
    const response = this.#response;
    const path = requestPath(this.#headers);
    if (isComplete) this.#lesson?.learn(response, path, this.#services.clock.now());
    if (attempts === undefined) return;
    const answer = { attempts, response, path, streaming: this.streaming };
    attempts.ended(isComplete ? this.#services.cacheReports?.take(answer) : undefined);
  }

  #identify(): void {
    const id = this.#headers.get(HEADER.requestId);
    this.requestIdGenerated = !id;
    this.#requestId = id || uuidFrom(this.#services.random);
    const { tracing } = this.#services;
    if (tracing !== undefined) this.#trace ??= new ExchangeTrace(tracing, this.#headers, this.#requestId);
  }

  #decideWithoutBody(): Decision {
    const { decider, refusesEmptyBodies } = this.#services;
    const empty = refusesEmptyBodies ? decider.emptyBody(this.#headers) : undefined;
    const decision = empty ?? this.#quota?.admit() ?? decider.withoutBody(this.#subset);
    if (decision instanceof Rejection) return this.#refuse(decision);
    this.#decided = true;
    this.#attempts = new Attempts(this.#services.endpoints, decision.endpoints);
    return this.#traced(decision);
  }

  #decide(body: Uint8Array): Decision | Promise<Decision> {
    const { decider } = this.#services;
    // Set before the decision starts: bytes after the end of the body must not start another one.
    this.#decided = true;
    this.#deciding = this.#trace?.deciding();
    try {
      const processed = decider.read(this.requestId, this.#headers, body, this.#wire.caller);
      if (processed instanceof Rejection) return this.#refuse(processed);
      this.#entry?.understood(processed.request);
      const over = processed.refusal === undefined ? this.#quota?.admit(processed.request) : undefined;
      if (over !== undefined) return this.#refuse(over, processed.request);
      return this.#waits.begin(processed, body.length, this.#subset, this.#receivedAt);
    } catch (error) {
      return this.failed(error);
    }
  }

  leftQueue(request: InferenceRequest, ticket: Ticket, refusal: Rejection | undefined): void {
    this.#trace?.waited(request, ticket, refusal);
  }

  get isOver(): boolean {
    return this.#ended || this.#response.status !== 0;
  }

  /** The synchronous stretch: decides on the present state. */
  conclude(processed: Processed, prepared: Prepared | undefined): Decision {
    const { decider, endpoints, metrics } = this.#services;
    const trace = this.#deciding;
    try {
      const explained = this.#services.decisionHeader && asksForDecision(this.#headers);
      const outcome = decider.decide(
        processed,
        this.#subset,
        explained || trace !== undefined || prepared !== undefined ? { full: explained, trace, prepared } : undefined,
        this.#waits.place !== undefined,
      );
      const wait = this.#waits.place?.wait;
      if (wait !== undefined) outcome.record.queued = wait;
      if (explained) this.#decisionHeaders = decisionHeaders(outcome.record);
      const { request, result } = outcome;
      this.#sequence = outcome.record.sequence;
      this.#services.observer?.decided({
        record: outcome.record,
        endpoint: result instanceof Rejection ? undefined : result.endpoints[0],
        receivedAt: this.#receivedAt,
        caller: this.#wire.caller?.name,
        streaming: request.streaming,
      });
      this.#trace?.decided(request);
      this.#entry?.understood(request, outcome.record.sequence);
      if (result instanceof Rejection) return this.#refuse(result, request);
      this.#requestedStream = request.streaming;
      this.#response.expect(request);
      this.#lesson = TokenLesson.from(this.#services.bytesPerToken, request);
      this.#series = metrics.routed(request, request.body.length, this.#services.clock.now() - this.#receivedAt);
      this.#attempts = Attempts.open(endpoints, result, this.#series.flow);
      this.#waits.place?.decided();
      this.#waits.room?.counted(result.endpoints[0]!);
      const added = this.#hooks.routed(request, result);
      const forwarded = forwardedBody(request);
      this.#restorer = forwarded.restorer;
      return this.#traced(routedOf(outcome, result, forwarded, added));
    } catch (error) {
      return this.failed(error);
    }
  }

  failed(error: unknown): Rejection {
    this.#services.onError(error);
    return this.#refuse(new Rejection("internal", messageOf(error)));
  }

  #traced(routed: Routed): Routed {
    return this.#trace === undefined ? routed : this.#trace.forwarded(routed);
  }

  /** @param request where it was understood */
  #refuse(rejection: Rejection, request?: InferenceRequest): Rejection {
    this.#decided = true;
    if (request !== undefined) this.#refused = this.#services.metrics.refused(request);
    this.#rejection = rejection;
    this.#trace?.refused(rejection);
    this.releaseBody();
    this.#waits.place?.decided();
    return rejection;
  }

  #tooLarge(): Rejection {
    return bodyTooLarge(this.#services.maxRequestBytes);
  }

  #answered(): void {
    if (this.#attempts === undefined) return;
    this.#attempts.answered();
    this.#services.observer?.answered(this.#sequence, this.#attempts.current);
    this.#waits.place?.answered();
  }

  /** The proxy could not reach the endpoint and answered instead. */
  #proxyFailed(): void {
    const detail = "the proxy could not connect";
    // The model server has not answered, so neither its error nor its times count.
    this.#response.status = 0;
    this.#rejection = new Rejection("upstream_connect", detail);
    const attempts = this.#attempts;
    if (attempts === undefined) return;
    attempts.unreached(detail);
    this.#services.observer?.attemptFailed(this.#sequence, attempts.current, "connect", detail, undefined);
  }
}
