import type { Caller } from "../../base/inference/caller.ts";
import type { AttemptFailure, Endpoint } from "../../base/inference/endpoint.ts";
import { messageOf } from "../../base/inference/errors.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import { bodyTooLarge } from "../../picker/exchange/request-body.ts";
import type { Decision, EndCause, Exchange, Wire } from "../../picker/exchange/wire.ts";
import { addRequestId, apiShapeOf } from "./api-shapes.ts";
import { Attempt, type AttemptListener, USED_UP } from "./attempt.ts";
import { type BadRequest, BODY_TIMEOUT } from "./bad-request.ts";
import type { ClientSide } from "./client-side.ts";
import { type ExchangePhase, receives } from "./exchange-phase.ts";
import { forwardedRequest, isLong } from "./forwarded-request.ts";
import { badRequestAnswer, lastEvent, rejectionAnswer, rejectionSlug } from "./local-answer.ts";
import { BACKOFF } from "./options.ts";
import type { HttpRequestHead } from "./request-head.ts";
import { changedHeaders, type ResponseHead } from "./response-head.ts";
import type { ProxyServices } from "./services.ts";
import type { StreamRest } from "./stream-rests.ts";
import { UploadPace } from "./upload-pace.ts";
import type { UpstreamRequest } from "./upstream/transport.ts";

const NOTHING = Buffer.alloc(0);

/**
 * Drives one exchange for one client request. The driver feeds the request to the exchange. It sends the decided request to the
 * endpoints of the list one after the other, and passes the answer back. It ends the exchange exactly once in every case
 * (envoy-data-plane 4.1).
 */
export class ExchangeDriver implements Wire, AttemptListener {
  readonly #services: ProxyServices;
  readonly #client: ClientSide;
  readonly #head: HttpRequestHead;
  readonly caller: Caller | undefined;
  readonly peer: string;
  #exchange: Exchange | undefined;
  #phase: ExchangePhase = "receiving";
  #received = 0;
  #pace: UploadPace | undefined;
  #forwarded: UpstreamRequest | undefined;
  #replayable = false;
  /** As `Routed.via`. */
  #via: string | undefined;
  /** Number of endpoints in the decision after the first. */
  #others = 0;
  /** Plugins set headers of the forwarded request, so a fault in it may be theirs. */
  #changedByPlugins = false;
  /** Attempts after the first one. */
  retries = 0;
  /** The answer to a request that breaks HTTP or stalls, once it is decided. */
  ownAnswer: BadRequest | undefined;
  #attempt: Attempt | undefined;
  /** Of an event stream. */
  #rest: StreamRest | undefined;
  /** The exchange has received the end of the answer. */
  #told = false;
  /** The last bytes of the answer that went to the client; they show whether an event is complete. */
  #tail: Uint8Array = NOTHING;

  constructor(services: ProxyServices, client: ClientSide, head: HttpRequestHead, caller?: Caller) {
    this.#services = services;
    this.#client = client;
    this.#head = head;
    this.caller = caller;
    this.peer = client.peer;
  }

