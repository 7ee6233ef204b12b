import type { Clock } from "../../../base/clock/clock.ts";
import type { Backlog, BacklogTally } from "./backlog.ts";
import type { DemoDispatcher, DispatcherView } from "./dispatcher.ts";
import { InFlightCourse, type InFlightSummary } from "./in-flight-course.ts";

/**
 * Shares of an act at which the backlog comes, and at which the dispatcher is killed: when it has caught up after the wave, and so
 * late that what it takes a small machine to start another one slows down no realtime request.
 */
const ARRIVAL = 0.05;
const KILL = 0.92;

export interface BacklogRunOptions {
  readonly work: Backlog;
  readonly dispatcher: DemoDispatcher;
  /** Whether the dispatcher is killed on the way. */
  readonly kill: boolean;
}

/** What became of a backlog, in the shape of `--json`. */
export interface BacklogSummary extends BacklogTally {
  /** From the first request queued to the last result. */
  readonly seconds: number;
  readonly kills: number;
  readonly inFlight: InFlightSummary;
}

/** How a backlog stands at one moment. */
export interface BacklogMoment {
  readonly waiting: number;
  readonly done: number;
  /** Undefined while the dispatcher is away. */
  readonly view: DispatcherView | undefined;
}

/** A backlog in the course of an act: when it comes, how it goes on, and what has become of it. */
export class BacklogRun {
  readonly #options: BacklogRunOptions;
  readonly #clock: Clock;
  readonly #course = new InFlightCourse();
  #queuedAt: number | undefined;
  #doneAt: number | undefined;
  #killed = false;

  constructor(options: BacklogRunOptions, clock: Clock) {
    this.#options = options;
    this.#clock = clock;
  }

  /** Every request has a result. */
  get done(): boolean {
    return this.#doneAt !== undefined;
  }

  /** Does what is due and looks how it stands. @param share of the act that is over, above 1 after its end */
  async step(share: number): Promise<BacklogMoment> {
    const { work, dispatcher, kill } = this.#options;
    if (this.#queuedAt === undefined && share >= ARRIVAL) {
      this.#queuedAt = this.#clock.now();
      await work.enqueue();
    }
    if (kill && !this.#killed && share >= KILL) {
      this.#killed = true;
      dispatcher.kill();
    }
    const view = await dispatcher.look();
    const depths = await work.depths();
    if (view !== undefined) this.#course.add(share, view.running);
    if (depths.done >= work.size) this.#doneAt ??= this.#clock.now();
    return { ...depths, view };
  }

  /** Ends the dispatcher, so that nothing can come after it, and counts the results. */
  async finish(): Promise<BacklogSummary> {
    const { work, dispatcher } = this.#options;
    await dispatcher.stop();
    const ms = (this.#doneAt ?? this.#clock.now()) - (this.#queuedAt ?? this.#clock.now());
    const seconds = Math.round(ms / 100) / 10;
    return { ...(await work.collect()), seconds, kills: dispatcher.kills, inFlight: this.#course.summary() };
  }
}
