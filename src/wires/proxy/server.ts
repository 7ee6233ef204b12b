import { BeginQueue } from "./begin-queue.ts";
import { ClientConnections } from "./client-connections.ts";
import { Cors } from "./cors.ts";
import { Deadlines, sweepInterval } from "./deadlines.ts";
import type { Listener } from "./listener.ts";
import { DEFAULT_LIMITS, DEFAULT_TIMERS, type ProxyOptions } from "./options.ts";
import type { ProxyServices } from "./services.ts";
import { StreamRests } from "./stream-rests.ts";
import { UpstreamPools } from "./upstream-pools.ts";

/** The settings that can change while the proxy runs. */
export type ProxyChange = Pick<
  Required<ProxyOptions>,
  "paths" | "maxRetries" | "retryStatuses" | "cors" | "authenticate"
>;

/** A listening proxy. */
export interface RunningProxy {
  /** In the order of the options. */
  readonly listeners: readonly Pick<Listener, "address" | "port" | "useTls">[];
  /** Of the first listener. */
  readonly address: string;
  readonly port: number;
  /** Client connections that are open now. */
  readonly connections: number;
  /** From now on, each answer closes its connection. The proxy still accepts connections and requests. */
  closeAfterAnswers(): void;
  /** Puts other settings in force, from the next decision of each request on. */
  use(settings: ProxyChange): void;
  /** Accepts no further connection, lets running requests end, then closes. Resolves when the last one has ended. */
  drain(): Promise<void>;
  /** Cuts all connections. */
  close(): Promise<void>;
}

/**
 * Starts the reverse proxy of `sluice gateway` (envoy-data-plane 4): each request is one exchange, driven in process.
 * @throws SluiceError LISTEN_FAILED
 */
export async function startProxy(options: ProxyOptions): Promise<RunningProxy> {
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const timers = { ...DEFAULT_TIMERS, ...options.timers };
  const { clock, metrics } = options;
  const deadlines = new Deadlines(
    clock,
    sweepInterval([
      timers.requestHeaders,
      timers.clientKeepAlive,
      timers.bodyIdle,
      timers.picking,
      timers.firstByte,
      timers.responseIdle,
      timers.clientStalled,
      timers.linger,
    ]),
  );
  const beginnings = new BeginQueue(clock);
  const pools = new UpstreamPools(clock, timers, limits, beginnings, options.serverTls, options.connect);
  deadlines.add(pools);
  const services: ProxyServices = {
    clock,
    random: options.random,
    openExchange: (wire) => options.openExchange(wire),
    paths: options.paths,
    cors: options.cors && new Cors(options.cors),
    authenticate: options.authenticate,
    ownAnswer: options.ownAnswer,
    local: options.local,
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
    beginnings,
    rests: new StreamRests(clock, timers.streamRest, limits.restlessStreams),
    draining: false,
  };

  const connections = new ClientConnections(services, options);
  try {
    await connections.listen(options.listeners);
  } catch (error) {
    await connections.close();
    throw error;
  }
  const finish = async (): Promise<void> => {
    await connections.close();
    deadlines.delete(pools);
    await pools.destroy();
  };
  const { listeners } = connections;
  return {
    listeners,
    address: listeners[0]!.address,
    port: listeners[0]!.port,
    get connections() {
      return connections.size;
    },
    closeAfterAnswers() {
      services.draining = true;
      connections.closeAfterAnswers();
    },
    use({ paths, maxRetries, retryStatuses, cors, authenticate }) {
      services.paths = paths;
      services.cors = cors && new Cors(cors);
      services.authenticate = authenticate;
      services.maxRetries = maxRetries;
      services.retryStatuses = new Set(retryStatuses);
    },
    drain() {
      services.draining = true;
      connections.drain();
      return finish();
    },
    close() {
      services.draining = true;
      connections.destroy();
      return finish();
    },
  };
}
