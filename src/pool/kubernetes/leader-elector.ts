import { type Clock, delay, type Timer } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import { messageOf } from "../../base/inference/errors.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import { type ApiClient, type ApiRequest, collectionPath, LEASE, objectPath } from "./api-client.ts";
import { ApiError } from "./api-error.ts";

/** Milliseconds. */
interface LeaderTiming {
  /** For so long others leave a lease alone that is not renewed; whole seconds, default 15,000. */
  readonly leaseDuration: number;
  /** After so long without a renewal the leader steps down; below `leaseDuration`, default 10,000. */
  readonly renewDeadline: number;
  /** Between attempts; default 2,000. */
  readonly retryPeriod: number;
}

interface LeaderElectorOptions {
  readonly api: ApiClient;
  readonly namespace: string;
  /** Of the Lease. */
  readonly name: string;
  /** Unique to this process. */
  readonly identity: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  readonly timing?: LeaderTiming;
  /** Told of each change, beginning with `true` when it is won for the first time. */
  onChange(leading: boolean): void;
}

const DEFAULT_TIMING: LeaderTiming = { leaseDuration: 15_000, renewDeadline: 10_000, retryPeriod: 2_000 };
/** Those who wait spread their attempts over the retry period and so many times as much again. */
const JITTER = 1.2;
/** Milliseconds over which they spread the attempt at the end of a lease. */
const END_SPREAD = 500;

/**
 * One leader among several processes, by a Lease as client-go keeps it, so that others may take part (api-resources 3.7). Whether
 * a lease still holds is judged by how long ago this process saw it change: clocks of machines are never compared.
 */
export class LeaderElector {
  readonly #options: LeaderElectorOptions;
  readonly #timing: LeaderTiming;
  readonly #log: RateLimitedLog;
  readonly #stop = new AbortController();
  #started = false;
  #leading = false;
  /** The Lease as it was seen last, and since when it has been so. */
  #lease: Lease | undefined;
  #seen = "";
  #seenAt = 0;
  /** When the last renewal was sent. */
  #renewedAt = 0;
  #deadline: Timer | undefined;
  #writing = false;
  #released: Promise<void> | undefined;

  constructor(options: LeaderElectorOptions) {
    this.#options = options;
    this.#timing = options.timing ?? DEFAULT_TIMING;
    this.#log = new RateLimitedLog(options.log, options.clock, { intervalMs: 30_000, maxKeys: 8 });
  }

  /** Begins to run for it; returns at once. */
  start(): void {
    if (this.#started || this.#stop.signal.aborted) return;
    this.#started = true;
    void this.#run();
  }

  /** Also false once a renewal is overdue, even if the process slept through the moment. */
  get leading(): boolean {
    return this.#leading && this.#options.clock.now() - this.#renewedAt < this.#timing.renewDeadline;
  }

  /** Identity of whoever held it when it was seen last; "" = nobody, or not known yet. */
  get holder(): string {
    return this.#lease?.spec.holderIdentity ?? "";
  }

  /**
   * Steps down and stops: `onChange(false)` at once if it leads, then gives the lease back so that others need not wait for its
   * end. Never rejects; takes at most twice the renew deadline.
   */
  release(): Promise<void> {
    this.#released ??= this.#giveBack();
    return this.#released;
  }

  async #run(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      try {
        await this.#acquireOrRenew();
      } catch (error) {
        if (this.#stop.signal.aborted) return;
        const text = `the lease ${this.#options.name} cannot be ${this.#leading ? "renewed" : "read or taken"}`;
        const level = error instanceof ApiError && error.status === 403 ? "error" : "warn";
        this.#log.log(level, text, {}, `${text}: ${messageOf(error)}`);
      }
      await delay(this.#options.clock, this.#pause(), this.#stop.signal).catch(() => {});
    }
  }

  /** Milliseconds until the next attempt. Whoever waits is there when the lease ends: nobody leads from then on. */
  #pause(): number {
    const { clock, random } = this.#options;
    const { retryPeriod } = this.#timing;
    if (this.#leading) return retryPeriod;
    const pause = retryPeriod * (1 + random.next() * JITTER);
    const left = this.#freeAt - clock.now();
    return left > 0 ? Math.min(pause, left + random.next() * END_SPREAD) : pause;
  }

