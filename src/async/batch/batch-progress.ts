/** How far a batch is; changed by whoever works on it. */
export interface BatchFigures {
  /** Lines in all. */
  readonly total: number;
  /** With an answer, those of earlier runs among them. */
  done: number;
  /** Of those, the ones that ended in an error. */
  failed: number;
  /** Submitted and without an answer yet. */
  underWay: number;
}

/** Seconds that the rate looks back at most. */
const LOOK_BACK = 60;
const MOST_SAMPLES = 240;

/** Says how a batch gets on: in one line, with the rate of the last minute and the time that is left at that rate. */
export class BatchProgress {
  readonly #figures: BatchFigures;
  /** Time in seconds and lines done, oldest first. */
  readonly #samples: (readonly [number, number])[] = [];

  constructor(figures: BatchFigures) {
    this.#figures = figures;
  }

  /** @param now seconds of a monotonic clock */
  line(now: number): string {
    const { total, done, failed, underWay } = this.#figures;
    const rate = this.#rate(now, done);
    const share = total === 0 ? 100 : Math.floor((1000 * done) / total) / 10;
    const errors = failed === 0 ? [] : [`${grouped(failed)} ${failed === 1 ? "error" : "errors"}`];
    const left = total - done;
    const eta = left === 0 ? [] : [`ETA ${rate > 0 ? timeText(left / rate) : "unknown"}`];
    return [
      `${grouped(done)}/${grouped(total)} (${share} %)`,
      ...errors,
      `${rateText(rate)}/s`,
      `${grouped(underWay)} under way`,
      ...eta,
    ].join(", ");
  }

  #rate(now: number, done: number): number {
    const samples = this.#samples;
    samples.push([now, done]);
    while (samples.length > MOST_SAMPLES || (samples.length > 2 && now - samples[1]![0] >= LOOK_BACK)) samples.shift();
    const [since, before] = samples[0]!;
    return now > since ? (done - before) / (now - since) : 0;
  }
}

/** A time that people can grasp: `45s`, `12m 5s`, `3h 7m`, `4d 2h`. @param seconds >= 0 */
export function timeText(seconds: number): string {
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${whole % 60}s`;
  if (whole < 86_400) return `${Math.floor(whole / 3600)}h ${Math.floor((whole % 3600) / 60)}m`;
  return `${Math.floor(whole / 86_400)}d ${Math.floor((whole % 86_400) / 3600)}h`;
}

/** 1234567 as `1,234,567`. */
export function grouped(count: number): string {
  return String(count).replace(/\B(?=(\d{3})+$)/g, ",");
}

function rateText(rate: number): string {
  return rate >= 10 ? grouped(Math.round(rate)) : rate.toFixed(1);
}
