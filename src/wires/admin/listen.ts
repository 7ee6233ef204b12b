import { createServer as createHttpServer, type RequestListener, type Server } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import type { SecureContextOptions } from "node:tls";
import type { Hono } from "hono";
import { hostPort } from "../../base/inference/endpoint.ts";
import { listenFailed } from "../../base/inference/listen-address.ts";

/** The TLS settings of the admin port; certificates and keys are PEM texts. */
export interface AdminTls {
  readonly cert: string;
  readonly key: string;
  /** Clients must show a certificate that one of these authorities signed; absent = clients need no certificate. */
  readonly clientCa?: string | undefined;
  readonly minVersion?: "TLSv1.2" | "TLSv1.3" | undefined;
  /** OpenSSL's names, separated by colons. */
  readonly ciphers?: string | undefined;
}

export interface ListenOptions {
  readonly host: string;
  /** 0 = any free port. */
  readonly port: number;
  /** Absent = plain HTTP. */
  readonly tls?: AdminTls | undefined;
}

/**
 * Serves `app`.
 * @param what name of the served app for the error message, such as "the admin pages"
 * @param failed logs a failure of this process
 * @throws SluiceError LISTEN_FAILED when the port is not available
 */
export function listen(
  app: Hono,
  { host, port, tls }: ListenOptions,
  what: string,
  failed: (error: unknown) => void,
): Promise<Server> {
  return new Promise((resolve, reject) => {
    const answer = answering(app, host, failed);
    const server =
      tls === undefined
        ? createHttpServer(answer)
        : createHttpsServer(
            { ...tlsSettings(tls), requestCert: tls.clientCa !== undefined, rejectUnauthorized: true },
            answer,
          );
    server.on("error", (cause: Error) => reject(listenFailed(`${hostPort(host, port)} for ${what}`, cause)));
    server.listen(port, host, () => resolve(server));
  });
}

/**
 * Loads the bridge to Node's servers at the first request, not at the start: it uses the classes of fetch, so Node.js compiles undici.
 * Without the warm-up, a tenth of the CPU time of a start went there.
 * Where somebody replaces the installed package while the process runs, the bridge may be gone by then: requests get 500.
 * @param hostname the host of a request that names none, as HTTP/1.0 allows
 * @param failed called once
 */
function answering(app: Hono, hostname: string, failed: (error: unknown) => void): RequestListener {
  let bridge: Promise<RequestListener> | undefined;
  const load = async (): Promise<RequestListener> => {
    try {
      return (await import("@hono/node-server")).getRequestListener(app.fetch, { hostname }) as RequestListener;
    } catch (error) {
      failed(error);
      return (_, response) =>
        void response
          .writeHead(500, { "content-type": "text/plain; charset=utf-8", connection: "close" })
          .end("sluice cannot load a part of itself; its log has the error. Restart it\n");
    }
  };
  return async (request, response) => {
    bridge ??= load();
    (await bridge)(request, response);
  };
}

/** The settings of Node.js for a port with TLS; at least TLS 1.2. */
export function tlsSettings({ cert, key, clientCa, minVersion, ciphers }: AdminTls): SecureContextOptions {
  return {
    ...{ cert, key, minVersion: minVersion ?? "TLSv1.2" },
    ...(clientCa === undefined ? {} : { ca: clientCa }),
    ...(ciphers === undefined ? {} : { ciphers }),
  };
}

/** Accepts no more connections and cuts the open ones. */
export function shut(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