  /** When the lease ends that somebody has, on the monotonic clock of this process. */
  get #freeAt(): number {
    return this.#seenAt + (this.#lease?.spec.leaseDurationSeconds ?? 0) * 1000;
  }

  async #acquireOrRenew(): Promise<void> {
    if (this.#leading && this.#lease !== undefined) {
      // It is still as it was written last, or somebody else has it by now.
      if (await this.#write(this.#lease)) return;
    }
    let lease: Lease;
    try {
      lease = readLease(await this.#ask("GET"));
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 404) throw error;
      await this.#write(undefined);
      return;
    }
    this.#see(lease);
    const { holderIdentity } = lease.spec;
    if (holderIdentity !== "" && holderIdentity !== this.#options.identity) {
      if (this.#leading) this.#lose(`${holderIdentity} has it`);
      if (this.#options.clock.now() < this.#freeAt) return;
    }
    await this.#write(lease);
  }

  /** @param lease what it replaces; undefined = there is none. @returns false when somebody else was faster */
  async #write(lease: Lease | undefined): Promise<boolean> {
    const { clock, identity, namespace, name } = this.#options;
    const sentAt = clock.now();
    const now = microTime(clock.wall());
    const mine = lease?.spec.holderIdentity === identity;
    const spec: LeaseSpec = {
      ...lease?.spec,
      holderIdentity: identity,
      leaseDurationSeconds: Math.max(1, Math.floor(this.#timing.leaseDuration / 1000)),
      acquireTime: (mine && lease.spec.acquireTime) || now,
      renewTime: now,
      leaseTransitions: lease === undefined ? 0 : lease.spec.leaseTransitions + (mine ? 0 : 1),
    };
    this.#writing = true;
    try {
      const body = lease === undefined ? newLease(namespace, name, spec) : { ...lease, spec };
      this.#see(readLease(await this.#ask(lease === undefined ? "POST" : "PUT", body)));
    } catch (error) {
      if (error instanceof ApiError && error.status > 0) this.#writing = false;
      if (error instanceof ApiError && (error.status === 409 || error.status === 404)) return false;
      throw error;
    }
    this.#writing = false;
    this.#hold(sentAt);
    return true;
  }

  #see(lease: Lease): void {
    const seen = JSON.stringify(lease.spec);
    if (seen !== this.#seen) {
      this.#seen = seen;
      this.#seenAt = this.#options.clock.now();
    }
    this.#lease = lease;
  }

  #hold(sentAt: number): void {
    const { clock, name, identity, log } = this.#options;
    const left = sentAt + this.#timing.renewDeadline - clock.now();
    // The answer took so long that others may soon take it.
    if (left <= 0 || this.#stop.signal.aborted) return;
    this.#renewedAt = sentAt;
    this.#deadline?.cancel();
    this.#deadline = clock.after(
      left,
      () => this.#lose(`not renewed for ${this.#timing.renewDeadline / 1000} s`),
      true,
    );
    if (this.#leading) return;
    this.#leading = true;
    log.info({ identity }, `holds the lease ${name}: leading`);
    this.#tell(true);
  }

  #lose(why: string): void {
    if (!this.#leading) return;
    this.#leading = false;
    this.#deadline?.cancel();
    this.#options.log.warn({ identity: this.#options.identity }, `lost the lease ${this.#options.name}: ${why}`);
    this.#tell(false);
  }

  #tell(leading: boolean): void {
    try {
      this.#options.onChange(leading);
    } catch (error) {
      this.#options.log.error({}, `a change of leadership was not taken note of: ${messageOf(error)}`);
    }
  }

  async #giveBack(): Promise<void> {
    const held = this.#leading || this.#writing;
    this.#deadline?.cancel();
    this.#stop.abort();
    if (this.#leading) {
      this.#leading = false;
      this.#tell(false);
    }
    if (!held) return;
    try {
      // What was under way may or may not have arrived: the second round sees which.
      for (let round = 0; round < 2; round++) if (await this.#writeFree()) return;
    } catch (error) {
      const text = `the lease ${this.#options.name} could not be given back, it ends by itself: ${messageOf(error)}`;
      this.#options.log.warn({}, text);
    }
  }

  /** @returns false when it was changed meanwhile */
  async #writeFree(): Promise<boolean> {
    const lease = readLease(await this.#ask("GET"));
    if (lease.spec.holderIdentity !== this.#options.identity) return true;
    const now = microTime(this.#options.clock.wall());
    const spec = { ...lease.spec, holderIdentity: "", leaseDurationSeconds: 1, acquireTime: now, renewTime: now };
    try {
      this.#lease = readLease(await this.#ask("PUT", { ...lease, spec }));
      return true;
    } catch (error) {
      if (error instanceof ApiError && error.status === 409) return false;
      throw error;
    }
  }

  #ask(method: "GET" | "POST" | "PUT", body?: unknown): Promise<unknown> {
    const { api, namespace, name } = this.#options;
    const path = method === "POST" ? collectionPath(LEASE, namespace) : objectPath(LEASE, namespace, name);
    const request: ApiRequest = { method, path, body, timeout: this.#timing.renewDeadline / 2 };
    // Giving it back happens after the stop.
    return api.request(this.#stop.signal.aborted ? request : { ...request, signal: this.#stop.signal });
  }
}

function newLease(namespace: string, name: string, spec: LeaseSpec) {
  return { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata: { namespace, name }, spec };
}

/** A Lease as far as elections care; everything else of it goes back to the server as it came. */
export interface Lease {
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly spec: LeaseSpec;
}

interface LeaseSpec {
  /** "" = nobody. */
  readonly holderIdentity: string;
  /** Whole seconds. */
  readonly leaseDurationSeconds: number;
  /** MicroTime, by the holder's wall clock: to be shown, never to be compared. */
  readonly acquireTime: string;
  readonly renewTime: string;
  readonly leaseTransitions: number;
}

/** Reads what the server sent; what is missing or of the wrong kind gets a value that frees the lease. */
function readLease(object: unknown): Lease {
  const { metadata, spec } = (object ?? {}) as Record<string, unknown>;
  const of = (spec ?? {}) as Record<string, unknown>;
  const text = (value: unknown): string => (typeof value === "string" ? value : "");
  const whole = (value: unknown): number => (typeof value === "number" && value > 0 ? Math.floor(value) : 0);
  return {
    ...(object as object),
    metadata: (metadata ?? {}) as Record<string, unknown>,
    spec: {
      ...of,
      holderIdentity: text(of["holderIdentity"]),
      leaseDurationSeconds: whole(of["leaseDurationSeconds"]),
      acquireTime: text(of["acquireTime"]),
      renewTime: text(of["renewTime"]),
      leaseTransitions: whole(of["leaseTransitions"]),
    },
  };
}

/** `2026-01-31T12:00:00.000000Z`: six decimals, as the type MicroTime wants. @param wall Unix milliseconds */
function microTime(wall: number): string {
  return new Date(wall).toISOString().replace("Z", "000Z");
}
