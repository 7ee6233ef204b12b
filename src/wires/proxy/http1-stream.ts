import type { Socket } from "node:net";
import { type AnswerFrame, type AnswerHead, flatHead, listedHead } from "./answer-head.ts";
import type { AnswerWriter } from "./answer-writer.ts";
import { ClientStream } from "./client-stream.ts";
import type { InboundRequest } from "./inbound-request.ts";
import type { LocalAnswer } from "./local-answer.ts";
import type { ResponseHead } from "./response-head.ts";
import type { ProxyServices } from "./services.ts";

const CONTINUE = "HTTP/1.1 100 Continue\r\n\r\n";

/** The connection that carries the request. */
interface OwnConnection {
  /** Address of the client. */
  readonly address: string;
  readonly socket: Socket;
  readonly writer: AnswerWriter;
  /** The connection accepts no further request. */
  readonly closing: boolean;
  /** The connection ends with the present answer. @param lingers it still reads the rest of the request */
  endsHere(lingers: boolean): void;
  /** Reads on, or stops reading, as the bytes say that nobody has taken. */
  balance(): void;
  /** The answer is complete. It has left, or will leave with the end of the connection. */
  answered(): void;
}

function deliverLater(stream: Http1Stream): void {
  stream.deliver();
}

/** The client's side of one request of HTTP/1.1. */
export class Http1Stream extends ClientStream {
  readonly #connection: OwnConnection;
  readonly #request: InboundRequest;
  /** The driver takes the body. */
  #listens = false;
  /** The driver wants the rest of the body later. */
  #held = false;
  #continued = false;
  /** The driver knows the end of the body. */
  #ended = false;
  #hasBody = false;
  /** What the client knows about the answer; undefined before its head. */
  #head: AnswerHead | undefined;

  constructor(services: ProxyServices, connection: OwnConnection, request: InboundRequest) {
    super(services, connection.address, request, request.expectation);
    this.#connection = connection;
    this.#request = request;
  }

  override begin(): void {
    if (!this.#connection.closing) super.begin();
  }

  get requestComplete(): boolean {
    return this.#request.complete;
  }

  /** Bytes of the body that have come and that the driver has not got. */
  get unread(): number {
    return this.#request.unread;
  }

  sendContinue(): void {
    this.#continued = true;
    const { socket } = this.#connection;
    if (socket.writable) socket.write(CONTINUE, "latin1");
  }

  pauseRequest(): void {
    this.#held = true;
  }

  resumeRequest(): void {
    this.#held = false;
    process.nextTick(deliverLater, this);
  }

  /** Hands on what has come of the body. */
  deliver(): void {
    if (!this.#listens) return;
    while (!this.#held) {
      const piece = this.#request.take();
      if (piece === undefined) break;
      if (this.#request.complete && this.#request.unread === 0) this.#requestEnded(piece);
      // When the connection is closing, nobody wants the bytes.
      else if (!this.#connection.closing) this.driver!.requestChunk(piece);
    }
    if (this.#request.complete && !this.#held && !this.#ended) this.#requestEnded();
    this.#connection.balance();
  }

  /** @returns false: the caller must wait for `clientDrained` */
  write(bytes: Uint8Array): boolean {
    this.answered = "body";
    if (!this.#hasBody) return true;
    if (this.#connection.writer.write(bytes)) return true;
    this.needsDrain = true;
    return false;
  }

  /** The answer is complete. */
  end(): void {
    this.#finish(this.services.timers.clientStalled);
  }

  /** The answer will never be complete. The written bytes go out, then the connection ends, so the client notices. */
  cut(): void {
    const { socket, writer } = this.#connection;
    this.answered = "ended";
    this.#connection.endsHere(false);
    this.watch(this.services.timers.linger);
    writer.flush();
    // Without framing, an orderly end would look like a complete answer.
    if (this.#head?.closeDelimited) socket.resetAndDestroy();
    else socket.destroySoon();
  }

  /** The socket has passed on what it held. */
  drainedNow(): void {
    if (this.needsDrain) this.drained();
  }

  /** The answer has left, or the connection is gone. */
  closed(): void {
    this.services.deadlines.delete(this);
    this.driver?.clientGone();
  }

  protected get gone(): boolean {
    return this.#connection.closing || this.#connection.socket.destroyed;
  }

  protected sendHead(head: ResponseHead, bodyless: boolean): void {
    const made = listedHead(head.status, head.headers, this.#frame(!bodyless));
    this.answered = "head";
    this.#begin(made);
  }

  protected sendAnswer(answer: LocalAnswer, last: boolean): void {
    const { socket, writer } = this.#connection;
    if (socket.destroyed) return;
    const hasBody = this.lines.method !== "HEAD" && answer.status !== 204;
    this.#begin(flatHead(answer.status, answer.headers, this.#frame(hasBody, last)));
    this.write(answer.body);
    const bodyComing = !this.#request.complete && (this.expectation !== "continue" || this.#continued);
    if (last) this.#connection.endsHere(bodyComing);
    if (!last || !bodyComing) {
      this.#finish(this.services.timers.linger);
      return;
    }
    // A close with unread bytes resets the connection, and the client may lose the answer. So the proxy reads on for a moment.
    writer.flush();
    this.answered = "lingering";
    this.#listens = true;
    this.resumeRequest();
    this.watch(this.services.timers.linger);
  }

  protected listen(): void {
    if (this.#listens) return;
    this.#listens = true;
    process.nextTick(deliverLater, this);
  }

  protected giveUp(): void {
    if (this.answered === "lingering") this.#finish(this.services.timers.linger);
    else this.#connection.socket.destroy();
  }

  #frame(hasBody: boolean, last = false): AnswerFrame {
    this.#hasBody = hasBody;
    const { clock, draining, timers } = this.services;
    // A request that is not read to its end hides where the next one begins.
    const { complete, keepAlive } = this.#request;
    return {
      http11: this.lines.version === "1.1",
      hasBody,
      keepAlive: keepAlive && complete && !last && !draining,
      keptFor: timers.clientKeepAlive,
      wall: clock.wall(),
    };
  }

  #begin(head: AnswerHead): void {
    this.#head = head;
    this.#connection.writer.begin(head.text, head.chunked);
  }

  /** @param last the last piece of the body, where the driver has not got it */
  #requestEnded(last?: Buffer): void {
    this.#ended = true;
    if (this.answered === "lingering") this.#finish(this.services.timers.linger);
    else if (!this.#connection.closing) this.driver!.requestEnd(last);
  }

  /** Ends the answer, and the connection if that is its last one. @param ms for the client to take it */
  #finish(ms: number): void {
    this.answered = "ended";
    this.watch(ms);
    if (this.#head?.keepAlive !== true) this.#connection.endsHere(false);
    this.#connection.answered();
  }
}
