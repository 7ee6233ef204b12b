import type { Clock } from "../../base/clock/clock.ts";
import { messageOf } from "../../base/inference/errors.ts";

/** Milliseconds that a probe waits for the broker (async-processor 8.3). */
const LIMIT = 3_000;

/** Asks the broker whether it can be reached, once at a time however many probes want to know. */
export class ReadinessCheck {
  readonly #check: () => Promise<void>;
  readonly #clock: Clock;
  #running: Promise<string | undefined> | undefined;

  /** @param check rejects with what is wrong; settles some time */
  constructor(check: () => Promise<void>, clock: Clock) {
    this.#check = check;
    this.#clock = clock;
  }

  /** What is wrong; undefined = nothing. Never rejects, and takes no longer than 3 s. */
  problem(): Promise<string | undefined> {
    const asked = this.#running ?? this.#begin();
    return new Promise((resolve) => {
      const limit = this.#clock.after(LIMIT, () => resolve(`no answer within ${LIMIT / 1000} s`));
      void asked.then((problem) => {
        limit.cancel();
        resolve(problem);
      });
    });
  }

  #begin(): Promise<string | undefined> {
    const asked = this.#ask();
    this.#running = asked;
    void asked.then(() => {
      this.#running = undefined;
    });
    return asked;
  }

  async #ask(): Promise<string | undefined> {
    try {
      await this.#check();
      return undefined;
    } catch (error) {
      return messageOf(error) || "failed";
    }
  }
}
