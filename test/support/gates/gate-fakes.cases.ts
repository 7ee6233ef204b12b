import { VERDICT_GATES } from "../../../src/async/gates/builtin-gates.ts";
import { GateFactory, type GateFactoryOptions } from "../../../src/async/gates/factory.ts";
import type { QuotaStore } from "../../../src/async/gates/quota-store.ts";
import type { GateRedis } from "../../../src/async/gates/redis-parameters.ts";
import { SeededRandom } from "../../../src/base/clock/random.ts";
import { VirtualClock } from "../../../src/base/clock/virtual.ts";
import {
  CONTINUE,
  type DispatchGate,
  type GateMessage,
  type GateOwner,
  type GateVerdict,
  type Reservations,
} from "../../../src/base/plugin/gate.ts";
import type { RedisReply } from "../../../src/base/redis/connection.ts";
import type { LogFields, Logger } from "../../../src/base/telemetry/logger.ts";

/** What tests of gates show to them and collect from them. */

export const OWNER: GateOwner = { queueId: "q1", queueName: "nightly", poolName: "batch" };
export const POOL: GateOwner = { queueId: "", queueName: "", poolName: "batch" };

export interface TestMessage extends GateMessage {
  abort(reason?: unknown): void;
}

export function message(
  metadata: Readonly<Record<string, string>> = {},
  labels: Readonly<Record<string, string>> = {},
): TestMessage {
  const controller = new AbortController();
  return {
    id: "m",
    metadata,
    labels: { ...labels },
    deadline: 2_000_000_000,
    signal: controller.signal,
    abort: (reason = new Error("nobody waits")) => controller.abort(reason),
  };
}

/** Collects releases and runs them as the dispatcher does. */
export class Collected implements Reservations {
  readonly #releases: ((unsent?: boolean) => void)[] = [];

  get count(): number {
    return this.#releases.length;
  }

  add(release: (unsent?: boolean) => void): void {
    this.#releases.push(release);
  }

  release(unsent = false): void {
    for (const release of this.#releases.splice(0).reverse()) release(unsent);
  }
}

/** Lines of one logger. */
export class LogLines implements Logger {
  readonly lines: { readonly level: string; readonly fields: LogFields; readonly message: string }[] = [];
  readonly debug = this.#writer("debug");
  readonly info = this.#writer("info");
  readonly warn = this.#writer("warn");
  readonly error = this.#writer("error");

  #writer(level: string) {
    return (fields: LogFields, text: string) => {
      this.lines.push({ level, fields, message: text });
    };
  }

  child(): Logger {
    return this;
  }
}

export function factory(options: Partial<GateFactoryOptions> = {}): GateFactory {
  return new GateFactory({
    definitions: VERDICT_GATES,
    sources: [],
    clock: new VirtualClock(),
    random: new SeededRandom(1),
    log: new LogLines(),
    figures: () => ({ reading() {} }),
    prometheusUrl: undefined,
    cacheTtl: 5_000,
    allowUnknown: false,
    ...options,
  });
}

/** A gate that says what it is told to say, at once or later, and keeps count of what it holds. */
export class ScriptedGate implements DispatchGate {
  readonly capacities = [];
  verdict: GateVerdict | Error;
  readonly later: boolean;
  share = 1;
  asked = 0;
  /** Places that are taken. */
  held = 0;
  /** Releases so far, as they were told: was the message not sent? */
  readonly released: boolean[] = [];
  readonly #onRelease: () => void;

  constructor(verdict: GateVerdict | Error = CONTINUE, later = false, onRelease: () => void = () => {}) {
    this.verdict = verdict;
    this.later = later;
    this.#onRelease = onRelease;
  }

  async budget(): Promise<number> {
    return this.share;
  }

  apply(_: GateMessage, reservations: Reservations): GateVerdict | Promise<GateVerdict> {
    return this.later ? Promise.resolve().then(() => this.#answer(reservations)) : this.#answer(reservations);
  }

  #answer(reservations: Reservations): GateVerdict {
    this.asked++;
    if (this.verdict instanceof Error) throw this.verdict;
    if (this.verdict.kind === "continue") {
      this.held++;
      reservations.add((unsent) => {
        this.held--;
        this.released.push(unsent === true);
        this.#onRelease();
      });
    }
    return this.verdict;
  }
}

/** A quota kept in memory as the scripts keep it in Redis, on a clock of its own, shared by all who are given it. */
export class MemoryQuota implements QuotaStore {
  readonly #clock: VirtualClock;
  readonly #limit: number;
  readonly #lease: number;
  readonly sets = new Map<string, Map<string, number>>();
  /** Undefined = answers; else fails with it, before or after it did what it was asked. */
  failure: { readonly error: Error; readonly done: boolean } | undefined;
  calls = 0;
  closed = false;

  constructor(clock: VirtualClock, limit: number, lease: number) {
    this.#clock = clock;
    this.#limit = limit;
    this.#lease = lease;
  }

  /** Places taken under `key` whose time has not run out. */
  taken(key: string): number {
    let count = 0;
    for (const end of this.#set(key).values()) if (end > this.#clock.now()) count++;
    return count;
  }

  async reserve(key: string, member: string): Promise<boolean> {
    return this.#do(() => {
      if (this.taken(key) >= this.#limit) return false;
      this.#set(key).set(member, this.#clock.now() + this.#lease);
      return true;
    });
  }

  async renew(key: string, members: readonly string[]): Promise<void> {
    this.#do(() => {
      for (const member of members) this.#set(key).set(member, this.#clock.now() + this.#lease);
    });
  }

  async giveBack(key: string, members: readonly string[]): Promise<void> {
    this.#do(() => {
      for (const member of members) this.#set(key).delete(member);
    });
  }

  close(): void {
    this.closed = true;
  }

  #do<T>(change: () => T): T {
    this.calls++;
    if (this.failure !== undefined && !this.failure.done) throw this.failure.error;
    const value = change();
    if (this.failure !== undefined) throw this.failure.error;
    return value;
  }

  #set(key: string): Map<string, number> {
    const set = this.sets.get(key) ?? new Map<string, number>();
    this.sets.set(key, set);
    return set;
  }
}

/** A Redis connection that answers one thing. */
export class ScriptedRedis implements GateRedis {
  ready = true;
  reply: RedisReply | Error = null;
  sent: (readonly string[])[] = [];
  closed = false;

  async send(args: readonly string[]): Promise<RedisReply> {
    this.sent.push(args);
    if (this.reply instanceof Error) throw this.reply;
    return this.reply;
  }

  run(): Promise<RedisReply> {
    return this.send(["EVALSHA"]);
  }

  async whenReady(): Promise<void> {
    if (!this.ready) throw new Error("not connected");
  }

  close(): void {
    this.closed = true;
  }
}
