import { z } from "zod";
import type { Clock } from "../../base/clock/clock.ts";
import { messageOf } from "../../base/inference/errors.ts";
import {
  type CapacityReading,
  type CapacitySource,
  CONTINUE,
  type DispatchGate,
  defineGate,
  type GateContext,
  type GateMessage,
  type GateVerdict,
  REFUSE,
} from "../../base/plugin/gate.ts";
import { RefreshCache, whileWanted } from "./metric-sources/refresh-cache.ts";
import { floatParameter, stringParameter } from "./parameters.ts";
import { CONNECTION_PARAMETERS, connectGate, type GateRedis, keyName, verifyConnection } from "./redis-parameters.ts";

/** Milliseconds for which an answer serves all callers: as often as the reference asks for one waiting message. */
const FRESH_FOR = 50;
/** Milliseconds that a question waits for a connection, and for everything together. */
const CONNECT_LIMIT = 1_000;
const ANSWER_LIMIT = 5_000;
/** A decimal number in the usual notation; no hexadecimal, no infinity. */
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/**
 * The share of the workers that may have a message in flight, as a user writes it into a Redis key (async-processor 3.3). An
 * unreadable value closes the gate (async-processor 2.5).
 */
export class RedisBudget implements DispatchGate, CapacitySource {
  readonly key: string;
  readonly capacities = [this];
  readonly #redis: GateRedis;
  readonly #budgetKey: string;
  readonly #missing: number | undefined;
  readonly #clock: Clock;
  readonly #report: (reading: CapacityReading) => void;
  readonly #cache: RefreshCache<CapacityReading>;

  /**
   * @param key.name names the key and its server, for users and for the ledger
   * @param missing budget while there is no such key; undefined = unreadable
   */
  constructor(
    redis: GateRedis,
    key: { readonly name: string; readonly budgetKey: string },
    missing: number | undefined,
    { clock, figures }: Pick<GateContext, "clock" | "figures">,
  ) {
    this.key = key.name;
    this.#redis = redis;
    this.#budgetKey = key.budgetKey;
    this.#missing = missing;
    this.#clock = clock;
    this.#report = (reading) => figures.reading("", reading);
    this.#cache = new RefreshCache({
      clock,
      ttl: FRESH_FOR,
      limit: ANSWER_LIMIT,
      ask: () => this.#ask(),
      failed: (error) => this.#told(unreadable(`${this.key}: ${messageOf(error)}`, clock.wall())),
    });
  }

  async read(fresh: boolean): Promise<CapacityReading> {
    return this.#cache.read(fresh);
  }

  async #ask(): Promise<CapacityReading> {
    const sampleTime = this.#clock.wall();
    return this.#told(this.#reading(await this.#get(), sampleTime));
  }

  #told(reading: CapacityReading): CapacityReading {
    this.#report(reading);
    return reading;
  }

  async #get(): Promise<string | null> {
    // A process that has just started asks before it has a connection.
    if (!this.#redis.ready) await this.#redis.whenReady(CONNECT_LIMIT);
    const reply = await this.#redis.send(["GET", this.#budgetKey]);
    return reply === null ? null : String(reply);
  }

  #reading(text: string | null, sampleTime: number): CapacityReading {
    if (text === null)
      return this.#missing === undefined
        ? unreadable(`${this.key} does not exist`, sampleTime)
        : readable(this.#missing, sampleTime);
    const value = NUMBER.test(text.trim()) ? Number(text) : Number.NaN;
    if (Number.isFinite(value)) return readable(value, sampleTime);
    return unreadable(`${this.key} holds ${JSON.stringify(text.slice(0, 40))}, which is not a number`, sampleTime);
  }

  async budget(): Promise<number> {
    return (await this.read(false)).budget;
  }

  apply({ admitted, signal }: GateMessage): GateVerdict | Promise<GateVerdict> {
    if (admitted === true) return CONTINUE;
    const { kept } = this.#cache;
    return kept === undefined ? whileWanted(this.read(false), signal).then(verdict) : verdict(kept);
  }

  /** All messages share the budget. */
  refusalKey(): string {
    return "";
  }

  close(): void {
    this.#cache.close();
    this.#redis.close();
  }
}

function verdict({ budget }: CapacityReading): GateVerdict {
  return budget > 0 ? CONTINUE : REFUSE;
}

function readable(value: number, sampleTime: number): CapacityReading {
  return reading(true, "", value, sampleTime);
}

function unreadable(problem: string, sampleTime: number): CapacityReading {
  return reading(false, problem, 0, sampleTime);
}

function reading(isReadable: boolean, problem: string, value: number, sampleTime: number): CapacityReading {
  return {
    readable: isReadable,
    problem,
    budget: Math.min(1, Math.max(0, value)),
    baseline: 0,
    maxSys: undefined,
    unit: "requests",
    // The number contains no measurement of running work: all own work counts against it.
    kind: "queue-only",
    sampleTime,
    value,
    threshold: 0,
  };
}

export const redisGate = defineGate({
  type: "redis",
  shared: true,
  describe:
    "Limits the share of busy workers to a number from 0 to 1 that you write to a Redis key. With 0.5, half of the workers may have a request in flight. The gate is closed while the number is unreadable.",
  parameters: z.strictObject({
    ...CONNECTION_PARAMETERS,
    budget_key: stringParameter({ default: "dispatch-gate-budget" }).describe("The Redis key that holds the share."),
    missing_budget: floatParameter({ optional: true, min: 0, max: 1 }).describe(
      "Share while the key is missing; without this parameter a missing key closes the gate.",
    ),
  }),
  verify: verifyConnection,
  create(parameters, context) {
    const redis = connectGate(parameters, context);
    const key = { name: keyName(parameters, parameters.budget_key), budgetKey: parameters.budget_key };
    return new RedisBudget(redis, key, parameters.missing_budget, context);
  },
});
