import { randomBytes } from "node:crypto";
import { z } from "zod";
import type { Clock, Timer } from "../../base/clock/clock.ts";
import { messageOf } from "../../base/inference/errors.ts";
import {
  CONTINUE,
  type DispatchGate,
  defineGate,
  type GateContext,
  type GateMessage,
  type GateVerdict,
  type Reservations,
  WAIT,
} from "../../base/plugin/gate.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { whileWanted } from "./metric-sources/refresh-cache.ts";
import { choiceParameter, durationParameter, intParameter, stringParameter } from "./parameters.ts";
import { GiveBack, QUOTA_SCRIPTS, type QuotaStore, RedisConcurrency, RedisRateLimit } from "./quota-store.ts";
import { CONNECTION_PARAMETERS, connectGate, verifyConnection } from "./redis-parameters.ts";

/** Most places that one gate holds at a time; later messages ask again. */
export const MAX_HELD = 20_000;
/** Longest pause between two renewals, milliseconds. */
const LONGEST_RENEWAL = 30_000;

const EXHAUSTED: GateVerdict = { kind: "refuse", reason: "quota_exhausted" };

interface QuotaOptions {
  readonly attribute: string;
  readonly prefix: string;
  /** True: labels the message and lets it pass. False: refuses it. */
  readonly classifying: boolean;
  /** Milliseconds that a place lives without a renewal; undefined = places are tokens, which expire. */
  readonly lease: number | undefined;
}

/**
 * A quota per value of an attribute that all processes share (async-processor 3.4). In concurrency mode, each message in flight
 * holds a place under a lease, which is renewed while the message runs, without a limit. A holder that dies stops renewing, and
 * its places are free one lease later. The token of a rate limit is kept when the message was sent, and goes back otherwise.
 */
export class QuotaGate implements DispatchGate {
  readonly capacities = [];
  readonly #store: QuotaStore;
  readonly #options: QuotaOptions;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #giveBack: GiveBack;
  /** Places that need renewal, by key. */
  readonly #held = new Map<string, Set<string>>();
  #holding = 0;
  #renewal: Timer | undefined;
  /** No other process and no earlier run of this one has the same name. */
  readonly #name = randomBytes(9).toString("base64url");
  #count = 0;

  constructor(store: QuotaStore, options: QuotaOptions, { clock, log }: Pick<GateContext, "clock" | "log">) {
    this.#store = store;
    this.#options = options;
    this.#clock = clock;
    this.#log = log;
    this.#giveBack = new GiveBack(store, clock, log);
  }

  async budget(): Promise<number> {
    return 1;
  }

  apply(message: GateMessage, reservations: Reservations): GateVerdict | Promise<GateVerdict> {
    const key = this.#key(message);
    if (key === undefined) return CONTINUE;
    if (this.#holding >= MAX_HELD) return WAIT;
    return this.#reserve(key, message, reservations);
  }

  async #reserve(key: string, { labels, signal }: GateMessage, reservations: Reservations): Promise<GateVerdict> {
    const member = `${this.#name}-${(this.#count++).toString(36)}`;
    const reserving = this.#store.reserve(key, member);
    let reserved: boolean;
    try {
      reserved = await whileWanted(reserving, signal);
    } catch (error) {
      // The place goes back in all three cases: it was taken, its answer was lost, or it is about to be taken.
      const giveBack = (): void => this.#giveBack.give(key, member);
      reserving.then(giveBack, giveBack);
      throw error;
    }
    labels["classification"] = reserved ? "reserved" : "overflow";
    if (!reserved) return this.#options.classifying ? CONTINUE : EXHAUSTED;
    if (this.#options.lease === undefined)
      reservations.add((unsent) => {
        if (unsent === true) this.#giveBack.give(key, member);
      });
    else {
      this.#hold(key, member, this.#options.lease);
      reservations.add(() => {
        this.#letGo(key, member);
        this.#giveBack.give(key, member);
      });
    }
    return CONTINUE;
  }

  /** Messages with the same quota are refused together. */
  refusalKey(message: GateMessage): string | undefined {
    return this.#options.classifying ? undefined : this.#key(message);
  }

  /** Undefined: the message has no such attribute, and so no quota. */
  #key({ metadata }: GateMessage): string | undefined {
    const { attribute, prefix } = this.#options;
    return Object.hasOwn(metadata, attribute) ? `${prefix}${attribute}:${metadata[attribute]}` : undefined;
  }

