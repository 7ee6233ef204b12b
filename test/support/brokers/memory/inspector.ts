import { revived } from "../../../../src/async/brokers/intake.ts";
import type { DeadLetter, QueueEntry, QueueInspector } from "../../../../src/async/brokers/queue-client.ts";
import type { MemoryStore } from "./store.ts";

/** Looks into a `MemoryStore`. */
export class MemoryInspector implements QueueInspector {
  readonly #store: MemoryStore;

  constructor(store: MemoryStore) {
    this.#store = store;
  }

  peek(queueName: string, count: number): Promise<readonly QueueEntry[]> {
    const list = (): QueueEntry[] =>
      this.#store
        .queue(queueName)
        .peek(count)
        .map(({ text, score }) => ({ entry: text, score }));
    return this.#store.call(list);
  }

  dead(queueName: string, count: number): Promise<readonly DeadLetter[]> {
    return this.#store.call(() => this.#store.dead(queueName).slice(0, count));
  }

  requeueDead(queueName: string, count: number): Promise<number> {
    return this.#store.call(() => {
      const letters = this.#store.exhume(queueName, count);
      for (const { entry } of letters) {
        const { text, score } = revived(entry);
        this.#store.add(queueName, text, score);
      }
      this.#store.announce(queueName);
      return letters.length;
    });
  }
}
