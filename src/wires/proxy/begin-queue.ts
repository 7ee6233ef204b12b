import type { Clock } from "../../base/clock/clock.ts";

/** Work that begins later in the same turn. */
export interface Beginning {
  begin(): void;
}

/**
 * Lets work begin after the I/O events that are already waiting. One timer serves all of a turn.
 *
 * A request of a client begins so, after the parser has seen every byte that arrived with it. Only after the I/O events of this turn does
 * the proxy know whether the following bytes break HTTP. A request to a model server over a used connection begins so, too: first the
 * proxy must see whether the server has closed the connection.
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
