import { defineFairnessPolicy } from "../../../base/plugin/define.ts";
import type { FlowChoice, QueuedFlow } from "../../../base/plugin/flow-kinds.ts";

/** scheduling 6.6 */
export const globalStrictFairnessPolicy = defineFairnessPolicy({
  type: "global-strict-fairness-policy",
  describe: "All flows of a band share one queue, in the order of the ordering policy.",
  create: () => ({
    oneQueue: true,
    choice() {
      throw new TypeError("a band with one queue has no choice among flows");
    },
  }),
});

/** scheduling 6.6 */
export const roundRobinFairnessPolicy = defineFairnessPolicy({
  type: "round-robin-fairness-policy",
  describe: "The flows of a band take turns, one request each, in the order in which they began to wait.",
  create: () => ({ choice: () => new RoundRobin() }),
});

/** The place of a flow in the ring. */
interface Turn {
  readonly flow: QueuedFlow;
  before: Turn;
  after: Turn;
}

/**
 * The flows of one band in a ring. A flow that was served, and one that joins, has its next turn after all others. Each call
 * takes the same time for any number of flows: that is why the order is not that of a Set, where a new iterator passes all
 * removed entries.
 */
class RoundRobin implements FlowChoice {
  readonly #turns = new Map<QueuedFlow, Turn>();
  #first: Turn | undefined;

  joined(flow: QueuedFlow): void {
    const first = this.#first;
    const turn = { flow } as Turn;
    turn.after = first ?? turn;
    turn.before = first?.before ?? turn;
    turn.before.after = turn;
    turn.after.before = turn;
    this.#first ??= turn;
    this.#turns.set(flow, turn);
  }

  left(flow: QueuedFlow): void {
    const turn = this.#turns.get(flow);
    if (turn === undefined) return;
    this.#turns.delete(flow);
    turn.before.after = turn.after;
    turn.after.before = turn.before;
    if (this.#first === turn) this.#first = turn.after === turn ? undefined : turn.after;
  }

  next(): QueuedFlow {
    return this.#first!.flow;
  }

  served(flow: QueuedFlow): void {
    // The flow that was first becomes the last one when the ring begins one place later.
    if (this.#first?.flow === flow) this.#first = this.#first.after;
  }
}
