import type { Backlog } from "../brokers/broker.ts";
import { grouped, timeText } from "./batch-progress.ts";

/** Seconds without an answer after which somebody should look: while nothing is taken, and while something is. */
const NOTHING_TAKEN = 5;
const NOTHING_ANSWERED = 120;
/** Seconds between two looks, and until the same is said again. */
const EVERY = 5;
const AGAIN = 60;

/** Finds out why a batch gets no answers, and says so. */
export class BatchWatch {
  readonly #queueName: string;
  readonly #backlog: () => Promise<Backlog>;
  readonly #notice: (text: string) => void;
  #progressAt: number;
  #lookedAt: number;
  #told = "";
  #toldAt = Number.NEGATIVE_INFINITY;

  /** @param now seconds of a monotonic clock, as everywhere here */
  constructor(queueName: string, backlog: () => Promise<Backlog>, notice: (text: string) => void, now: number) {
    this.#queueName = queueName;
    this.#backlog = backlog;
    this.#notice = notice;
    this.#progressAt = now;
    this.#lookedAt = now;
  }

  /** Answers came, or nothing is awaited. */
  progress(now: number): void {
    this.#progressAt = now;
    this.#told = "";
  }

  /** Called often; looks now and then. @param underWay requests that an answer is awaited for @throws SluiceError of the broker */
  async look(now: number, underWay: number): Promise<void> {
    const quiet = now - this.#progressAt;
    if (quiet < NOTHING_TAKEN || now - this.#lookedAt < EVERY) return;
    this.#lookedAt = now;
    const said = this.#diagnosis(await this.#backlog(), quiet, underWay);
    if (said === undefined) return;
    const [kind, text] = said;
    if (kind === this.#told && now - this.#toldAt < AGAIN) return;
    this.#told = kind;
    this.#toldAt = now;
    this.#notice(text);
  }

  #diagnosis(
    { waiting, claimed, retries }: Backlog,
    quiet: number,
    underWay: number,
  ): readonly [kind: string, text: string] | undefined {
    const queue = `queue ${JSON.stringify(this.#queueName)}`;
    const since = timeText(quiet);
    if (claimed > 0) {
      if (quiet < NOTHING_ANSWERED) return undefined;
      return [
        "slow",
        `no answer for ${since}: ${grouped(claimed)} requests of ${queue} are with a dispatcher, at the gateway or waiting until another dispatcher takes them over`,
      ];
    }
    if (waiting > 0)
      return [
        "not taken",
        `nothing was taken from ${queue} for ${since}: is a dispatcher running on it (sluice dispatch), and is its gate open (/debug/gates)?`,
      ];
    if (retries > 0)
      return [
        "retries",
        `no answer for ${since}: ${grouped(retries)} requests wait to be tried again; does the gateway answer?`,
      ];
    if (waiting !== 0 || claimed !== 0 || retries !== 0) return undefined;
    return [
      "lost",
      `${grouped(underWay)} requests are in no queue any more and their results did not come: does ${queue} send its results elsewhere (result_queue_name), or was it emptied? Started again, the batch submits them again`,
    ];
  }
}
