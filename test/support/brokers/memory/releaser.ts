import type { HeldMessages, QueueReleaser } from "../../../../src/async/brokers/queue-client.ts";
import type { MemoryEntry } from "./entry-list.ts";
import type { MemoryStore } from "./store.ts";

/** Hands back what brokers have of a `MemoryStore`. */
export class MemoryReleaser implements QueueReleaser {
  readonly #store: MemoryStore;

  constructor(store: MemoryStore) {
    this.#store = store;
  }

  async dispatchers(): Promise<undefined> {
    return undefined;
  }

  held(queueName: string): Promise<HeldMessages> {
    return this.#store.call(() => {
      const leases = [...this.#store.leases.values()].filter(({ entry }) => entry.queueName === queueName);
      const lastLease = Math.max(Number.NEGATIVE_INFINITY, ...leases.map(({ until }) => until));
      return { claimed: leases.length, lastLease, leaseLeft: Math.max(0, lastLease - this.#store.clock.now()) };
    });
  }

  release(queueName: string, all: boolean): Promise<number> {
    return this.#store.call(() => {
      const now = this.#store.clock.now();
      const back: MemoryEntry[] = [];
      for (const [id, { entry, until }] of this.#store.leases) {
        if (entry.queueName !== queueName || (!all && until > now)) continue;
        this.#store.leases.delete(id);
        back.push(entry);
      }
      return this.#queue(queueName, back);
    });
  }

  unpark(queueName: string): Promise<number> {
    return this.#store.call(() => {
      const back = this.#store.parked.take((entry) => (entry.queueName === queueName ? "take" : "pass"));
      for (const entry of back) entry.score = entry.deadline;
      return this.#queue(queueName, back);
    });
  }

  #queue(queueName: string, entries: readonly MemoryEntry[]): number {
    for (const entry of entries) this.#store.queue(queueName).add(entry, entry.score);
    if (entries.length > 0) this.#store.announce(queueName);
    return entries.length;
  }
}
