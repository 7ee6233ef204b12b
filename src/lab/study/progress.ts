import type { Clock } from "../../base/clock/clock.ts";
import { grouped } from "../../base/document/words.ts";
import { ProgressLine, type ProgressOut } from "../../base/process/screen.ts";
import type { StudyProgress } from "./study.ts";

/**
 * Milliseconds between two lines: on a terminal, where a line replaces the one before, and in other output, where lines stay.
 */
const REDRAW_MS = 100;
const LINE_MS = 5000;
/** Milliseconds from the start after which the remaining time can be estimated. */
const TELLING_MS = 1000;

/** Shows the progress of a study, at a rate that people can read. */
export class SimulateProgress {
  readonly #line: ProgressLine;
  readonly #clock: Clock;
  readonly #started: number;
  #shownAt: number;

  /** Starts the clock of the study. */
  constructor(out: ProgressOut, clock: Clock) {
    this.#line = new ProgressLine(out);
    this.#clock = clock;
    this.#started = clock.now();
    // A study of a few seconds needs no lines in a log.
    this.#shownAt = this.#line.terminal ? Number.NEGATIVE_INFINITY : this.#started;
  }

  show(progress: StudyProgress): void {
    this.#show((passed) => progressText(progress, passed));
  }

  /** @param items of recordings read so far */
  showRead(items: number): void {
    this.#show(() => `read ${grouped(items)} entries`);
  }

  #show(text: (passed: number) => string): void {
    const now = this.#clock.now();
    if (now - this.#shownAt < (this.#line.terminal ? REDRAW_MS : LINE_MS)) return;
    this.#shownAt = now;
    this.#line.show(text(now - this.#started));
  }

  /** Removes the line from the terminal. */
  end(): void {
    this.#line.clear();
  }
}

/** @param passed milliseconds since the start */
export function progressText(progress: StudyProgress, passed: number): string {
  const { done, total, running, share, requestsPerSecond } = progress;
  const left = share > 0 && passed >= TELLING_MS ? (passed * (1 - share)) / share : undefined;
  const parts = [
    `${Math.floor(share * 100)} %`,
    `run ${Math.min(done + 1, total)} of ${total}`,
    ...(Number.isFinite(requestsPerSecond) ? [`${grouped(requestsPerSecond)} requests/s`] : []),
    ...(left === undefined ? [] : [`about ${timeText(left)} left`]),
  ];
  return `${parts.join(", ")}: ${running}`;
}

/** `3 s`, `2 min`; at least `1 s`. @param ms >= 0 */
export function timeText(ms: number): string {
  return ms < 90_000 ? `${Math.max(1, Math.round(ms / 1000))} s` : `${grouped(ms / 60_000)} min`;
}
