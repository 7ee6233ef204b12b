import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Caller } from "../../base/inference/caller.ts";
import { messageOf } from "../../base/inference/errors.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import { forAnthropic, isAnthropic } from "./api-shapes.ts";
import { BadRequest, EXPECTATION_UNKNOWN } from "./bad-request.ts";
import type { ClientSide } from "./client-side.ts";
import type { Timed } from "./deadlines.ts";
import { ExchangeDriver } from "./exchange-driver.ts";
import { badRequestAnswer, type LocalAnswer, rejectionAnswer, rejectionSlug, requestIdOf } from "./local-answer.ts";
import type { Verdict } from "./options.ts";
import { type HttpRequestHead, readHead } from "./request-head.ts";
import { flat, type ResponseHead } from "./response-head.ts";
import type { ProxyServices } from "./services.ts";

/** The value of the request header `Expect`. */
export type Expectation = "none" | "continue" | "unknown";

const STREAM = Symbol("client stream");
type Tagged = { [STREAM]: ClientStream };

// All requests share one function per event, which finds the stream on the emitter. So a request creates no closures.
function onData(this: unknown, chunk: Buffer): void {
  (this as Tagged)[STREAM].requestData(chunk);
}
function onEnd(this: unknown): void {
  (this as Tagged)[STREAM].requestEnded();
}
function onDrain(this: unknown): void {
  (this as Tagged)[STREAM].drained();
}
function onClose(this: unknown): void {
  (this as Tagged)[STREAM].closed();
}
/** Ignores errors of writes to a client that has just left; the `close` event reports that. */
function ignore(): void {}
function flushHead(stream: ClientStream): void {
  stream.flushHead();
}

function endSoon(socket: Socket): void {
  socket.destroySoon();
}

/**
 * The progress of the answer. `head`: node holds the status line until the first bytes of the body. `lingering`: the answer is
 * complete, and the proxy still reads the rest of the request.
 */
type Answer = "none" | "head" | "body" | "lingering" | "ended";

/** The connection that carries the request. */
interface OwnConnection {
  /** Address of the client. */
  readonly peer: string;
  /** The connection accepts no further request. */
  closing: boolean;
  /** The answer has completely left, or the connection is gone. */
  finished(): void;
}

/**
 * The client's side of one exchange, over node's request and response: request body in, answer out. It writes every piece at
 * once and collects nothing. After the last byte it watches that the client reads the answer.
 */
export class ClientStream implements ClientSide, Timed {
  /** The driver sets it while its exchange is open; afterwards this class sets it. */
  deadline = Number.POSITIVE_INFINITY;
  /** The client has not yet read all written bytes; `clientDrained` follows. */
  needsDrain = false;
  readonly #services: ProxyServices;
  readonly #connection: OwnConnection;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #expectation: Expectation;
  #driver: ExchangeDriver | undefined;
  #answer: Answer = "none";
  #continued = false;
  #listensDrain = false;
  /** The end of the connection marks the end of the body: HTTP/1.0 without a length. */
  #closeDelimited = false;

  constructor(
    services: ProxyServices,
    connection: OwnConnection,
    request: IncomingMessage,
    response: ServerResponse,
    expectation: Expectation,
  ) {
    this.#services = services;
    this.#connection = connection;
    this.#request = request;
    this.#response = response;
    this.#expectation = expectation;
  }

