import { type Clock, delay } from "../../base/clock/clock.ts";
import { SluiceError } from "../../base/inference/errors.ts";

/** Milliseconds until a broker that is away is asked again. */
const AWAY = 1000;

/** Waits for a broker that is away. */
export class Patience {
  readonly #clock: Clock;
  readonly #notice: (text: string) => void;
  #away = false;

  /** @param notice gets a sentence for the user when the broker has gone */
  constructor(clock: Clock, notice: (text: string) => void = () => {}) {
    this.#clock = clock;
    this.#notice = notice;
  }

  /** Repeats `work` until the broker is available for it. @throws the signal's reason, or every other error of `work` */
  async until<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    for (;;) {
      signal.throwIfAborted();
      try {
        const value = await work();
        this.#away = false;
        return value;
      } catch (error) {
        await this.bear(error, signal);
      }
    }
  }

  /** Waits when the broker is away. @throws every other error */
  async bear(error: unknown, signal: AbortSignal): Promise<void> {
    if (!(error instanceof SluiceError) || error.code !== "BROKER_UNAVAILABLE") throw error;
    if (!this.#away) this.#notice(`${error.message}; the batch waits until the store answers again`);
    this.#away = true;
    await delay(this.#clock, AWAY, signal);
  }
}
