import type { Socket } from "node:net";
import type { Guest } from "../../base/grpc/h2/limits.ts";
import { readInto } from "../../base/grpc/h2/socket.ts";
import { AnswerWriter } from "./answer-writer.ts";
import { type BadRequest, HEADERS_TIMEOUT, UPGRADE_REFUSED } from "./bad-request.ts";
import type { ConnectionHost } from "./connection-host.ts";
import type { Timed } from "./deadlines.ts";
import { Http1Stream } from "./http1-stream.ts";
import type { InboundRequest } from "./inbound-request.ts";
import { badRequestAnswer, rawAnswer, requestIdOf } from "./local-answer.ts";
import { RequestParser } from "./request-parser.ts";
import type { ProxyServices } from "./services.ts";

/** Bytes of a body that may come before somebody takes them. With more, the connection is not read. */
const MOST_UNREAD = 64 * 1024;

/** A client may use a connection until the very end of the time that its answers name. */
const KEPT_LONGER = 1000;

/**
 * The state of a connection:
 *
 * | State | It waits for | Bytes that come |
 * |---|---|---|
 * | `fresh` | the first byte of its first request | are parsed |
 * | `head` | the rest of a head; no request is served | are parsed |
 * | `busy` | the end of the answer to the current request | are parsed; requests wait |
 * | `idle` | the first byte of the next request | are parsed |
 * | `lingering` | the rest of the current request, which is refused | are parsed and dropped |
 * | `closing` | the client, which takes the last bytes | are dropped |
 * | `gone` | nothing: the socket is closed or destroyed | |
 */
type State = "fresh" | "head" | "busy" | "idle" | "lingering" | "closing" | "gone";

/** Whether the connection takes further requests. */
const TAKES: Record<State, boolean> = {
  fresh: true,
  head: true,
  busy: true,
  idle: true,
  lingering: false,
  closing: false,
  gone: false,
};

/** What happens when the deadline of the connection has passed. */
const EXPIRED: Record<State, "refuse" | "destroy"> = {
  fresh: "refuse",
  head: "refuse",
  // The head of a request behind the current one is not complete in time. An answer would be taken for the current one.
  busy: "destroy",
  idle: "destroy",
  lingering: "destroy",
  closing: "destroy",
  gone: "destroy",
};

/** One client connection of HTTP/1.1: reads its requests, serves them one after the other, and ends the connection. */
export class ClientConnection implements Guest, Timed {
  /** Address of the client. */
  readonly address: string;
  /** The stream of the current request watches the client while there is one; this deadline is for all other times. */
  deadline: number;
  readonly socket: Socket;
  readonly writer: AnswerWriter;
  readonly #services: ProxyServices;
  readonly #host: ConnectionHost;
  readonly #parser: RequestParser;
  #state: State = "fresh";
  #current: Http1Stream | undefined;
  readonly #waiting: InboundRequest[] = [];
  #paused = false;
  /** A head has come in the present piece. */
  #headed = false;

