import { type Clock, delay, type Timer } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import { messageOf } from "../../base/inference/errors.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import { type ApiClient, type ApiRequest, collectionPath, LEASE, objectPath } from "./api-client.ts";
import { ApiError } from "./api-error.ts";

/** Milliseconds. */
interface LeaderTiming {
  /** Milliseconds for which others leave a lease alone that is not renewed; whole seconds, default 15,000. */
  readonly leaseDuration: number;
  /** Milliseconds without a renewal after which the leader steps down; below `leaseDuration`, default 10,000. */
  readonly renewDeadline: number;
  /** Milliseconds between attempts; default 2,000. */
  readonly retryPeriod: number;
}

interface LeaderElectorOptions {
  readonly api: ApiClient;
  readonly namespace: string;
  /** Name of the Lease. */
  readonly name: string;
  /** Unique to this process. */
  readonly identity: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  readonly timing?: LeaderTiming;
  /** Called after each change, beginning with `true` when this process wins for the first time. */
  onChange(leading: boolean): void;
}

const DEFAULT_TIMING: LeaderTiming = { leaseDuration: 15_000, renewDeadline: 10_000, retryPeriod: 2_000 };
/** A candidate waits for the retry period plus up to this many times the period, so that attempts spread. */
const JITTER = 1.2;
/** Milliseconds over which candidates spread the attempt at the end of a lease. */
const END_SPREAD = 500;

/**
 * One leader among several processes, by a Lease as client-go keeps it, so that other programs may take part (api-resources
 * 3.7). A lease holds for a time after this process saw it change: clocks of machines are never compared.
 */
export class LeaderElector {
  readonly #options: LeaderElectorOptions;
  readonly #timing: LeaderTiming;
  readonly #log: RateLimitedLog;
  readonly #stop = new AbortController();
  #started = false;
  #leading = false;
  /** The Lease as this process saw it last, and the time since it has been so. */
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

  /** Begins to take part; returns at once. */
  start(): void {
    if (this.#started || this.#stop.signal.aborted) return;
    this.#started = true;
    void this.#run();
  }

  /** Also false when a renewal is overdue, even if the process slept through that moment. */
  get leading(): boolean {
    return this.#leading && this.#options.clock.now() - this.#renewedAt < this.#timing.renewDeadline;
  }

  /** Identity of the holder when the lease was seen last; "" = no holder, or not known yet. */
  get holder(): string {
    return this.#lease?.spec.holderIdentity ?? "";
  }

  /**
   * Steps down and stops. If it leads, `onChange(false)` runs at once. Then it gives the lease back, so that others need not
   * wait for its end. Never rejects; takes at most twice the renew deadline.
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
        const text = `the lease ${this.#options.name} cannot be ${this.#leading ? "renewed" : "read or acquired"}`;
        const level = error instanceof ApiError && error.status === 403 ? "error" : "warn";
        this.#log.log(level, text, {}, `${text}: ${messageOf(error)}`);
      }
      await delay(this.#options.clock, this.#pause(), this.#stop.signal).catch(() => {});
    }
  }

  /**
   * Milliseconds until the next attempt. A candidate tries at the end of the lease, because without a renewal no process leads
   * then.
   */
  #pause(): number {
    const { clock, random } = this.#options;
    const { retryPeriod } = this.#timing;
    if (this.#leading) return retryPeriod;
    const pause = retryPeriod * (1 + random.next() * JITTER);
    const left = this.#freeAt - clock.now();
    return left > 0 ? Math.min(pause, left + random.next() * END_SPREAD) : pause;
  }

  /** When the lease of the present holder ends, on the monotonic clock of this process. */
  get #freeAt(): number {
    return this.#seenAt + (this.#lease?.spec.leaseDurationSeconds ?? 0) * 1000;
  }

  async #acquireOrRenew(): Promise<void> {
    if (this.#leading && this.#lease !== undefined) {
      // The Lease is still as this process wrote it last, or another process has it by now.
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
      if (this.#leading) this.#lose(`${holderIdentity} holds it`);
      if (this.#options.clock.now() < this.#freeAt) return;
    }
    await this.#write(lease);
  }

  /** @param lease the Lease to replace; undefined = there is none. @returns false when another process was faster */
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
    // The answer took so long that other processes may soon take the lease.
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
    log.info({ identity }, `this replica holds the lease ${name} and leads`);
    this.#tell(true);
  }

  #lose(why: string): void {
    if (!this.#leading) return;
    this.#leading = false;
    this.#deadline?.cancel();
    this.#options.log.warn(
      { identity: this.#options.identity },
      `this replica lost the lease ${this.#options.name}: ${why}`,
    );
    this.#tell(false);
  }

  #tell(leading: boolean): void {
    try {
      this.#options.onChange(leading);
    } catch (error) {
      this.#options.log.error({}, `a part of the picker did not handle a change of leadership: ${messageOf(error)}`);
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
      // A write that was under way may or may not have arrived: the second round finds out.
      for (let round = 0; round < 2; round++) if (await this.#writeFree()) return;
    } catch (error) {
      const text = `the lease ${this.#options.name} was not released; others wait until it expires: ${messageOf(error)}`;
      this.#options.log.warn({}, text);
    }
  }

  /** @returns false when another write came first */
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
    // The lease is given back after the stop.
    return api.request(this.#stop.signal.aborted ? request : { ...request, signal: this.#stop.signal });
  }
}

function newLease(namespace: string, name: string, spec: LeaseSpec) {
  return { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata: { namespace, name }, spec };
}

/** The fields of a Lease that elections use; all other fields go back to the server unchanged. */
export interface Lease {
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly spec: LeaseSpec;
}

interface LeaseSpec {
  /** "" = no holder. */
  readonly holderIdentity: string;
  /** Whole seconds. */
  readonly leaseDurationSeconds: number;
  /** MicroTime, by the holder's wall clock: for display, never for comparison. */
  readonly acquireTime: string;
  readonly renewTime: string;
  readonly leaseTransitions: number;
}

/** Reads the server's Lease. A field that is missing or of the wrong kind gets a value that frees the lease. */
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

/** `2026-01-31T12:00:00.000000Z`: six decimals, as the type MicroTime requires. @param wall Unix milliseconds */
function microTime(wall: number): string {
  return new Date(wall).toISOString().replace("Z", "000Z");
}
