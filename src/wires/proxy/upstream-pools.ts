import type { Clock } from "../../base/clock/clock.ts";
import { connector } from "../../base/grpc/server-connector.ts";
import type { Connect, ServerTls } from "../../base/grpc/server-tls.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import type { BeginQueue } from "./begin-queue.ts";
import type { Timed } from "./deadlines.ts";
import type { ProxyLimits, ProxyTimers } from "./options.ts";
import { type ConnectionSettings, EndpointConnections } from "./upstream/endpoint-connections.ts";
import type { UpstreamHandler, UpstreamRequest, UpstreamTransport } from "./upstream/transport.ts";

/** What decides which connections a request may use. */
type PoolKey = Pick<Endpoint, "hostPort" | "scheme">;

/** The connections to one endpoint. */
class UpstreamPool {
  readonly pool: UpstreamTransport;
  /** Dispatched attempts that are not yet released. */
  inUse = 0;
  /** Time at which `inUse` last became 0; monotonic milliseconds. */
  idleSince = 0;

  constructor(pool: UpstreamTransport) {
    this.pool = pool;
  }
}

/**
 * One pool for each endpoint: HTTP/1.1 with keep-alive, one request per connection at a time. A pool closes after it was
 * idle for the keep-alive time. Above the limit, the longest idle pool closes at once. So a changing set of endpoints leaves no
 * pools behind.
 */
export class UpstreamPools implements Timed {
  /** The sweep that closes idle pools reads it. */
  deadline: number;
  readonly #clock: Clock;
  readonly #keepAlive: number;
  readonly #limit: number;
  readonly #tls: ServerTls | undefined;
  readonly #plain: ConnectionSettings;
  readonly #secure: ConnectionSettings;
  readonly #pools = new Map<string, UpstreamPool>();

  /**
   * @param beginnings lets the requests over used connections begin
   * @param tls undefined = no endpoint speaks TLS
   * @param connect opens sockets without TLS
   */
  constructor(
    clock: Clock,
    timers: ProxyTimers,
    limits: ProxyLimits,
    beginnings: BeginQueue,
    tls?: ServerTls,
    connect?: Connect,
  ) {
    this.#tls = tls;
    this.#clock = clock;
    this.#keepAlive = timers.upstreamKeepAlive;
    this.#limit = limits.upstreamPools;
    this.deadline = clock.now() + this.#keepAlive;
    const connection = { clock, timeout: timers.connect, connect };
    // The proxy's own deadlines limit answers: they use one clock for all, and a paused client does not count as a silent server.
    this.#plain = {
      clock,
      open: connector(connection),
      beginnings,
      keepAlive: timers.upstreamKeepAlive,
      headerBytes: limits.headerBytes,
    };
    this.#secure = { ...this.#plain, open: connector({ ...connection, tls }) };
  }

  /** Number of endpoints with a pool. */
  get size(): number {
    return this.#pools.size;
  }

  /** Sends a request to an endpoint. The caller calls `release` once, when the attempt is over. */
  dispatch(endpoint: PoolKey, request: UpstreamRequest, handler: UpstreamHandler): void {
    const secure = this.#tls?.secures(endpoint) === true;
    const key = keyOf(endpoint.hostPort, secure);
    let entry = this.#pools.get(key);
    if (entry === undefined) {
      if (this.#pools.size >= this.#limit) this.#closeLongestIdle();
      entry = new UpstreamPool(new EndpointConnections(endpoint.hostPort, secure ? this.#secure : this.#plain));
      this.#pools.set(key, entry);
    }
    entry.inUse++;
    entry.pool.dispatch(request, handler);
  }

  release(endpoint: PoolKey): void {
    const entry = this.#pools.get(keyOf(endpoint.hostPort, this.#tls?.secures(endpoint) === true));
    if (entry === undefined) return;
    entry.inUse--;
    entry.idleSince = this.#clock.now();
  }

  /** Closes the pools that were idle for the keep-alive time. */
  expired(now: number): void {
    this.deadline = now + this.#keepAlive;
    for (const [hostPort, entry] of this.#pools) {
      if (entry.inUse === 0 && now - entry.idleSince >= this.#keepAlive) this.#drop(hostPort, entry);
    }
  }

  /** Cuts every connection. */
  async destroy(): Promise<void> {
    const entries = [...this.#pools.values()];
    this.#pools.clear();
    await Promise.all(entries.map((entry) => entry.pool.destroy()));
  }

  /** Pools in use stay open above the limit: the number of client connections bounds them. */
  #closeLongestIdle(): void {
    let longest: [string, UpstreamPool] | undefined;
    for (const candidate of this.#pools) {
      if (candidate[1].inUse === 0 && (longest === undefined || candidate[1].idleSince < longest[1].idleSince)) {
        longest = candidate;
      }
    }
    if (longest !== undefined) this.#drop(...longest);
  }

  #drop(hostPort: string, entry: UpstreamPool): void {
    this.#pools.delete(hostPort);
    entry.pool.close();
  }
}

/** An address that speaks TLS has other connections than the same address before it did. */
function keyOf(hostPort: string, secure: boolean): string {
  return secure ? `https://${hostPort}` : hostPort;
}
