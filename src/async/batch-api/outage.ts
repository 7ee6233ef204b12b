import type { Clock } from "../../base/clock/clock.ts";
import { messageOf } from "../../base/inference/errors.ts";
import type { Logger } from "../../base/telemetry/logger.ts";

/** Tells the failures of a step that is repeated all the time: one line when they begin, and one with their number when they end. */
export class Outage {
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #begins: string;
  readonly #ends: string;
  /** Undefined = the last attempt succeeded. `since`: monotonic milliseconds. */
  #now: { readonly since: number; failures: number } | undefined;

  /** @param begins the line of the first failure @param ends the line of the first success after failures */
  constructor({ clock, log }: { readonly clock: Clock; readonly log: Logger }, begins: string, ends: string) {
    this.#clock = clock;
    this.#log = log;
    this.#begins = begins;
    this.#ends = ends;
  }

  failed(error: unknown): void {
    if (this.#now !== undefined) {
      this.#now.failures++;
      return;
    }
    this.#now = { since: this.#clock.now(), failures: 1 };
    this.#log.warn({ error: messageOf(error) }, this.#begins);
  }

  succeeded(): void {
    if (this.#now === undefined) return;
    const { since, failures } = this.#now;
    this.#now = undefined;
    this.#log.info({ failures, seconds: Math.round((this.#clock.now() - since) / 1000) }, this.#ends);
  }
}
