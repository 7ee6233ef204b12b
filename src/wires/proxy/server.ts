import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { hostPort } from "../../base/inference/endpoint.ts";
import { listenFailed } from "../../base/inference/listen-address.ts";
import { UPGRADE_REFUSED } from "./bad-request.ts";
import { ClientConnection } from "./client-connection.ts";
import type { Expectation } from "./client-stream.ts";
import { Deadlines, sweepInterval } from "./deadlines.ts";
import { DEFAULT_LIMITS, DEFAULT_TIMERS, type ProxyOptions } from "./options.ts";
import { BeginQueue, type ProxyServices } from "./services.ts";
import { UpstreamPools } from "./upstream-pools.ts";

/** The settings that can change while the proxy runs. */
export type ProxyChange = Pick<Required<ProxyOptions>, "paths" | "maxRetries" | "retryStatuses">;

/** A listening proxy. */
export interface RunningProxy {
  readonly address: string;
  readonly port: number;
  /** Client connections that are open now. */
  readonly connections: number;
  /** Puts other settings in force, from the next decision of each request on. */
  use(settings: ProxyChange): void;
  /** Accepts no further connection, lets running requests end, then closes. Resolves when the last one has ended. */
  drain(): Promise<void>;
  /** Cuts all connections. */
  close(): Promise<void>;
}

/** The property of a socket that holds its connection. */
const CONNECTION = Symbol("client connection");
type Tagged = Socket & { [CONNECTION]?: ClientConnection };

/**
 * Starts the HTTP/1.1 reverse proxy of `sluice gateway` (envoy-data-plane 4): each request is one exchange, driven in process.
 * @throws SluiceError LISTEN_FAILED
 */
export async function startProxy(options: ProxyOptions): Promise<RunningProxy> {
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const timers = { ...DEFAULT_TIMERS, ...options.timers };
  const { clock, metrics } = options;
  const deadlines = new Deadlines(
    clock,
    sweepInterval([timers.bodyIdle, timers.picking, timers.firstByte, timers.responseIdle, timers.linger]),
  );
  const pools = new UpstreamPools(clock, timers, limits, options.connect);
  deadlines.add(pools);
  const services: ProxyServices = {
    clock,
    random: options.random,
    openExchange: (wire) => options.openExchange(wire),
    paths: options.paths,
    ownAnswer: options.ownAnswer,
    maxRetries: options.maxRetries ?? 2,
    retryStatuses: new Set(options.retryStatuses ?? [503]),
    limits,
    timers,
    allowUnderscores: options.allowUnderscores ?? false,
    metrics,
    onUnopened: options.onUnopened,
    onError: (error) => options.onError?.(error),
    pools,
    deadlines,
    beginnings: new BeginQueue(clock),
    draining: false,
  };

  const connections = new Set<ClientConnection>();
  const server = createServer({
    insecureHTTPParser: false,
    // Node's limit includes the request target. The proxy checks both sizes again, so 414 and 431 stay distinct.
    maxHeaderSize: limits.headerBytes + limits.targetBytes,
    headersTimeout: timers.requestHeaders,
    // Node's limit includes the body, which may take long while bytes still arrive.
    requestTimeout: 0,
    connectionsCheckingInterval: Math.max(20, Math.min(5_000, timers.requestHeaders / 4)),
    keepAliveTimeout: timers.clientKeepAlive,
    // The proxy itself answers a request without Host.
    requireHostHeader: false,
    noDelay: true,
  });
  server.maxHeadersCount = 0;
  server.maxConnections = limits.connections;

  const accept = (request: IncomingMessage, response: ServerResponse, expectation: Expectation): void => {
    (request.socket as Tagged)[CONNECTION]?.accept(request, response, expectation);
  };
  server.on("connection", (socket: Tagged) => {
    const connection = new ClientConnection(services, socket);
    socket[CONNECTION] = connection;
    connections.add(connection);
    socket.once("close", () => connections.delete(connection));
    socket.once("end", () => connection.ended());
  });
  server.on("drop", () => {
    metrics?.connectionRefused();
    options.onUnopened?.({ reason: "connection_refused" });
  });
  server.on("request", (request, response) => accept(request, response, "none"));
  server.on("checkContinue", (request, response) => accept(request, response, "continue"));
  server.on("checkExpectation", (request, response) => accept(request, response, "unknown"));
  server.on("clientError", (error: Error & { code?: string; reason?: string }, socket) => {
    (socket as Tagged)[CONNECTION]?.failed(error.code, error.reason);
  });
  const refuse = (_request: IncomingMessage, socket: unknown): void => {
    // Node has removed its listeners from the socket, the error listener included.
    (socket as Tagged).on("error", () => (socket as Tagged).destroy());
    (socket as Tagged)[CONNECTION]?.refuse(UPGRADE_REFUSED);
  };
  server.on("upgrade", refuse);
  server.on("connect", refuse);

  await new Promise<void>((resolve, reject) => {
    const failed = (error: Error): void => {
      reject(listenFailed(hostPort(options.host, options.port), error));
    };
    server.once("error", failed);
    server.listen({ host: options.host, port: options.port, backlog: 1024 }, () => {
      server.off("error", failed);
      server.on("error", services.onError);
      resolve();
    });
  });
  const bound = server.address() as AddressInfo;
  const closed = new Promise<void>((resolve) => server.once("close", resolve));

  const finish = async (): Promise<void> => {
    await closed;
    deadlines.delete(pools);
    await pools.destroy();
  };
  return {
    address: bound.address,
    port: bound.port,
    get connections() {
      return connections.size;
    },
    use({ paths, maxRetries, retryStatuses }) {
      services.paths = paths;
      services.maxRetries = maxRetries;
      services.retryStatuses = new Set(retryStatuses);
    },
    drain() {
      services.draining = true;
      server.close();
      for (const connection of connections) connection.endIfIdle();
      return finish();
    },
    close() {
      services.draining = true;
      server.close();
      for (const connection of connections) connection.destroy();
      return finish();
    },
  };
}
