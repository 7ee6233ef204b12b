import type { Clock } from "../clock/clock.ts";
import type { LogFields, Logger } from "./logger.ts";

export interface RateLimits {
  /** At most one line per key in this many milliseconds; above 0. */
  readonly intervalMs: number;
  /** Most keys with a place of their own at a time, at least 1. While all places are in use, further keys share one. */
  readonly maxKeys: number;
}

interface Gate {
  /** When the last line was written, by the monotonic clock. */
  writtenAt: number;
  suppressed: number;
}

/**
 * Lets one line per key and interval through: at most `maxKeys` + 1 lines per interval altogether. A line that follows
 * suppressed ones gives their number in the field `suppressed`.
 */
export class RateLimitedLog {
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #limits: RateLimits;
  /** In the order of `writtenAt`, so that the first gate is the first to expire. */
  readonly #gates = new Map<string, Gate>();
  readonly #shared: Gate = { writtenAt: Number.NEGATIVE_INFINITY, suppressed: 0 };

  constructor(logger: Logger, clock: Clock, limits: RateLimits) {
    this.#logger = logger;
    this.#clock = clock;
    this.#limits = limits;
  }

  /** Writes the line unless `key` had one within the interval; returns whether it was written. */
  log(level: "debug" | "info" | "warn" | "error", key: string, fields: LogFields, message: string): boolean {
    const now = this.#clock.now();
    const gate = this.#gate(key, now);
    if (now - gate.writtenAt < this.#limits.intervalMs) {
      gate.suppressed++;
      return false;
    }
    const line = gate.suppressed === 0 ? fields : { ...fields, suppressed: gate.suppressed };
    gate.writtenAt = now;
    gate.suppressed = 0;
    if (gate !== this.#shared) {
      this.#gates.delete(key);
      this.#gates.set(key, gate);
    }
    this.#logger[level](line, message);
    return true;
  }

  /** Number of keys with a place of their own at the moment, at most `maxKeys`. */
  get size(): number {
    return this.#gates.size;
  }

  #gate(key: string, now: number): Gate {
    const known = this.#gates.get(key);
    if (known !== undefined) return known;
    if (this.#gates.size >= this.#limits.maxKeys) {
      for (const [oldest, gate] of this.#gates) {
        if (now - gate.writtenAt < this.#limits.intervalMs) return this.#shared;
        this.#gates.delete(oldest);
        break;
      }
    }
    return { writtenAt: Number.NEGATIVE_INFINITY, suppressed: 0 };
  }
}
