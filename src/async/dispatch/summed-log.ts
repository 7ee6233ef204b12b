import type { Clock, Timer } from "../../base/clock/clock.ts";
import type { Logger } from "../../base/telemetry/logger.ts";

/** Milliseconds in which equal events gather before their line is written, and between two lines about them. */
const GATHER = 1000;
const APART = 10_000;
/** Queues that a line names. */
const MOST_NAMED = 20;

interface Sum {
  readonly level: "info" | "warn" | "error";
  readonly queues: Map<string, number>;
  readonly timer: Timer;
  total: number;
}

/**
 * Writes one line for many events of one kind, with their number by queue: a thousand dropped answers are one line, and each is
 * counted. The message of a line names its kind, so callers use a fixed set of messages.
 */
export class SummedLog {
  readonly #log: Logger;
  readonly #clock: Clock;
  readonly #sums = new Map<string, Sum>();
  readonly #writtenAt = new Map<string, number>();

  constructor(log: Logger, clock: Clock) {
    this.#log = log;
    this.#clock = clock;
  }

  /** @param message one of a fixed set: what happened @param count how often it happened now */
  add(level: Sum["level"], message: string, queueName: string, count = 1): void {
    let sum = this.#sums.get(message);
    if (sum === undefined) {
      const next = (this.#writtenAt.get(message) ?? Number.NEGATIVE_INFINITY) + APART;
      const pause = Math.max(GATHER, next - this.#clock.now());
      const timer = this.#clock.after(pause, () => this.#write(message), true);
      sum = { level, queues: new Map(), timer, total: 0 };
      this.#sums.set(message, sum);
    }
    sum.total += count;
    if (sum.queues.has(queueName) || sum.queues.size < MOST_NAMED)
      sum.queues.set(queueName, (sum.queues.get(queueName) ?? 0) + count);
  }

  /** Writes the gathered events now. */
  flush(): void {
    for (const message of [...this.#sums.keys()]) this.#write(message);
  }

  #write(message: string): void {
    const sum = this.#sums.get(message);
    if (sum === undefined) return;
    sum.timer.cancel();
    this.#sums.delete(message);
    this.#writtenAt.set(message, this.#clock.now());
    this.#log[sum.level]({ count: sum.total, queues: Object.fromEntries(sum.queues) }, message);
  }
}
