import { type Clock, expireAfter } from "../../base/clock/clock.ts";
import type { HolderReport } from "./body-account.ts";
import { type ByteBudget, TICKS_PER_WINDOW } from "./byte-budget.ts";

/** A budget does not move when bodies wait and the main pool frees no bytes for this number of ticks. */
const STILL_TICKS = 3;
const TOP_HOLDERS = 5;

/** Bodies wait and the budget does not move. Sizes in bytes. */
export interface BudgetReport {
  readonly waiting: number;
  readonly used: number;
  readonly limit: number;
  /** The part of `used` in complete bodies, which wait for a decision, a proxy or a model server. */
  readonly complete: number;
  /** At most five of the incomplete bodies: those that hold most. */
  readonly holders: readonly HolderReport[];
}

/** Receives the events of the budget, for logs and metrics. */
export interface BudgetListener {
  /** The budget ended a stalled body. */
  letGo(holder: HolderReport): void;
  /** The budget does not move. Called once per episode. */
  stuck(report: BudgetReport): void;
  /** No body waits any more. @param milliseconds since `stuck` */
  moving(milliseconds: number): void;
}

/** Calls `tick` of the byte budget while it is short, and reports a budget that does not move. */
export class BudgetWatch {
  readonly #budget: ByteBudget;
  readonly #clock: Clock;
  readonly #listener: BudgetListener;
  readonly #interval: number;
  #armed = false;
  #releases = 0;
  #stillTicks = 0;
  #stuckSince: number | undefined;

  constructor(budget: ByteBudget, clock: Clock, listener: BudgetListener) {
    this.#budget = budget;
    this.#clock = clock;
    this.#listener = listener;
    this.#interval = budget.settings.window / TICKS_PER_WINDOW;
    budget.onShort = () => {
      if (!this.#armed) this.#arm();
    };
  }

  #arm(): void {
    this.#armed = true;
    // Bytes that arrived during a long turn must count.
    expireAfter(this.#clock, this.#interval, this.#tick, true);
  }

  readonly #tick = (): void => {
    this.#armed = false;
    for (const holder of this.#budget.tick()) this.#listener.letGo(holder);
    this.#judge();
    if (this.#budget.short) this.#arm();
  };

  #judge(): void {
    const { paused, releases } = this.#budget;
    const isStill = paused > 0 && releases === this.#releases;
    this.#releases = releases;
    this.#stillTicks = isStill ? this.#stillTicks + 1 : 0;
    if (this.#stuckSince === undefined) {
      if (this.#stillTicks < STILL_TICKS) return;
      this.#stuckSince = this.#clock.now();
      this.#listener.stuck(this.#report());
    } else if (paused === 0) {
      this.#listener.moving(this.#clock.now() - this.#stuckSince);
      this.#stuckSince = undefined;
    }
  }

  #report(): BudgetReport {
    const { paused, mainUsed, settings, unfinished } = this.#budget;
    return {
      waiting: paused,
      used: mainUsed,
      limit: settings.limit,
      complete: mainUsed - unfinished,
      holders: this.#budget.topHolders(TOP_HOLDERS),
    };
  }
}