  /** Answers the request, or opens its exchange. */
  begin(): void {
    if (this.#connection.closing) return;
    const { limits, allowUnderscores } = this.#services;
    (this.#response as unknown as Tagged)[STREAM] = this;
    this.#response.on("close", onClose);
    this.#services.deadlines.add(this);
    this.#response.on("error", ignore);
    const head =
      this.#expectation === "unknown"
        ? EXPECTATION_UNKNOWN
        : readHead(this.#request, this.#connection.peer, limits, allowUnderscores);
    if (head instanceof BadRequest) {
      this.#refuse(head);
      return;
    }
    const verdict = this.#services.authenticate?.(head);
    // Until the promise is settled, nobody reads the body, so node stops reading the connection.
    if (verdict instanceof Promise)
      verdict.then(
        (found) => this.#recognised(head, found),
        (error: unknown) => this.#failed(error),
      );
    else this.#recognised(head, verdict);
  }

  /** The client is known, or refused. */
  #recognised(head: HttpRequestHead, verdict: Verdict): void {
    if (this.#connection.closing || this.#response.destroyed) return;
    const refusal = verdict instanceof Rejection ? verdict : this.#services.paths.judge(head.method, head.path);
    if (refusal !== undefined) {
      this.#refuse(refusal);
      return;
    }
    const caller = verdict as Caller | undefined;
    const own = this.#services.ownAnswer?.(head, this, caller);
    if (own !== undefined) {
      this.answer(own, !head.end);
      return;
    }
    this.#driver = new ExchangeDriver(this.#services, this, head, caller);
    if (!head.end) this.#listen();
    this.#driver.start(this.#expectation === "continue");
  }

  /** An internal error of sluice, before there was an exchange. */
  #failed(error: unknown): void {
    this.#services.onError(error);
    if (!this.#connection.closing && !this.#response.destroyed)
      this.#refuse(new Rejection("internal", messageOf(error)));
  }

  get peer(): string {
    return this.#connection.peer;
  }

  /** Node has the status line of an answer. */
  get headWritten(): boolean {
    return this.#answer !== "none";
  }

  /** `x-request-id` of the client; without it a new id on each read. */
  get requestId(): string {
    return requestIdOf(this.#request.rawHeaders, this.#services.random);
  }

  /** The id for the answer to a request that is refused. A request without an exchange is logged here. */
  answerId({ status, reason }: BadRequest | Rejection): string {
    const { requestId } = this;
    const { method, url } = this.#request;
    if (this.#driver?.opened !== true) this.#services.onUnopened?.({ requestId, method, target: url, status, reason });
    return requestId;
  }

  /** Whether the request has arrived completely. */
  get requestComplete(): boolean {
    return this.#request.complete;
  }

  sendContinue(): void {
    this.#continued = true;
    this.#response.writeContinue();
  }

  pauseRequest(): void {
    this.#request.pause();
  }

  resumeRequest(): void {
    this.#request.resume();
  }

  /**
   * Writes the head of the model server's answer. It leaves with the first bytes of the body if they arrive in the same turn,
   * else alone.
   */
  writeHead(head: ResponseHead, bodyless: boolean): void {
    const response = this.#response;
    if (this.#services.draining) response.shouldKeepAlive = false;
    response.writeHead(head.status, flat(head.headers));
    this.#answer = "head";
    this.#closeDelimited = !bodyless && head.contentLength < 0 && this.#request.httpVersion === "1.0";
    process.nextTick(flushHead, this);
  }

  flushHead(): void {
    if (this.#answer === "head") this.#response.flushHeaders();
  }

  /** @returns false: the caller must wait for `clientDrained` */
  write(bytes: Uint8Array): boolean {
    this.#answer = "body";
    if (this.#response.write(bytes)) return true;
    this.needsDrain = true;
    if (!this.#listensDrain) {
      this.#listensDrain = true;
      this.#response.on("drain", onDrain);
    }
    return false;
  }

  /** The answer is complete. */
  end(): void {
    this.#answer = "ended";
    this.#response.end();
    this.#watch(this.#services.timers.responseIdle);
  }

  /** The answer will never be complete. The written bytes go out, then the connection ends, so the client notices. */
  cut(): void {
    const { socket } = this.#response;
    this.#answer = "ended";
    this.#connection.closing = true;
    if (socket === null) return;
    // Without framing, an orderly end would look like a complete answer.
    if (this.#closeDelimited) socket.resetAndDestroy();
    // Node hands a written piece to the socket only in the next tick.
    else process.nextTick(endSoon, socket);
    this.#watch(this.#services.timers.linger);
  }

  /** An answer of the proxy. @param last the connection ends with it: the request is broken or not read to its end */
  answer(answer: LocalAnswer, last: boolean): void {
    const response = this.#response;
    if (response.destroyed) return;
    if (last) this.#connection.closing = true;
    if (last || this.#services.draining) response.shouldKeepAlive = false;
    const { url, rawHeaders } = this.#request;
    const { status, headers, body } = isAnthropic(url, rawHeaders) ? forAnthropic(answer) : answer;
    response.writeHead(status, headers as string[]);
    const bodyComing = !this.#request.complete && (this.#expectation !== "continue" || this.#continued);
    if (!last || !bodyComing) {
      this.#answer = "ended";
      response.end(body);
      this.#watch(this.#services.timers.linger);
      return;
    }
    // A close with unread bytes resets the connection, and the client may lose the answer. So the proxy reads on for a moment.
    response.write(body);
    this.#answer = "lingering";
    this.#listen();
    this.#request.resume();
    this.#watch(this.#services.timers.linger);
  }

  /** The client closed its half of the connection, or broke it. @param answer what it still gets, because it broke HTTP */
  clientGone(answer?: BadRequest): void {
    this.#driver?.clientGone(answer);
  }

  requestData(chunk: Buffer): void {
    // When the connection is closing, the bytes after these broke HTTP: the proxy ignores these bytes.
    if (this.#answer !== "lingering" && !this.#connection.closing) this.#driver!.requestChunk(chunk);
  }

  requestEnded(): void {
    if (this.#answer === "lingering") this.#endLingering();
    else if (!this.#connection.closing) this.#driver!.requestEnd();
  }

  drained(): void {
    this.needsDrain = false;
    this.#driver?.clientDrained();
  }

  closed(): void {
    this.#services.deadlines.delete(this);
    this.#driver?.clientGone();
    this.#connection.finished();
  }

  expired(): void {
    if (this.#driver?.done === false) this.#driver.expired();
    else if (this.#answer === "lingering") this.#endLingering();
    else this.#request.socket.destroy();
  }

  /** Answers a request that opens no exchange. */
  #refuse(refusal: BadRequest | Rejection): void {
    const { metrics } = this.#services;
    if (refusal instanceof BadRequest) {
      metrics?.badRequest(refusal.slug);
      this.answer(badRequestAnswer(refusal, this.answerId(refusal)), true);
    } else {
      metrics?.badRequest(rejectionSlug(refusal));
      this.answer(rejectionAnswer(refusal, this.answerId(refusal)), !this.#request.complete);
    }
  }

  #endLingering(): void {
    this.#answer = "ended";
    this.#watch(this.#services.timers.linger);
    this.#response.end();
  }

  #listen(): void {
    const request = this.#request;
    if (request.listenerCount("data") > 0) return;
    (request as unknown as Tagged)[STREAM] = this;
    request.on("data", onData);
    request.on("end", onEnd);
  }

  #watch(ms: number): void {
    this.deadline = this.#services.clock.now() + ms;
  }
}
