import { counted, grouped } from "../../base/document/words.ts";
import type { QueueBacklog } from "../brokers/broker.ts";

/** The progress of a batch; the run updates it. */
export interface BatchFigures {
  /** All lines. */
  readonly total: number;
  /** Lines with an answer, those of earlier runs included. */
  done: number;
  /** Lines with an answer that ended in an error. */
  failed: number;
  /** Lines that are submitted and have no answer yet. */
  underWay: number;
}

/** Longest time that the rate covers, seconds. */
const LOOK_BACK = 60;
const MOST_SAMPLES = 240;

/** Describes the progress of a batch in one line, with the rate of the last minute and the time left at that rate. */
export class BatchProgress {
  readonly #figures: BatchFigures;
  readonly #rate = new LineRate();

  constructor(figures: BatchFigures) {
    this.#figures = figures;
  }

  /** @param now seconds of a monotonic clock */
  line(now: number): string {
    const { total, done, failed, underWay } = this.#figures;
    const rate = this.#rate.at(now, done);
    const share = total === 0 ? 100 : Math.floor((1000 * done) / total) / 10;
    const errors = failed === 0 ? [] : [counted(failed, "error")];
    const left = total - done;
    const eta = left === 0 ? [] : [`ETA ${rate > 0 ? durationText(left / rate) : "unknown"}`];
    return [
      `${grouped(done)}/${grouped(total)} (${share} %)`,
      ...errors,
      `${lineRateText(rate)}/s`,
      `${grouped(underWay)} under way`,
      ...eta,
    ].join(", ");
  }
}

/** The lines that get their answer each second, over the last minute. */
export class LineRate {
  /** Time in seconds and lines done, oldest first. */
  readonly #samples: (readonly [number, number])[] = [];

  /** Adds a sample, and returns the rate. @param now seconds of a monotonic clock @param done lines with an answer */
  at(now: number, done: number): number {
    const samples = this.#samples;
    samples.push([now, done]);
    while (samples.length > MOST_SAMPLES || (samples.length > 2 && now - samples[1]![0] >= LOOK_BACK)) samples.shift();
    const [since, before] = samples[0]!;
    return now > since ? (done - before) / (now - since) : 0;
  }
}

/** A duration as text: `45s`, `12m 5s`, `3h 7m`, `4d 2h`. @param seconds >= 0 */
export function durationText(seconds: number): string {
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${whole % 60}s`;
  if (whole < 86_400) return `${Math.floor(whole / 3600)}h ${Math.floor((whole % 3600) / 60)}m`;
  return `${Math.floor(whole / 86_400)}d ${Math.floor((whole % 86_400) / 3600)}h`;
}

/** Lines each second as text: with a digit behind the point below 10. */
export function lineRateText(rate: number): string {
  return rate >= 10 ? grouped(rate) : rate.toFixed(1);
}

/** Seconds without an answer until a notice: while no request is claimed, and while some are. */
const NOTHING_TAKEN = 5;
const NOTHING_ANSWERED = 120;
/** Seconds between two polls of the backlog, and until the same notice is repeated. */
const EVERY = 5;
const AGAIN = 60;

/** Finds out why a batch gets no answers, and reports the reason. */
export class BatchWatch {
  readonly #queueName: string;
  readonly #backlog: () => Promise<QueueBacklog>;
  readonly #notice: (text: string) => void;
  #progressAt: number;
  #lookedAt: number;
  #told = "";
  #toldAt = Number.NEGATIVE_INFINITY;

  /** @param now seconds of a monotonic clock, as everywhere here */
  constructor(queueName: string, backlog: () => Promise<QueueBacklog>, notice: (text: string) => void, now: number) {
    this.#queueName = queueName;
    this.#backlog = backlog;
    this.#notice = notice;
    this.#progressAt = now;
    this.#lookedAt = now;
  }

  /** Call it when answers came, or when no answer is awaited. */
  progress(now: number): void {
    this.#progressAt = now;
    this.#told = "";
  }

  /** Call it often; it polls at intervals. @param underWay requests without an answer yet @throws SluiceError of the broker */
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
    { waiting, claimed, retries }: QueueBacklog,
    quiet: number,
    underWay: number,
  ): readonly [kind: string, text: string] | undefined {
    const queue = `queue ${JSON.stringify(this.#queueName)}`;
    const since = durationText(quiet);
    if (claimed > 0) {
      if (quiet < NOTHING_ANSWERED) return undefined;
      return [
        "slow",
        `no answer in the last ${since}: ${grouped(claimed)} requests of ${queue} are at a dispatcher or the gateway, or wait for another dispatcher`,
      ];
    }
    if (waiting > 0)
      return [
        "not taken",
        `no request has left ${queue} in the last ${since}: does a dispatcher (sluice dispatch) serve this queue, and is its gate open (/debug/gates)?`,
      ];
    if (retries > 0)
      return [
        "retries",
        `no answer in the last ${since}: ${grouped(retries)} requests wait for a retry; does the gateway answer?`,
      ];
    if (waiting !== 0 || claimed !== 0 || retries !== 0) return undefined;
    return [
      "lost",
      `${grouped(underWay)} requests left their queue without a result: does ${queue} send its results elsewhere (result_queue_name), or did another program empty the queue? To submit the requests again, restart the batch`,
    ];
  }
}
