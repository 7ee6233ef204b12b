import { type Dispatcher, Pool } from "undici";
import type { Clock } from "../../base/clock/clock.ts";
import { type Connect, connector } from "./connector.ts";
import type { Timed } from "./deadlines.ts";
import type { ProxyLimits, ProxyTimers } from "./options.ts";

/** The connections to one endpoint. */
class UpstreamPool {
  readonly pool: Pool;
  /** Dispatched attempts that are not yet released. */
  inUse = 0;
  /** Time at which `inUse` last became 0; monotonic milliseconds. */
  idleSince = 0;

  constructor(pool: Pool) {
    this.pool = pool;
  }
}

/**
 * One undici pool for each endpoint: HTTP/1.1 with keep-alive, one request per connection at a time. A pool closes after it was
 * idle for the keep-alive time. Above the limit, the longest idle pool closes at once. So a changing set of endpoints leaves no
 * pools behind.
 */
export class UpstreamPools implements Timed {
  /** The sweep that closes idle pools reads it. */
  deadline: number;
  readonly #clock: Clock;
  readonly #keepAlive: number;
  readonly #limit: number;
  readonly #options: Pool.Options;
  readonly #pools = new Map<string, UpstreamPool>();

  constructor(clock: Clock, timers: ProxyTimers, limits: ProxyLimits, connect?: Connect) {
    this.#clock = clock;
    this.#keepAlive = timers.upstreamKeepAlive;
    this.#limit = limits.upstreamPools;
    this.deadline = clock.now() + this.#keepAlive;
    this.#options = {
      connect: connector(clock, timers.connect, connect),
      keepAliveTimeout: timers.upstreamKeepAlive,
      keepAliveMaxTimeout: timers.upstreamKeepAlive,
      // The proxy's own deadlines limit answers: they use one clock for all, and a paused client does not count as a silent
      // server.
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: limits.headerBytes,
      pipelining: 1,
      allowH2: false,
    };
  }

  /** Number of endpoints with a pool. */
  get size(): number {
    return this.#pools.size;
  }

  /** Sends a request to `hostPort`. The caller calls `release` once, when the attempt is over. */
  dispatch(hostPort: string, options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): void {
    let entry = this.#pools.get(hostPort);
    if (entry === undefined) {
      if (this.#pools.size >= this.#limit) this.#closeLongestIdle();
      entry = new UpstreamPool(new Pool(`http://${hostPort}`, this.#options));
      this.#pools.set(hostPort, entry);
    }
    entry.inUse++;
    entry.pool.dispatch(options, handler);
  }

  release(hostPort: string): void {
    const entry = this.#pools.get(hostPort);
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
    void entry.pool.close();
  }
}
