import type { Clock } from "../../base/clock/clock.ts";
import type { HolderReport } from "./body-account.ts";
import { type ByteBudget, TICKS_PER_WINDOW } from "./byte-budget.ts";

/** A budget does not move when bodies wait for so many ticks and no bytes of the main pool are given back. */
const STILL_TICKS = 3;
const TOP_HOLDERS = 5;

/** Bodies wait and nothing moves. Sizes in bytes. */
export interface BudgetReport {
  readonly waiting: number;
  readonly used: number;
  readonly limit: number;
  /** Of `used`: bodies that are complete and wait for a decision, a proxy or a model server. */
  readonly complete: number;
  /** Of the other bodies those that hold most, at most five. */
  readonly holders: readonly HolderReport[];
}

/** What people are told. */
export interface BudgetListener {
  /** A body was let go. */
  letGo(holder: HolderReport): void;
  /** Once per episode. */
  stuck(report: BudgetReport): void;
  /** Nobody waits any more. @param milliseconds since `stuck` */
  moving(milliseconds: number): void;
}

/** Gives the byte budget its sense of time, while it is short, and tells of a budget that does not move. */
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
    // After a turn that took long the timer is due before the bytes that came meanwhile are read: they must count.
    this.#clock.after(this.#interval, () => this.#clock.soon(this.#tick), true);
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
