import type { Clock } from "../../clock/clock.ts";

/**
 * Work at a time, in units. A unit is a small frame, for example a PING, and takes 0.1 to 1 us. A connection that has used up
 * `TURN_WORK` waits for a turn. In each turn of the event loop one such connection continues. After `ROUND_WORK` of all
 * connections together no further one begins.
 */
export const TURN_WORK = 1024;
export const ROUND_WORK = 2 * TURN_WORK;

/** Cost of single pieces of work, in units. Sizes cost extra: one unit for 512 bytes. */
export const COST = { frame: 1, reset: 4, headers: 12, message: 12, drop: 16, chunk: 2 } as const;
export const UNIT_SHIFT = 9;

/** A connection that has work left. */
export interface TurnTaker {
  /** The address of its client. */
  readonly address: string;
  /** Does at most `TURN_WORK` of its work, and calls `wait` again when there is more. */
  turn(): void;
}

/** Connections that wait, one line for each client address. The addresses take turns, and so do the connections of each. */
class Lane {
  readonly #lines = new Map<string, Set<TurnTaker>>();

  get empty(): boolean {
    return this.#lines.size === 0;
  }

  add(taker: TurnTaker): void {
    const line = this.#lines.get(taker.address);
    if (line === undefined) this.#lines.set(taker.address, new Set([taker]));
    else line.add(taker);
  }

  next(): TurnTaker | undefined {
    for (const [address, line] of this.#lines) {
      this.#lines.delete(address);
      for (const taker of line) {
        line.delete(taker);
        if (line.size > 0) this.#lines.set(address, line);
        return taker;
      }
    }
    return undefined;
  }
}

/**
 * Shares the event loop among the connections of a server. Bytes that a connection has read and may not act on yet wait here.
 * They continue after the ready sockets were read: between two turns of a busy connection every other connection is served.
 */
export class Turns {
  readonly #clock: Clock;
  /** Connections that wait because of the work of others, and those that have used up a turn. */
  readonly #quiet = new Lane();
  readonly #busy = new Lane();
  /** Work since the last round. */
  #work = 0;
  #armed = false;
  /** Counts the rounds: in each a connection has a turn's work before it must wait. */
  round = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts work that was done. */
  spend(units: number): void {
    this.#work += units;
  }

  /** Whether so much work was done since the last round that new input should wait for the next. */
  get crowded(): boolean {
    return this.#work >= ROUND_WORK;
  }

  /**
   * Gives `taker` a turn in one of the next rounds.
   * @param busy whether it has used up a turn; others go first
   */
  wait(taker: TurnTaker, busy: boolean): void {
    (busy ? this.#busy : this.#quiet).add(taker);
    this.#arm();
  }

  #arm(): void {
    if (this.#armed) return;
    this.#armed = true;
    this.#clock.soon(() => this.#round());
  }

  #round(): void {
    this.#armed = false;
    this.#work = 0;
    this.round++;
    // One busy connection continues in each round, and no more than one, for any number of quiet ones.
    this.#busy.next()?.turn();
    while (this.#work < ROUND_WORK) {
      const taker = this.#quiet.next();
      if (taker === undefined) break;
      taker.turn();
    }
    if (!this.#quiet.empty || !this.#busy.empty) this.#arm();
  }
}
