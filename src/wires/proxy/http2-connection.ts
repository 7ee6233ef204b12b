import { constants, performServerHandshake, type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";
import type { TLSSocket } from "node:tls";
import type { Guest } from "../../base/grpc/h2/limits.ts";
import type { ConnectionHost } from "./connection-host.ts";
import type { Timed } from "./deadlines.ts";
import { Http2Stream } from "./http2-stream.ts";
import type { ProxyLimits } from "./options.ts";
import type { ProxyServices } from "./services.ts";

/** Bytes of the bodies of one stream, and of all streams, that a client may send before the proxy reads them. */
const WINDOW = { stream: 128 * 1024, connection: 1024 * 1024 } as const;

/** What a GOAWAY names that announces a drain: streams that are on their way still count (RFC 9113 6.8). */
const LAST_STREAM = 2 ** 31 - 1;

/**
 * GOAWAY frames that a client may send. A graceful one sends two (RFC 9113 6.8). nghttp2 does not count them, and node runs
 * JavaScript for each.
 */
const MOST_GOAWAYS = 8;

/** Node ends a session with a code of one's own only beside an error. No code reads its stack. */
const TOO_MANY_GOAWAYS = new Error("the client sent too many GOAWAY frames");

/** The flag of a HEADERS frame that also ends the request. */
const END_STREAM = 1;

/**
 * The stage of a connection, and the end of each when it has lasted too long. `new`: no request yet. `busy`: it has streams.
 * `leaving`: GOAWAY has been sent, and no stream is left.
 */
type Stage = "new" | "idle" | "busy" | "leaving";

/**
 * A client connection of HTTP/2. Node's server counts resets, settings, pings and continuations, and ends a flood (ADR 27). The
 * connection counts GOAWAY frames itself.
 */
export class Http2Connection implements Guest, Timed {
  readonly address: string;
  deadline: number;
  readonly #services: ProxyServices;
  readonly #host: ConnectionHost;
  readonly #socket: TLSSocket;
  readonly #session: ServerHttp2Session;
  #stage: Stage = "new";
  #streams = 0;
  /** GOAWAY frames of the client. */
  #goaways = 0;
  #draining = false;

  /** @param address of the client */
  constructor(services: ProxyServices, host: ConnectionHost, socket: TLSSocket, address: string) {
    const { clock, timers, limits, deadlines } = services;
    this.#services = services;
    this.#host = host;
    this.#socket = socket;
    this.address = address;
    this.deadline = clock.now() + timers.requestHeaders;
    this.#session = performServerHandshake(socket, sessionOptions(limits));
    this.#session.on("stream", (stream, _headers, flags, raw) => this.#open(stream, flags, raw as unknown as string[]));
    this.#session.on("goaway", () => {
      if (++this.#goaways > MOST_GOAWAYS) this.#session.destroy(TOO_MANY_GOAWAYS, constants.NGHTTP2_ENHANCE_YOUR_CALM);
    });
    // A client that breaks the protocol, or breaks off; the close follows.
    this.#session.on("error", () => {});
    this.#session.on("close", () => {
      deadlines.delete(this);
      socket.destroy();
      host.closed(this);
    });
    this.#session.setLocalWindowSize(WINDOW.connection);
    deadlines.add(this);
  }

  giveWay(): void {
    this.#leave();
  }

  /** Running requests end, and those that are on their way are served; then the connection closes. */
  drain(): void {
    if (this.#draining) return;
    this.#draining = true;
    if (this.#streams === 0) {
      this.#leave();
      return;
    }
    this.#session.goaway(constants.NGHTTP2_NO_ERROR, LAST_STREAM);
    // Whoever answers the ping has seen the GOAWAY, and opens no further stream.
    this.#session.ping(() => this.#session.close());
  }

  destroy(): void {
    this.#session.destroy();
    this.#socket.destroy();
  }

  expired(): void {
    if (this.#stage === "idle") this.#leave();
    else this.destroy();
  }

  /** A stream is gone. */
  finished(): void {
    this.#streams--;
    this.#host.streams.leave(this.address);
    if (this.#streams > 0 || this.#session.destroyed) return;
    if (this.#draining || this.#services.draining) this.#leave();
    else this.#enter("idle", this.#services.timers.clientKeepAlive);
  }

  #open(stream: ServerHttp2Stream, flags: number, raw: readonly string[]): void {
    const { streams, limits } = this.#host;
    if (!streams.hasRoom(this.address, this.#streams)) {
      stream.on("error", () => {});
      // The client may send it again: nothing was done for it.
      stream.close(constants.NGHTTP2_REFUSED_STREAM);
      return;
    }
    streams.enter(this.address);
    if (this.#streams++ === 0) {
      this.#stage = "busy";
      this.deadline = Number.POSITIVE_INFINITY;
      limits.move(this, "busy");
    }
    new Http2Stream(this.#services, this, stream, raw, (flags & END_STREAM) !== 0).begin();
  }

  #enter(stage: "idle" | "leaving", ms: number): void {
    this.#stage = stage;
    this.deadline = this.#services.clock.now() + ms;
    this.#host.limits.move(this, "idle");
  }

  /** Asks the client to go, and cuts the connection when it stays. */
  #leave(): void {
    this.#enter("leaving", this.#services.timers.linger);
    this.#session.close();
  }
}

function sessionOptions({ headerBytes, headerCount, targetBytes, streams }: ProxyLimits): object {
  return {
    settings: {
      maxConcurrentStreams: streams,
      initialWindowSize: WINDOW.stream,
      // Twice the limits: a request slightly above them gets the answer 431 or 414, not a reset.
      maxHeaderListSize: 2 * (headerBytes + targetBytes),
      enablePush: false,
    },
    maxHeaderListPairs: 2 * headerCount,
    // What a model server repeats goes on as it is.
    strictSingleValueFields: false,
  };
}