  /** @param socket accepted, and not read from @param secure TLS */
  constructor(services: ProxyServices, host: ConnectionHost, socket: Socket, address: string, secure: boolean) {
    const { clock, deadlines, limits, timers } = services;
    this.#services = services;
    this.#host = host;
    this.address = address;
    this.deadline = clock.now() + timers.requestHeaders;
    // The parser counts the target with the headers. The proxy checks both sizes again, so 414 and 431 stay distinct.
    this.#parser = new RequestParser(this, secure, limits.headerBytes + limits.targetBytes, limits.headerCount);
    const read = (bytes: Buffer): void => this.#read(bytes);
    this.socket = secure ? socket.on("data", read) : readInto(socket, read, () => host.limits.size, true);
    this.writer = new AnswerWriter(this.socket);
    this.socket.on("close", () => this.#closed());
    this.socket.on("end", () => this.#ended());
    this.socket.on("drain", () => this.#current?.drainedNow());
    // A client that breaks off; the close follows.
    this.socket.on("error", () => this.destroy());
    deadlines.add(this);
  }

  /** The connection accepts no further request. */
  get closing(): boolean {
    return !TAKES[this.#state];
  }

  /** Runs inside the parser. */
  requestHead(request: InboundRequest): boolean {
    if (this.closing) return false;
    this.#headed = true;
    if (this.#current === undefined) this.#begin(request);
    // Answers leave in order in any case; a second exchange at the same time would only hold memory.
    else return this.#waiting.push(request) <= this.#services.limits.pipelined;
    return true;
  }

  endsHere(lingers: boolean): void {
    if (this.#state === "gone") return;
    this.#state = lingers ? "lingering" : "closing";
    this.deadline = Number.POSITIVE_INFINITY;
    this.#waiting.length = 0;
    if (!lingers) this.#parser.stop();
  }

  balance(): void {
    if (this.#state === "gone") return;
    const paused = !this.closing && (this.#waiting.length > 0 || (this.#current?.unread ?? 0) >= MOST_UNREAD);
    if (paused === this.#paused) return;
    this.#paused = paused;
    if (paused) this.socket.pause();
    else this.socket.resume();
    this.#watchHead();
  }

  answered(): void {
    if (!this.closing) {
      this.writer.end(this.#left);
      return;
    }
    this.writer.end();
    this.socket.destroySoon();
  }

  /** Another connection needs the place of this one, which has no request. */
  giveWay(): void {
    this.#leave();
  }

  /** The proxy drains: a connection without a request closes. */
  drain(): void {
    if (this.#current === undefined && !this.closing) this.#leave();
  }

  /** Cuts the connection; the exchange in progress ends. */
  destroy(): void {
    this.#gone();
    this.#current?.clientGone();
    this.socket.destroy();
  }

  expired(): void {
    if (EXPIRED[this.#state] === "refuse") this.#refuse(HEADERS_TIMEOUT);
    else this.destroy();
  }

  #read(bytes: Buffer): void {
    if (this.#state === "closing" || this.#state === "gone") return;
    const parser = this.#parser;
    const before = parser.state;
    this.#headed = false;
    try {
      parser.read(bytes);
    } catch (error) {
      this.#services.onError(error);
      this.destroy();
      return;
    }
    if (parser.refusal !== undefined) this.#failed(parser.refusal);
    else if (this.#headed || before !== parser.state) this.#watchHead();
    this.#current?.deliver();
    this.balance();
  }

  /** The time for the rest of a head runs while the connection is read. */
  #watchHead(): void {
    if (this.closing) return;
    if (this.#parser.state === "head" && !this.#paused) {
      if (this.#current === undefined) this.#state = "head";
      this.deadline = this.#services.clock.now() + this.#services.timers.requestHeaders;
    } else if (this.#current !== undefined) this.deadline = Number.POSITIVE_INFINITY;
  }

  /** The bytes are no request. */
  #failed(bad: BadRequest): void {
    // The proxy does not read the bytes after a refused request as HTTP.
    if (this.closing) return;
    const current = this.#current;
    // While an answer is under way or due, the client would read a second answer as part of it.
    if (current !== undefined && (bad === UPGRADE_REFUSED || current.requestComplete || current.headWritten))
      this.destroy();
    else this.#refuse(bad);
  }

  /** Answers without a stream, and ends the connection. */
  #refuse(bad: BadRequest): void {
    const { clock, metrics, timers } = this.#services;
    const current = this.#current;
    this.endsHere(false);
    // The proxy reads and discards further bytes: a reset could destroy the answer.
    this.deadline = clock.now() + timers.linger;
    // An exchange counts its own end.
    if (current?.opened !== true) metrics?.badRequest(bad.slug);
    current?.clientGone(bad);
    const id = current?.answerId(bad) ?? this.#answerId(bad);
    if (this.socket.writable) this.socket.end(rawAnswer(badRequestAnswer(bad, id)));
    else this.destroy();
    this.balance();
  }

  /** The id for the answer to bytes that are no request. */
  #answerId({ status, reason }: BadRequest): string {
    const requestId = requestIdOf(undefined, this.#services.random);
    this.#services.onUnopened?.({ requestId, status, reason });
    return requestId;
  }

  /**
   * The request begins after the waiting I/O events. If bytes of these break HTTP, in its body or behind it, it does not begin.
   */
  #begin(request: InboundRequest): void {
    this.#state = "busy";
    this.deadline = Number.POSITIVE_INFINITY;
    this.#current = new Http1Stream(this.#services, this, request);
    this.#host.limits.move(this, "busy");
    this.#services.beginnings.add(this.#current);
  }

  /** The socket holds nothing of the current answer. */
  readonly #left = (error?: Error | null): void => {
    // Then the close follows.
    if (error || this.closing || this.#current === undefined) return;
    this.#current.closed();
    this.#current = undefined;
    const next = this.#waiting.shift();
    if (next !== undefined) this.#begin(next);
    else if (this.#services.draining) this.#end(this.#services.timers.linger);
    else this.#rest();
    this.balance();
  };

  /** There is no request. */
  #rest(): void {
    const { clock, timers } = this.#services;
    this.#host.limits.move(this, "idle");
    // The time for the next head runs already.
    this.#state = this.#parser.state === "head" ? "head" : "idle";
    if (this.#state === "idle") this.deadline = clock.now() + timers.clientKeepAlive + KEPT_LONGER;
  }

  /** The client closed its sending half: the proxy treats the client as gone, as Envoy does. */
  #ended(): void {
    const { state } = this.#parser;
    if (state === "head" || state === "body") this.destroy();
    else if (this.closing) this.socket.end();
    else {
      // What was written still leaves.
      this.#end(this.#services.timers.clientStalled);
      this.#current?.clientGone();
    }
  }

  /** Ends the sending half. @param ms for the client to take what was written, and to end the other half */
  #end(ms: number): void {
    if (this.#state === "gone") return;
    this.endsHere(false);
    this.deadline = this.#services.clock.now() + ms;
    this.writer.flush();
    this.socket.end();
  }

  /** Ends both halves once the client has what was written. */
  #leave(): void {
    this.endsHere(false);
    this.deadline = this.#services.clock.now() + this.#services.timers.clientStalled;
    this.socket.destroySoon();
  }

  #gone(): void {
    this.#state = "gone";
    this.deadline = Number.POSITIVE_INFINITY;
    this.#waiting.length = 0;
    this.#parser.stop();
  }

  #closed(): void {
    this.#gone();
    this.#services.deadlines.delete(this);
    this.#parser.free();
    this.#current?.closed();
    this.#current = undefined;
    this.#host.closed(this);
  }
}
