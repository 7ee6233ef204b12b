import type { Clock } from "../../base/clock/clock.ts";

/** Something that begins a little later. */
export interface Beginning {
  begin(): void;
}

/**
 * Lets requests begin once the parser has seen every byte that arrived with them. Node reports a request as soon as its
 * headers are parsed, and runs ticks between the pieces of its body: only after the I/O events of this turn is it known
 * whether the bytes that followed break HTTP. One timer for all requests of a turn.
 */
export class BeginQueue {
  readonly #clock: Clock;
  #queue: Beginning[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  add(beginning: Beginning): void {
    if (this.#queue.push(beginning) === 1) this.#clock.soon(this.#run);
  }

  readonly #run = (): void => {
    const queue = this.#queue;
    this.#queue = [];
    for (const beginning of queue) beginning.begin();
  };
}
