import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Guest } from "../../base/grpc/h2/limits.ts";
import { type BadRequest, parserVerdict, UPGRADE_REFUSED } from "./bad-request.ts";
import type { Expectation } from "./client-stream.ts";
import type { ConnectionHost } from "./connection-host.ts";
import { Http1Stream } from "./http1-stream.ts";
import { badRequestAnswer, rawAnswer, requestIdOf } from "./local-answer.ts";
import type { ProxyServices } from "./services.ts";

/** A pipelined request that waits for its turn. */
interface Waiting {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly expectation: Expectation;
}

/** One client connection of HTTP/1.1: serves its requests one after the other, and ends the connection. */
export class ClientConnection implements Guest {
  /** Address of the client. */
  readonly address: string;
  /** TLS. */
  readonly secure: boolean;
  /** The connection accepts no further request. */
  closing = false;
  readonly #services: ProxyServices;
  readonly #host: ConnectionHost;
  readonly #socket: Socket;
  #current: Http1Stream | undefined;
  readonly #waiting: Waiting[] = [];
  #paused = false;

  constructor(services: ProxyServices, host: ConnectionHost, socket: Socket, address: string, secure: boolean) {
    this.#services = services;
    this.#host = host;
    this.#socket = socket;
    this.address = address;
    this.secure = secure;
    socket.once("close", () => host.closed(this));
    socket.once("end", () => this.ended());
    socket.on("drain", () => this.#current?.drainedNow());
  }

  accept(request: IncomingMessage, response: ServerResponse, expectation: Expectation): void {
    if (this.closing) return;
    if (this.#current === undefined) {
      this.#begin({ request, response, expectation });
      return;
    }
    if (this.#waiting.length >= this.#services.limits.pipelined) {
      this.destroy();
      return;
    }
    // Answers leave in order in any case; a second exchange at the same time would only hold memory.
    this.#waiting.push({ request, response, expectation });
    this.#paused = true;
    this.#socket.pause();
  }

  /** The current answer has completely left, or the connection is gone. */
  finished(): void {
    this.#current = undefined;
    if (this.#socket.destroyed) {
      this.#waiting.length = 0;
      return;
    }
    const next = this.closing ? undefined : this.#waiting.shift();
    if (next !== undefined) this.#begin(next);
    else if (this.#services.draining) this.#socket.end();
    else this.#host.limits.move(this, "idle");
    if (this.#paused && this.#waiting.length === 0) {
      this.#paused = false;
      this.#socket.resume();
    }
  }

  /** The client closed its sending half: the proxy treats the client as gone, as Envoy does. */
  ended(): void {
    this.closing = true;
    this.#current?.clientGone();
  }

  /** Node's parser gave up, a read failed, or one of node's timers expired. */
  failed(code: string | undefined, reason: string | undefined): void {
    const verdict = parserVerdict(code, reason);
    const current = this.#current;
    // The proxy does not read the bytes after a refused request as HTTP.
    if (this.closing && verdict !== undefined) return;
    // While an answer is under way or due, the client would read a second answer as part of it.
    if (verdict === undefined || (current !== undefined && (current.requestComplete || current.headWritten))) {
      this.destroy();
      return;
    }
    this.refuse(verdict);
  }

  /** Answers without a response object, and ends the connection. */
  refuse(bad: BadRequest): void {
    if (this.closing) return;
    if (this.#current !== undefined && bad === UPGRADE_REFUSED) {
      this.destroy();
      return;
    }
    this.closing = true;
    // An exchange counts its own end.
    if (this.#current?.opened !== true) this.#services.metrics?.badRequest(bad.slug);
    this.#current?.clientGone(bad);
    const id = this.#current?.answerId(bad) ?? this.#answerId(bad);
    const socket = this.#socket;
    if (!socket.writable) {
      socket.destroy();
      return;
    }
    socket.end(rawAnswer(badRequestAnswer(bad, id)));
    // The proxy reads and discards further bytes: a reset could destroy the answer.
    socket.resume();
    const timer = this.#services.clock.after(this.#services.timers.linger, () => socket.destroy(), true);
    socket.once("close", () => timer.cancel());
  }

  /** The id for the answer to bytes that are no request. */
  #answerId({ status, reason }: BadRequest): string {
    const requestId = requestIdOf(undefined, this.#services.random);
    this.#services.onUnopened?.({ requestId, status, reason });
    return requestId;
  }

  /** Another connection needs the place of this one, which has no request. */
  giveWay(): void {
    this.closing = true;
    this.#socket.destroySoon();
  }

  /** The proxy drains: a connection without a request closes. */
  drain(): void {
    if (this.#current === undefined && !this.closing) this.#socket.destroySoon();
  }

  /** Cuts the connection; the exchange in progress ends. */
  destroy(): void {
    this.closing = true;
    this.#current?.clientGone();
    this.#socket.destroy();
  }

  /**
   * Runs after the parser has seen all bytes that came with the request. If these bytes break HTTP, in the body or behind it,
   * the request does not begin.
   */
  #begin(next: Waiting): void {
    this.#current = new Http1Stream(this.#services, this, next.request, next.response, next.expectation);
    this.#host.limits.move(this, "busy");
    this.#services.beginnings.add(this.#current);
  }
}
