import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { BadRequest, EXPECTATION_UNKNOWN } from "./bad-request.ts";
import type { Timed } from "./deadlines.ts";
import { type ClientSide, ExchangeDriver } from "./exchange-driver.ts";
import { badRequestAnswer, type LocalAnswer, requestIdOf } from "./local-answer.ts";
import { readHead } from "./request-head.ts";
import { flat, type ResponseHead } from "./response-head.ts";
import type { ProxyServices } from "./services.ts";

/** What the request asked for in `Expect`. */
export type Expectation = "none" | "continue" | "unknown";

const STREAM = Symbol("client stream");
type Tagged = { [STREAM]: ClientStream };

// One function per event for all requests, the stream being found on the emitter: no closures per request.
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
/** Writing to a client that has just left; its `close` tells us. */
function ignore(): void {}
function flushHead(stream: ClientStream): void {
  stream.flushHead();
}

function endSoon(socket: Socket): void {
  socket.destroySoon();
}

/**
 * How far the answer is. `head`: node has the status line and keeps it for the first bytes of the body. `lingering`: complete, and
 * the rest of the request is still read.
 */
type Answer = "none" | "head" | "body" | "lingering" | "ended";

/** The connection that a request came on. */
interface OwnConnection {
  /** Address of the client. */
  readonly peer: string;
  /** No further request is taken from it. */
  closing: boolean;
  /** The answer has left completely, or the connection is gone. */
  finished(): void;
}

/**
 * The client's side of one exchange: request body in, answer out, over node's request and response. Every piece is
 * written at once; nothing is collected. After the last byte it watches that the client takes it.
 */
export class ClientStream implements ClientSide, Timed {
  /** Set by the driver while its exchange is open, afterwards here. */
  deadline = Number.POSITIVE_INFINITY;
  /** The client has not yet taken what was written; it will be told through `clientDrained`. */
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
  /** The end of the body is the end of the connection: HTTP/1.0 without a length. */
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
      this.#services.metrics?.badRequest(head.slug);
      this.answer(badRequestAnswer(head, this.requestId), true);
      return;
    }
    this.#driver = new ExchangeDriver(this.#services, this, head);
    if (!head.end) this.#listen();
    this.#driver.start(this.#expectation === "continue");
  }

  /** The status line of an answer was handed to node. */
  get headWritten(): boolean {
    return this.#answer !== "none";
  }

  /** `x-request-id` of the client, or a fresh one each time. */
  get requestId(): string {
    return requestIdOf(this.#request.rawHeaders, this.#services.random);
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
   * The head of the model server's answer. It leaves with the first bytes of the body if they are there in the same turn,
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

  /** @returns false: stop until `clientDrained` */
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

  /** The answer will never be complete: what was written goes out, then the connection ends so that the client notices. */
  cut(): void {
    const { socket } = this.#response;
    this.#answer = "ended";
    this.#connection.closing = true;
    if (socket === null) return;
    // Without framing an orderly end would look like a complete answer.
    if (this.#closeDelimited) socket.resetAndDestroy();
    // Node hands a written piece to the socket only in the next tick.
    else process.nextTick(endSoon, socket);
    this.#watch(this.#services.timers.linger);
  }

  /** An answer of our own. @param last the connection ends with it, since the request is broken or not read to its end */
  answer(answer: LocalAnswer, last: boolean): void {
    const response = this.#response;
    if (response.destroyed) return;
    if (last) this.#connection.closing = true;
    if (last || this.#services.draining) response.shouldKeepAlive = false;
    response.writeHead(answer.status, answer.headers as string[]);
    const bodyComing = !this.#request.complete && (this.#expectation !== "continue" || this.#continued);
    if (!last || !bodyComing) {
      this.#answer = "ended";
      response.end(answer.body);
      this.#watch(this.#services.timers.linger);
      return;
    }
    // Closing with unread bytes resets the connection, and the client may never see the answer: read on for a moment.
    response.write(answer.body);
    this.#answer = "lingering";
    this.#listen();
    this.#request.resume();
    this.#watch(this.#services.timers.linger);
  }

  /** The client closed its half of the connection, or broke it. */
  clientGone(): void {
    this.#driver?.clientGone();
  }

  requestData(chunk: Buffer): void {
    // A connection that is closing broke HTTP after these bytes: nothing is done with them.
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