  /** Begins. @param expectsContinue the client sends its body only after a 100 */
  start(expectsContinue: boolean): void {
    const { limits, timers } = this.#services;
    if (this.#head.end) {
      this.#open(true);
      return;
    }
    if (this.#isTooLong(this.#head.contentLength)) return;
    this.#pace = new UploadPace(timers.bodyIdle, limits.uploadRate, this.#in(0));
    this.#client.deadline = this.#in(timers.bodyIdle);
    // Otherwise the first byte of the body opens the exchange.
    if (expectsContinue) {
      this.#open(false);
      if (this.#phase === "receiving") this.#client.sendContinue();
    }
  }

  /** A piece of the request body. */
  requestChunk(chunk: Buffer): void {
    if (!receives(this.#phase)) return;
    this.#received += chunk.length;
    if (this.#phase === "receiving") this.#client.deadline = this.#pace!.due(this.#in(0), this.#received);
    if (!this.#isTooLong(this.#received)) this.#feed(chunk, false);
  }

  /** The request body is complete. @param last its last piece: a body that is one piece needs no copy */
  requestEnd(last: Buffer = NOTHING): void {
    if (!receives(this.#phase)) return;
    this.#received += last.length;
    if (this.#isTooLong(this.#received)) return;
    this.#phase = "deciding";
    this.#client.deadline = this.#in(this.#services.timers.picking);
    this.#feed(last, true);
  }

  /** The client left, or broke its connection. @param answer what it still gets, because it broke HTTP */
  clientGone(answer?: BadRequest): void {
    if (this.#phase === "done") return;
    this.ownAnswer = answer;
    this.#services.metrics?.clientGone();
    this.#close("client-gone");
  }

  /** The client has read the written bytes. */
  clientDrained(): void {
    if (this.#phase !== "answering") return;
    this.#client.deadline = this.#in(this.#services.timers.responseIdle);
    this.#attempt?.resume();
  }

  pauseRequest(): void {
    if (this.#phase !== "receiving") return;
    this.#phase = "held";
    this.#pace!.hold(this.#in(0));
    this.#client.deadline = Number.POSITIVE_INFINITY;
    this.#client.pauseRequest();
  }

  resumeRequest(): void {
    if (this.#phase !== "held") return;
    this.#phase = "receiving";
    this.#pace!.resume(this.#in(0));
    this.#client.deadline = this.#pace!.due(this.#in(0), this.#received);
    this.#client.resumeRequest();
  }

  evict(rejection: Rejection): void {
    if (this.#phase !== "done") this.#reject(rejection);
  }

  /** Whether the request has an exchange, now or before. */
  get opened(): boolean {
    return this.#exchange !== undefined;
  }

  /** True after the exchange has ended. */
  get done(): boolean {
    return this.#phase === "done";
  }

  /** The deadline that was set on the client's stream has passed. */
  expired(): void {
    const { timers } = this.#services;
    switch (this.#phase) {
      case "receiving":
        if (!this.opened) this.#services.metrics?.badRequest(BODY_TIMEOUT.slug);
        this.ownAnswer = BODY_TIMEOUT;
        this.#close("client-gone");
        this.#client.answer(
          badRequestAnswer(BODY_TIMEOUT, this.#answerId(BODY_TIMEOUT.status, BODY_TIMEOUT.reason)),
          true,
        );
        return;
      case "deciding":
        this.#reject(new Rejection("upstream_timeout", `no endpoint was picked within ${timers.picking} ms`));
        return;
      case "waiting":
        this.#reject(new Rejection("upstream_timeout", `${this.#where()} did not begin to answer in time`));
        return;
      case "answering":
        // The silent side is the one that the driver waits for.
        if (this.#client.needsDrain) this.clientGone();
        else {
          this.#services.metrics?.interrupted();
          this.#close("interrupted");
        }
        this.#client.cut();
    }
  }

  requestSent(): void {
    // Nobody needs the body now, so its bytes are free while the driver waits for the answer.
    if (this.#forwarded === undefined && this.#phase === "waiting") this.#exchange!.releaseBody();
  }

  answerHead(head: ResponseHead): void {
    try {
      this.#answerHead(head);
    } catch (error) {
      this.#failed(error);
    }
  }

  answerChunk(chunk: Buffer, parts: number): void {
    const now = this.#in(0);
    this.#client.deadline = now + this.#services.timers.responseIdle;
    if (this.#told) return;
    try {
      const out = this.#exchange!.responseBody(chunk, false, parts);
      if (out.length === 0) return;
      this.#tail = out;
      if (this.#client.write(out)) {
        this.#rest?.passed(now);
        return;
      }
      this.#client.deadline = now + this.#services.timers.clientStalled;
      this.#attempt!.pause();
    } catch (error) {
      this.#failed(error);
    }
  }

  answerEnd(): void {
    try {
      if (!this.#told) {
        this.#told = true;
        const rest = this.#exchange!.responseBody(NOTHING, true);
        if (rest.length > 0) this.#client.write(rest);
      }
      this.#close("complete");
      this.#client.end();
    } catch (error) {
      this.#failed(error);
    }
  }

  #answerHead(head: ResponseHead): void {
    const { status } = head;
    if (this.#services.retryStatuses.has(status) && this.#mayRetry()) {
      const endpoint = this.#attempt!.endpoint;
      const next = this.#exchange!.attemptFailed(endpoint, "status", `${endpoint.hostPort} answered ${status}`);
      if (!(next instanceof Rejection)) {
        this.#attempt!.cancel();
        this.#retryLater(next);
        return;
      }
    }
    const bodyless = this.#head.method === "HEAD" || status === 204 || status === 304 || head.contentLength === 0;
    this.#phase = "answering";
    this.#client.deadline = this.#in(this.#services.timers.responseIdle);
    if (head.eventStream) this.#rest = this.#services.rests.open(this.#attempt!);
    this.#forwarded = undefined;
    this.#exchange!.releaseBody();
    this.#told = bodyless;
    const set = this.#exchange!.responseHeaders(status, head.headers, bodyless);
    // The length changes: a restored model name seldom has the length of the name that it replaces.
    const resized = this.#exchange!.rewritesResponse && !bodyless;
    const headers = changedHeaders(head.headers, set, resized);
    const { requestId, requestIdGenerated } = this.#exchange!;
    addRequestId(headers, this.#head.path, requestId, requestIdGenerated);
    this.#client.writeHead({ ...head, headers, contentLength: resized ? -1 : head.contentLength }, bodyless);
  }

  attemptFailed(failure: AttemptFailure, detail: string): void {
    const endpoint = this.#attempt!.endpoint;
    const mayRetry = this.#mayRetry();
    const next = this.#exchange!.attemptFailed(endpoint, failure, detail);
    if (next instanceof Rejection) this.#reject(next);
    else if (!mayRetry) this.#reject(new Rejection(USED_UP[failure], `${endpoint.hostPort}: ${detail}`));
    else {
      this.retries++;
      this.#services.metrics?.retried(failure);
      this.#send(next);
    }
  }

  answerLost(detail: string): void {
    if (this.#phase !== "answering") {
      this.#reject(new Rejection("upstream_reset", `${this.#where()} broke off before its answer began: ${detail}`));
      return;
    }
    this.#services.metrics?.interrupted();
    this.#close("interrupted");
    if (this.#rest !== undefined) this.#client.write(lastEvent(this.#tail, detail, apiShapeOf(this.#head.path)));
    this.#client.cut();
  }

  attemptRefused(error: Error): void {
    if (this.#changedByPlugins) {
      this.#failed(error);
      return;
    }
    this.#reject(new Rejection("bad_request", `the request cannot be forwarded: ${messageOf(error)}`));
  }

  attemptOver(endpoint: Endpoint): void {
    this.#services.pools.release(this.#serverOf(endpoint));
  }

  /** The server that gets the requests for an endpoint. */
  #serverOf(endpoint: Endpoint): Pick<Endpoint, "hostPort" | "scheme"> {
    return this.#via === undefined ? endpoint : { hostPort: this.#via, scheme: endpoint.scheme };
  }

  /** Opens the exchange with the head; a request without a body is decided at once. */
  #open(end: boolean): void {
    try {
      const exchange = this.#services.openExchange(this);
      this.#exchange = exchange;
      if (end) {
        this.#phase = "deciding";
        this.#client.deadline = this.#in(this.#services.timers.picking);
      }
      const decision = exchange.requestHeaders(this.#head.headers, end);
      if (decision !== undefined) this.#decided(decision);
    } catch (error) {
      this.#failed(error);
    }
  }

  #feed(chunk: Buffer, end: boolean): void {
    if (this.#exchange === undefined) this.#open(false);
    if (this.#settled()) return;
    try {
      const decision = this.#exchange!.requestBody(chunk, end);
      if (decision === undefined) return;
      if (decision instanceof Promise) this.#decideLater(decision);
      else this.#decided(decision);
    } catch (error) {
      this.#failed(error);
    }
  }

  #decideLater(promise: Promise<Decision>): void {
    promise.then(
      (decision) => {
        try {
          this.#decided(decision);
        } catch (error) {
          this.#failed(error);
        }
      },
      (error) => this.#failed(error),
    );
  }

  /** An internal error of sluice. */
  #failed(error: unknown): void {
    if (this.#phase === "done") return;
    this.#services.onError(error);
    this.#refuse(new Rejection("internal", messageOf(error)), "error");
  }

  #settled(): boolean {
    return this.#phase === "done" || this.#phase === "waiting";
  }

  #decided(decision: Decision): void {
    // The client may have left while its request was queued; then the exchange has ended already.
    if (this.#settled()) return;
    if (decision instanceof Rejection) {
      this.#reject(decision);
      return;
    }
    this.#forwarded = forwardedRequest(this.#head, decision, this.#exchange!.requestId, this.#services);
    this.#changedByPlugins = decision.headers !== undefined;
    this.#replayable = decision.bodyLength <= this.#services.limits.replayBytes;
    this.#others = decision.endpoints.length - 1;
    this.#via = decision.via;
    this.#send(decision.endpoints[0]!);
    // A long body that is sent once is released later, in `requestSent`.
    if (!this.#replayable && this.#forwarded !== undefined && this.#phase === "waiting") {
      this.#forwarded = undefined;
      this.#exchange!.releaseBody();
    }
  }

  #send(endpoint: Endpoint): void {
    const { timers, pools } = this.#services;
    this.#phase = "waiting";
    this.#client.deadline = this.#in(timers.firstByte > 0 ? timers.firstByte : timers.responseIdle);
    this.#attempt = new Attempt(this, endpoint);
    const request = this.#forwarded!;
    // The transport keeps no body that it has sent.
    if ((!this.#mayRetry() || this.retries >= this.#others) && isLong(request)) this.#forwarded = undefined;
    pools.dispatch(this.#serverOf(endpoint), request, this.#attempt);
  }

  #mayRetry(): boolean {
    return this.retries < this.#services.maxRetries && this.#replayable;
  }

  /** A server that reports overload needs a pause before the retry. A dead server needs none. */
  #retryLater(endpoint: Endpoint): void {
    const { clock, random, metrics } = this.#services;
    const wait = Math.min(BACKOFF.longest, BACKOFF.first * 2 ** this.retries) * (0.5 + random.next() / 2);
    this.retries++;
    metrics?.retried("status");
    clock.after(wait, () => {
      if (this.#phase === "waiting") this.#send(endpoint);
    });
  }

  /** The id for an answer of the proxy. An exchange logs its own end; without one, the answer is logged here. */
  #answerId(status: number, reason: string): string {
    if (this.#exchange !== undefined) return this.#exchange.requestId;
    const { requestId } = this.#client;
    const { method, path: target } = this.#head;
    this.#services.onUnopened?.({ requestId, method, target, status, reason });
    return requestId;
  }

  #where(): string {
    return this.#attempt?.endpoint.hostPort ?? "the endpoint";
  }

  /** Whether a body has more bytes than it may have; then the request is refused. */
  #isTooLong(bytes: number): boolean {
    const { bodyBytes } = this.#services.limits;
    if (bytes <= bodyBytes) return false;
    this.#reject(bodyTooLarge(bodyBytes));
    return true;
  }

  #reject(rejection: Rejection): void {
    this.#refuse(rejection, "rejected");
  }

  #refuse(rejection: Rejection, cause: EndCause): void {
    if (!this.opened) this.#services.metrics?.badRequest(rejectionSlug(rejection));
    const complete = !receives(this.#phase);
    this.#close(cause, rejection);
    if (this.#client.headWritten) this.#client.cut();
    else {
      const id = this.#answerId(rejection.status, rejection.reason);
      this.#client.answer(rejectionAnswer(rejection, id, this.#exchange?.ownHeaders), !complete);
    }
  }

  /** Ends the exchange. The caller decides which answer the client still gets. */
  #close(cause: EndCause, rejection?: Rejection): void {
    if (this.#phase === "done") return;
    this.#phase = "done";
    this.#rest?.end();
    this.#forwarded = undefined;
    this.#attempt?.cancel();
    this.#attempt = undefined;
    this.#exchange?.end(cause, rejection);
  }

  #in(ms: number): number {
    return this.#services.clock.now() + ms;
  }
}
