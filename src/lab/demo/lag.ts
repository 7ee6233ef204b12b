import type { Clock, Timer } from "../../base/clock/clock.ts";
import { quantile } from "../../base/telemetry/quantile.ts";

/** Delays of timers in milliseconds. */
export interface LagSummary {
  readonly p90: number;
  readonly max: number;
}

/** Milliseconds between two measurements, and how many of the latest ones are kept: 80 s. */
const EVERY_MS = 20;
const KEPT = 4096;
/** Times to first token of the demo are 20 ms and up. With a delay as long, they measure the machine. */
const BUSY_MS = 20;

/** Measures the delay of the event loop of this process. The times that the process measures have the same delay. */
export class LagMeter {
  readonly #clock: Clock;
  readonly #lags: number[] = [];
  #looks = 0;
  #timer: Timer;
  #due: number;

  /** Starts to measure immediately. */
  constructor(clock: Clock) {
    this.#clock = clock;
    this.#due = clock.now() + EVERY_MS;
    this.#timer = clock.after(EVERY_MS, () => this.#look(), true);
  }

  summary(): LagSummary {
    const sorted = [...this.#lags].sort((a, b) => a - b);
    return { p90: Math.round(quantile(sorted, 0.9)), max: Math.round(sorted.at(-1) ?? 0) };
  }

  stop(): void {
    this.#timer.cancel();
  }

  #look(): void {
    const now = this.#clock.now();
    this.#lags[this.#looks++ % KEPT] = Math.max(0, now - this.#due);
    this.#due = now + EVERY_MS;
    this.#timer = this.#clock.after(EVERY_MS, () => this.#look(), true);
  }
}

/** Whether the machine was so busy that it dominates the times measured meanwhile. */
export function isTooBusy({ p90 }: LagSummary): boolean {
  return p90 >= BUSY_MS;
}

/** The note below a table of times; empty when the times are valid. @param parts of the demo, by name */
export function busyNote(parts: readonly { readonly name: string; readonly lagMs: LagSummary }[]): string[] {
  const busy = parts.filter(({ lagMs }) => isTooBusy(lagMs));
  if (busy.length === 0) return [];
  const late = busy.map(({ name, lagMs }) => `${name} by ${lagMs.p90} ms (p90), ${lagMs.max} ms at worst`);
  return [
    "",
    `This machine was too busy: timers of the demo were late, in ${late.join("; in ")}.`,
    "Do not rely on the times above. End other programs and run the demo again.",
  ];
}