  #hold(key: string, member: string, lease: number): void {
    const members = this.#held.get(key);
    if (members === undefined) this.#held.set(key, new Set([member]));
    else members.add(member);
    this.#holding++;
    this.#renewal ??= this.#renewIn(Math.min(LONGEST_RENEWAL, lease / 3));
  }

  #letGo(key: string, member: string): void {
    const members = this.#held.get(key);
    if (members?.delete(member) !== true) return;
    this.#holding--;
    if (members.size === 0) this.#held.delete(key);
  }

  #renewIn(pause: number): Timer {
    return this.#clock.after(
      pause,
      () => {
        this.#renewal = this.#holding === 0 ? undefined : this.#renewIn(pause);
        // The next renewal makes up for one that fails: two more fit within the lease.
        void this.#renew();
      },
      true,
    );
  }

  /** The next round makes up for a renewal that fails: two more fit within the lease. */
  async #renew(): Promise<void> {
    const rounds = await Promise.allSettled(
      [...this.#held].map(([key, members]) => this.#store.renew(key, [...members])),
    );
    const failed = rounds.filter((round) => round.status === "rejected");
    if (failed.length > 0)
      this.#log.warn(
        { error: messageOf(failed[0]!.reason), quotas: failed.length },
        "Leases of quota places not renewed; Sluice tries again",
      );
  }

  /** Places that are still held free themselves when their lease ends. */
  async close(): Promise<void> {
    this.#renewal?.cancel();
    this.#held.clear();
    this.#holding = 0;
    await this.#giveBack.close();
    this.#store.close();
  }
}

export const redisQuotaGate = defineGate({
  type: "redis-quota",
  shared: true,
  describe:
    "Gives each value of `attribute` a quota; a message passes while its quota has room. All processes share the quotas in Redis.",
  parameters: z.strictObject({
    ...CONNECTION_PARAMETERS,
    attribute: stringParameter({ default: "userid" }).describe(
      "Name of a metadata entry of messages; each value of the entry has its own quota. A message without the entry passes.",
    ),
    mode: choiceParameter(["rate-limit", "concurrency"], { default: "rate-limit" }).describe(
      "`rate-limit` counts messages in a sliding window; `concurrency` counts messages in flight.",
    ),
    limit: intParameter({ min: 1 }).describe("The quota: messages in a window or in flight, 1 or more."),
    window: durationParameter({ default: "1m", moreThan: 0 }).describe(
      "Length of the window. In mode `concurrency`: time until the places of a process that died are free again; a value below 1s means 5m.",
    ),
    prefix: stringParameter({ default: "quota:" }).describe("Prefix of the Redis keys; `<attribute>:<value>` follows."),
    gating_mode: choiceParameter(["blocking", "classifying"], { default: "blocking" }).describe(
      "`blocking` returns messages over the quota to their queue. `classifying` lets all messages pass, with the label `reserved` or `overflow`.",
    ),
  }),
  verify: verifyConnection,
  create(parameters, context) {
    const { attribute, mode, limit, window, prefix } = parameters;
    const connection = connectGate(parameters, context, QUOTA_SCRIPTS);
    // A window below a second makes no lease: processes could not renew it in time.
    const lease = window < 1_000 ? 300_000 : window;
    const concurrency = mode === "concurrency";
    return new QuotaGate(
      concurrency ? new RedisConcurrency(connection, limit, lease) : new RedisRateLimit(connection, limit, window),
      {
        attribute,
        prefix,
        classifying: parameters.gating_mode === "classifying",
        lease: concurrency ? lease : undefined,
      },
      context,
    );
  },
});
