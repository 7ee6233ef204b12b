import type { Clock } from "../../clock/clock.ts";

/**
 * Work at a time, in units. A unit is a small frame, for example a PING, and takes 0.1 to 1 us. A connection that has used up
 * its turn waits for the next one. In each turn of the event loop one such connection continues. After `ROUND_WORK` of two or
 * more connections together no further one begins.
 *
 * A turn is `TURN_WORK`, or `LONGEST_TURN` for a connection that is alone: enough for a read of 64 KiB with chunks of 190
 * bytes. Each end of a turn costs a write, a copy and often a pause of the socket, so that long turns are cheap. But the turn
 * of one connection is what a call of another one waits for.
 */
export const TURN_WORK = 1024;
export const LONGEST_TURN = 5 * TURN_WORK;
export const ROUND_WORK = 2 * TURN_WORK;

/** Cost of single pieces of work, in units. Sizes cost extra: one unit for 512 bytes. */
export const COST = { frame: 1, reset: 4, headers: 12, message: 12, drop: 16, chunk: 2 } as const;
export const UNIT_SHIFT = 9;

/** A connection that has work left. */
export interface TurnTaker {
  /** The address of its client. */
  readonly address: string;
  /** Calls `join`, does at most so much of its work, and calls `wait` again when there is more. */
  turn(): void;
}

/** Connections that wait, one line for each client address. The addresses take turns, and so do the connections of each. */
class Lane {
  readonly #lines = new Map<string, Set<TurnTaker>>();

  /** The number of connections. */
  size = 0;

  /** Adds a connection that is not in the lane. */
  add(taker: TurnTaker): void {
    this.size++;
    const line = this.#lines.get(taker.address);
    if (line === undefined) this.#lines.set(taker.address, new Set([taker]));
    else line.add(taker);
  }

  next(): TurnTaker | undefined {
    for (const [address, line] of this.#lines) {
      this.#lines.delete(address);
      this.size--;
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
  /** Work in the present round. */
  #work = 0;
  /** How many connections have joined the present round. */
  #joined = 0;
  /** Connections with open calls. */
  readonly #calling = new Set<TurnTaker>();
  #armed = false;
  /** Counts the rounds: one for each turn of the event loop in which a connection works. In a round a connection has one turn. */
  round = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts work that was done. */
  spend(units: number): void {
    this.#work += units;
  }

  /** The first call of `taker` begins, or its last call has ended. */
  calls(taker: TurnTaker, open: boolean): void {
    if (open) this.#calling.add(taker);
    else this.#calling.delete(taker);
  }

  /**
   * `taker` begins to work in the present round, which ends with this turn of the event loop. A connection joins once in each
   * round in which it works.
   * @returns the units of work that it may use in this round: more when no other connection has a call or waits for a turn
   */
  join(taker: TurnTaker): number {
    this.#joined++;
    this.#arm();
    const calling = this.#calling.size - (this.#calling.has(taker) ? 1 : 0);
    return calling + this.#quiet.size + this.#busy.size > 0 ? TURN_WORK : LONGEST_TURN;
  }

  /**
   * Whether new input should wait for the next round. The work of one connection never makes another one wait: a quiet
   * connection would otherwise wait for two turns of a busy one.
   */
  get crowded(): boolean {
    return this.#work >= ROUND_WORK && this.#joined > 1;
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
    this.#joined = 0;
    this.round++;
    // One busy connection continues in each round, and no more than one, for any number of quiet ones. Each turn joins the round,
    // and so the next round is armed.
    this.#busy.next()?.turn();
    while (!this.crowded) {
      const taker = this.#quiet.next();
      if (taker === undefined) break;
      taker.turn();
    }
  }
}
