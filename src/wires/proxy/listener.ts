import net, { type Socket } from "node:net";
import tls, { type SecureContextOptions, type TLSSocket } from "node:tls";
import type { Clock } from "../../base/clock/clock.ts";
import { HANDSHAKE_TIMEOUT, Handshakes } from "../../base/grpc/h2/handshakes.ts";
import type { ConnectionLimits } from "../../base/grpc/h2/limits.ts";
import { addressOf, certificateProblem } from "../../base/grpc/refused-client.ts";
import { hostPort } from "../../base/inference/endpoint.ts";
import { listenFailed } from "../../base/inference/listen-address.ts";
import { malformed } from "./bad-request.ts";
import { badRequestAnswer, rawAnswer } from "./local-answer.ts";

/** The TLS settings of a listener; certificates and keys are PEM texts. */
export interface ListenerTls {
  readonly cert: string;
  readonly key: string;
  /** Clients must show a certificate that one of these authorities signed; absent = clients need no certificate. */
  readonly clientCa?: string | undefined;
}

/** One address on which the proxy listens. */
export interface ListenerOptions {
  readonly host: string;
  /** 0 = any free port. */
  readonly port: number;
  /** Absent = plain HTTP/1.1. With TLS, clients choose HTTP/2 or HTTP/1.1 by ALPN. */
  readonly tls?: ListenerTls | undefined;
}

/** What a listener does with its connections. */
export interface ListenerHost {
  readonly clock: Clock;
  readonly limits: ConnectionLimits;
  /** The connections close, and no further ones come. */
  readonly draining: boolean;
  /** A connection of HTTP/1.1, ready to be read. */
  http1(socket: Socket, secure: boolean): void;
  /** A connection of HTTP/2, ready to be read. */
  http2(socket: TLSSocket): void;
  /** A client showed no certificate, or one that is not accepted. */
  clientRefused(problem: string, address: string): void;
  /** The id for an answer to bytes that are no request. */
  answerId(reason: string): string;
  onError(error: unknown): void;
}

/** The answer to a client that speaks HTTP where TLS is spoken. */
const PLAIN = malformed("this port speaks TLS; use https:// instead of http://");

/** The first byte of every handshake. */
const TLS_HANDSHAKE = 0x16;

/** Accepts the connections of one address, speaks TLS on them where it is set, and hands them on by their protocol. */
export class Listener {
  readonly #options: ListenerOptions;
  readonly #host: ListenerHost;
  readonly #server: net.Server;
  /** Does the handshakes of the connections that `#server` accepts. */
  readonly #tls: tls.Server | undefined;
  readonly #handshakes: Handshakes | undefined;
  #bound: { readonly address: string; readonly port: number } | undefined;
  #closed: Promise<void> | undefined;

  constructor(options: ListenerOptions, host: ListenerHost) {
    this.#options = options;
    this.#host = host;
    if (options.tls === undefined) {
      // A client may close its half and still wait for the end of its answer; the connection decides.
      const settings = { noDelay: true, allowHalfOpen: true, pauseOnConnect: true };
      this.#server = net.createServer(settings, (socket) => host.http1(socket, false));
      return;
    }
    this.#tls = this.#createTls(options.tls);
    const handshakes = new Handshakes(this.#tls, host.limits, host.clock, (bytes, socket) =>
      this.#refusePlain(bytes, socket),
    );
    this.#handshakes = handshakes;
    this.#server = net.createServer({ noDelay: true, pauseOnConnect: true }, (socket) => handshakes.accept(socket));
  }

  /** The bound address. */
  get address(): string {
    return this.#bound!.address;
  }

  get port(): number {
    return this.#bound!.port;
  }

  /** @throws SluiceError LISTEN_FAILED */
  async listen(): Promise<void> {
    const { host, port } = this.#options;
    const server = this.#server;
    await new Promise<void>((resolve, reject) => {
      const failed = (error: Error): void => reject(listenFailed(hostPort(host, port), error));
      server.once("error", failed);
      server.listen({ host, port, backlog: 1024 }, () => {
        server.off("error", failed);
        server.on("error", (error) => this.#host.onError(error));
        resolve();
      });
    });
    this.#bound = server.address() as net.AddressInfo;
  }

  /** New connections get this certificate, and their clients are checked with these authorities; open connections stay. */
  useTls(settings: ListenerTls): void {
    this.#tls?.setSecureContext(contextOf(settings));
  }

  /** Accepts no further connection. Resolves when the last one has ended. */
  close(): Promise<void> {
    this.#closed ??= new Promise((resolve) => {
      this.#server.close(() => resolve());
      this.#handshakes?.close();
    });
    return this.#closed;
  }

  #createTls(settings: ListenerTls): tls.Server {
    const server = tls.createServer({
      ...contextOf(settings),
      requestCert: settings.clientCa !== undefined,
      rejectUnauthorized: true,
      ALPNProtocols: ["h2", "http/1.1"],
      handshakeTimeout: HANDSHAKE_TIMEOUT,
    });
    server.on("secureConnection", (socket) => {
      if (this.#handshakes?.finished(socket) !== true || this.#host.draining) socket.destroy();
      else if (socket.alpnProtocol === "h2") this.#host.http2(socket);
      else this.#host.http1(socket, true);
    });
    server.on("tlsClientError", (error, socket) => {
      const problem = certificateProblem(error, socket);
      if (problem !== undefined) this.#host.clientRefused(problem, addressOf(socket));
    });
    return server;
  }

  /** @returns true when the client speaks no TLS; it has got an answer that says so */
  #refusePlain(bytes: Buffer, socket: Socket): boolean {
    const first = bytes[0]!;
    if (first === TLS_HANDSHAKE) return false;
    // A letter begins a request of HTTP. Other bytes are no protocol that has an answer.
    if (first < 0x41 || first > 0x5a) socket.destroy();
    else {
      socket.end(rawAnswer(badRequestAnswer(PLAIN, this.#host.answerId(PLAIN.reason))));
      socket.resume();
    }
    return true;
  }
}

function contextOf({ cert, key, clientCa }: ListenerTls): SecureContextOptions {
  return { cert, key, minVersion: "TLSv1.2", ...(clientCa === undefined ? {} : { ca: clientCa }) };
}
