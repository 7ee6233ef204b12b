import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { QueueBacklog } from "../brokers/broker.ts";
import type { QueueClient, QueueReleaser } from "../brokers/queue-client.ts";
import { releaseQueues } from "./queue-release.ts";

/** A queue with claimed messages, whose leases end at a time of the clock. */
interface Queue {
  claimed: number;
  lastLease: number;
  retries: number;
  dead: number;
  waiting: number;
  dispatchers: number | undefined;
}

/** A store as the command sees it. */
class Store {
  readonly clock = new VirtualClock();
  readonly queues: Record<string, Queue> = {};
  readonly told: string[] = [];
  afterRelease: () => unknown = () => undefined;
  readonly #releaser: QueueReleaser = {
    dispatchers: async (name) => this.queues[name]!.dispatchers,
    held: async (name) => {
      const { claimed, lastLease } = this.queues[name]!;
      return { claimed, lastLease, leaseLeft: Math.max(0, lastLease - this.clock.now()) };
    },
    release: async (name, all) => {
      const queue = this.queues[name]!;
      const moved = all || queue.lastLease <= this.clock.now() ? queue.claimed : 0;
      queue.claimed -= moved;
      queue.waiting += moved;
      this.afterRelease();
      return moved;
    },
    unpark: async (name) => {
      const queue = this.queues[name]!;
      const moved = queue.retries;
      queue.retries = 0;
      queue.waiting += moved;
      return moved;
    },
  };

  add(name: string, queue: Partial<Queue> = {}): Queue {
    const lastLease = queue.claimed === undefined ? Number.NEGATIVE_INFINITY : 0;
    const whole = { claimed: 0, lastLease, retries: 0, dead: 0, waiting: 0, dispatchers: 0, ...queue };
    this.queues[name] = whole;
    return whole;
  }

  start(options: { force?: boolean; keepRetries?: boolean } = {}): Promise<unknown> {
    const client = {
      place: "the store",
      releaser: this.#releaser,
      backlog: async (name: string) => this.queues[name] as unknown as QueueBacklog,
    } as unknown as QueueClient;
    const how = { queues: Object.keys(this.queues), force: false, keepRetries: false, ...options };
    return releaseQueues({ client }, how, this.clock, (text) => this.told.push(text)).then(
      () => "done",
      (error: { code: string; message: string }) => `${error.code}: ${error.message}`,
    );
  }
}

/** Lets virtual time pass until the command ends. */
async function passes(store: Store, ms: number): Promise<void> {
  for (let at = 0; at < ms; at += 100) {
    for (let turn = 0; turn < 20; turn++) await Promise.resolve();
    store.clock.advance(100);
  }
  for (let turn = 0; turn < 50; turn++) await Promise.resolve();
}

describe("handing messages back", () => {
  it("takes what nobody holds any more, and says what is where", async () => {
    const store = new Store();
    store.add("a", { claimed: 3, retries: 2, waiting: 1 });
    store.add("b", { dead: 2 });
    expect(await store.start()).toBe("done");
    expect(store.queues["a"]).toMatchObject({ claimed: 0, retries: 0, waiting: 6 });
    expect(store.told).toEqual([
      "queue a: 3 claimed messages and 2 retries are back; 6 messages wait",
      "queue b: 0 claimed messages and 0 retries are back; 0 messages wait",
      "queue b: 2 dead letters stay; to put these back, too, run sluice queue requeue b",
    ]);
  });

  it("keeps retries where they are when it is told to", async () => {
    const store = new Store();
    store.add("a", { claimed: 1, retries: 1 });
    expect(await store.start({ keepRetries: true })).toBe("done");
    expect(store.queues["a"]).toMatchObject({ claimed: 0, retries: 1, waiting: 1 });
  });

  it("refuses while a dispatcher is connected, before it changes anything in any queue", async () => {
    const store = new Store();
    store.add("a", { claimed: 1, retries: 1 });
    store.add("b", { dispatchers: 2 });
    expect(await store.start()).toBe(
      "QUEUE_IN_USE: a dispatcher of queue b is connected to the store (2 connections): stop the dispatcher first, or give --force",
    );
    expect(store.queues["a"]).toMatchObject({ claimed: 1, retries: 1 });
    expect(await store.start({ force: true })).toBe("done");
    expect(store.queues["a"]).toMatchObject({ claimed: 0, retries: 0 });
  });

  it("says where it cannot see dispatchers", async () => {
    const store = new Store();
    store.add("a", { dispatchers: undefined });
    expect(await store.start()).toBe("done");
    expect(store.told[0]).toBe(
      "the store does not show which dispatchers are connected: make sure that no dispatcher runs",
    );
  });

  it("waits until the leases of a killed dispatcher end, and says so once", async () => {
    const store = new Store();
    store.add("a", { claimed: 5, lastLease: 40_000 });
    store.add("b", { claimed: 2, lastLease: 10_000 });
    let end: unknown;
    const running = store.start().then((how) => {
      end = how;
    });
    await passes(store, 39_000);
    expect([end, store.queues["a"]!.claimed, store.queues["b"]!.claimed]).toEqual([undefined, 5, 2]);
    expect(store.told).toEqual([
      "7 messages may still be at a dispatcher: waiting 40s for its leases to end; --force skips this wait",
    ]);
    await passes(store, 2000);
    await running;
    expect([end, store.queues["a"]!.claimed, store.queues["b"]!.claimed]).toEqual(["done", 0, 0]);
  });

  it("notices that a lease is renewed: a dispatcher runs, and nothing is taken", async () => {
    const store = new Store();
    store.add("a", { claimed: 5, lastLease: 40_000 });
    const running = store.start();
    await passes(store, 10_000);
    store.queues["a"]!.lastLease = 50_000;
    await passes(store, 2000);
    expect(await running).toBe(
      "QUEUE_IN_USE: a dispatcher of queue a renews its leases: stop the dispatcher first, or give --force",
    );
    expect(store.queues["a"]!.claimed).toBe(5);
  });

  it("notices a lease that begins while it waits for those of another queue", async () => {
    const store = new Store();
    store.add("a", { claimed: 1, lastLease: 5000 });
    store.add("b");
    const running = store.start();
    await passes(store, 1000);
    Object.assign(store.queues["b"]!, { claimed: 1, lastLease: 4000 });
    await passes(store, 10_000);
    expect(await running).toContain("QUEUE_IN_USE: a dispatcher of queue b renews its leases");
  });

  it("says when messages are claimed behind its back", async () => {
    const store = new Store();
    const queue = store.add("a", { claimed: 1, retries: 1 });
    store.afterRelease = () => Object.assign(queue, { claimed: 1, lastLease: 90_000 });
    expect(await store.start()).toBe(
      "QUEUE_IN_USE: a dispatcher of queue a has claimed messages again: stop the dispatcher first, or give --force",
    );
    expect(await store.start({ force: true })).toBe("done");
  });
});
