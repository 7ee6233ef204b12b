import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { BodyWriter } from "./body-writer.ts";
import { ClientStream, type Expectation } from "./client-stream.ts";
import type { LocalAnswer } from "./local-answer.ts";
import { flat, type ResponseHead } from "./response-head.ts";
import type { ProxyServices } from "./services.ts";

const STREAM = Symbol("client stream");
type Tagged = { [STREAM]: Http1Stream };

// All requests share one function per event, which finds the stream on the emitter. So a request creates no closures.
function onData(this: unknown, chunk: Buffer): void {
  (this as Tagged)[STREAM].requestData(chunk);
}
function onEnd(this: unknown): void {
  (this as Tagged)[STREAM].requestEnded();
}
function onDrain(this: unknown): void {
  (this as Tagged)[STREAM].drainedNow();
}
function onClose(this: unknown): void {
  (this as Tagged)[STREAM].closed();
}
/** Ignores errors of writes to a client that has just left; the `close` event reports that. */
function ignore(): void {}
function flushHead(stream: Http1Stream): void {
  stream.flushHead();
}

function endSoon(socket: Socket): void {
  socket.destroySoon();
}

/** The connection that carries the request. */
interface OwnConnection {
  /** Address of the client. */
  readonly address: string;
  /** TLS. */
  readonly secure: boolean;
  /** The connection accepts no further request. */
  closing: boolean;
  /** The answer has completely left, or the connection is gone. */
  finished(): void;
}

/** The client's side over node's request and response of HTTP/1.1. It writes every piece at once and collects nothing. */
export class Http1Stream extends ClientStream {
  readonly #connection: OwnConnection;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  /** Undefined before the first piece of the body. */
  #body: BodyWriter | undefined;
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
    const lines = {
      method: request.method ?? "",
      target: request.url ?? "",
      version: request.httpVersion,
      raw: request.rawHeaders,
      secure: connection.secure,
      ended: false,
    };
    super(services, connection.address, lines, expectation);
    this.#connection = connection;
    this.#request = request;
    this.#response = response;
  }

  override begin(): void {
    if (this.#connection.closing) return;
    (this.#response as unknown as Tagged)[STREAM] = this;
    this.#response.on("close", onClose);
    this.#response.on("error", ignore);
    super.begin();
  }

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

  flushHead(): void {
    if (this.answered === "head") this.#response.flushHeaders();
  }

  /** @returns false: the caller must wait for `clientDrained` */
  write(bytes: Uint8Array): boolean {
    this.answered = "body";
    this.#body ??= new BodyWriter(this.#response);
    if (this.#body.write(bytes)) return true;
    this.needsDrain = true;
    if (!this.#listensDrain) {
      this.#listensDrain = true;
      this.#response.on("drain", onDrain);
    }
    return false;
  }

  /** The answer is complete. */
  end(): void {
    this.answered = "ended";
    if (this.#body === undefined) this.#response.end();
    else this.#body.end();
    this.watch(this.services.timers.clientStalled);
  }

  /** The answer will never be complete. The written bytes go out, then the connection ends, so the client notices. */
  cut(): void {
    const { socket } = this.#response;
    this.answered = "ended";
    this.#connection.closing = true;
    if (socket === null) return;
    // Without framing, an orderly end would look like a complete answer.
    if (this.#closeDelimited) socket.resetAndDestroy();
    // Node hands a written piece to the socket only in the next tick.
    else process.nextTick(endSoon, socket);
    this.watch(this.services.timers.linger);
  }

  /** The socket, or node's response, has passed on what it held. */
  drainedNow(): void {
    if (this.needsDrain) this.drained();
  }

  requestData(chunk: Buffer): void {
    // When the connection is closing, the bytes after these broke HTTP: the proxy ignores these bytes.
    if (this.answered !== "lingering" && !this.#connection.closing) this.driver!.requestChunk(chunk);
  }

  requestEnded(): void {
    if (this.answered === "lingering") this.#endLingering();
    else if (!this.#connection.closing) this.driver!.requestEnd();
  }

  closed(): void {
    this.services.deadlines.delete(this);
    this.driver?.clientGone();
    this.#connection.finished();
  }

  protected get gone(): boolean {
    return this.#connection.closing || this.#response.destroyed;
  }

  /** The head leaves with the first bytes of the body if they arrive in the same turn, else alone. */
  protected sendHead(head: ResponseHead, bodyless: boolean): void {
    const response = this.#response;
    if (this.services.draining) response.shouldKeepAlive = false;
    response.writeHead(head.status, flat(head.headers));
    this.answered = "head";
    this.#closeDelimited = !bodyless && head.contentLength < 0 && this.#request.httpVersion === "1.0";
    process.nextTick(flushHead, this);
  }

  protected sendAnswer(answer: LocalAnswer, last: boolean): void {
    const response = this.#response;
    if (response.destroyed) return;
    if (last) this.#connection.closing = true;
    if (last || this.services.draining) response.shouldKeepAlive = false;
    response.writeHead(answer.status, answer.headers as string[]);
    const bodyComing = !this.#request.complete && (this.expectation !== "continue" || this.#continued);
    if (!last || !bodyComing) {
      this.answered = "ended";
      response.end(answer.body);
      this.watch(this.services.timers.linger);
      return;
    }
    // A close with unread bytes resets the connection, and the client may lose the answer. So the proxy reads on for a moment.
    response.write(answer.body);
    this.answered = "lingering";
    this.listen();
    this.#request.resume();
    this.watch(this.services.timers.linger);
  }

  protected listen(): void {
    const request = this.#request;
    if (request.listenerCount("data") > 0) return;
    (request as unknown as Tagged)[STREAM] = this;
    request.on("data", onData);
    request.on("end", onEnd);
  }

  protected giveUp(): void {
    if (this.answered === "lingering") this.#endLingering();
    else this.#request.socket.destroy();
  }

  #endLingering(): void {
    this.answered = "ended";
    this.watch(this.services.timers.linger);
    this.#response.end();
  }
}
