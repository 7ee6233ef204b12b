import { ok } from "node:assert/strict";
import type { Band } from "../../../src/picker/flowcontrol/band.ts";
import type { Item } from "../../../src/picker/flowcontrol/flow.ts";
import type { QueueOutcome } from "../../../src/picker/flowcontrol/queue-outcomes.ts";
import { FAIRNESS } from "./plain-policies.cases.ts";

/** What must hold of the order in which requests leave, by what the engine shows to its ordering policy. */
export class FlowOrder {
  /** The requests in queues. */
  readonly #items = new Map<string, Item>();
  /** By flow that waits: the flows that were served since it joined or was served itself. */
  readonly #passed = new Map<string, Set<string>>();

  ranked(item: Item): void {
    this.#items.set(item.request.id, item);
  }

  /** The turns begin anew. */
  configured(): void {
    this.#passed.clear();
  }

  /** A request that goes on was the first of its queue, and passes no flow that waits for its turn a second time. */
  left(id: string, outcome: QueueOutcome): void {
    const served = this.#items.get(id);
    if (served !== undefined) this.#check(served, outcome);
  }

  #check(served: Item, outcome: QueueOutcome): void {
    const band = served.band as Band;
    const { fairness } = band.settings;
    const idOf = (item: Item): string => `${band.priority} ${item.fairnessId}`;
    const waiting = [...this.#items.values()].filter((item) => item.waiting && item.band === band);
    if (outcome === "Dispatched") {
      for (const item of waiting) {
        if (fairness.oneQueue !== true && idOf(item) !== idOf(served)) continue;
        ok(served.rank < item.rank || (served.rank === item.rank && served.order < item.order), "first of its queue");
      }
      const others = new Set(fairness === FAIRNESS.turns ? waiting.map(idOf) : []);
      others.delete(idOf(served));
      for (const other of others) {
        const passed = this.#passed.get(other) ?? new Set();
        ok(!passed.has(idOf(served)), `${other} waits longer than its turn`);
        this.#passed.set(other, passed.add(idOf(served)));
      }
      this.#passed.delete(idOf(served));
    }
    if (!waiting.some((item) => idOf(item) === idOf(served))) this.#passed.delete(idOf(served));
    for (const [id, item] of this.#items) if (!item.waiting) this.#items.delete(id);
  }
}
