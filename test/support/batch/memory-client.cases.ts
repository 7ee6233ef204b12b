import { INBOX_BYTES, type QueueClient } from "../../../src/async/brokers/queue-client.ts";
import { SeededRandom } from "../../../src/base/clock/random.ts";
import { queueOf } from "../brokers/broker.cases.ts";
import { MemoryBroker } from "../brokers/memory/broker.ts";
import { MemoryInspector } from "../brokers/memory/inspector.ts";
import { MemoryProducer } from "../brokers/memory/producer.ts";
import { MemoryReleaser } from "../brokers/memory/releaser.ts";
import type { MemoryStore } from "../brokers/memory/store.ts";

/** A client of a memory store. */
export function memoryClient(store: MemoryStore): QueueClient {
  const leases = { claimTtl: 60_000, reclaimInterval: 5000, maxAttempts: 0 };
  const broker = new MemoryBroker({ queues: [], resultQueueName: "results", leases }, store);
  const random = new SeededRandom(1);
  return {
    place: "memory",
    sharedRetries: false,
    inspector: new MemoryInspector(store),
    releaser: new MemoryReleaser(store),
    producer: async (requestQueueName, resultQueueName) =>
      new MemoryProducer({ requestQueueName, resultQueueName }, store, random),
    inbox(queueName) {
      let last = 0;
      return {
        read: (count) =>
          store.call(() => {
            const texts = store.results(queueName);
            let left = INBOX_BYTES;
            for (last = 0; last < Math.min(count, texts.length) && left > 0; last++) left -= texts[last]!.length;
            return texts.slice(0, last);
          }),
        remove: () =>
          store.call(() => {
            for (; last > 0; last--) store.takeResult(queueName);
          }),
      };
    },
    outstanding: (ids) => store.call(() => ids.map((id) => store.isOutstanding(id))),
    backlog: (queueName) => broker.backlog(queueOf(queueName)),
    resultDepth: (queueName) => store.call(() => store.results(queueName).length),
    names: async () => undefined,
    close() {},
  };
}
