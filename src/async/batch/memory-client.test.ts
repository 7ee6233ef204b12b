import { memoryClient } from "../../../test/support/batch/memory-client.cases.ts";
import { queueOf } from "../../../test/support/brokers/broker.cases.ts";
import { MemoryBroker } from "../../../test/support/brokers/memory/broker.ts";
import { MemoryStore } from "../../../test/support/brokers/memory/store.ts";
import { queueClientCases } from "../../../test/support/brokers/queue-client.cases.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";

queueClientCases("memory", async () => {
  const store = new MemoryStore(new VirtualClock(1_800_000_000_000));
  const leases = { claimTtl: 60_000, reclaimInterval: 5000, maxAttempts: 0 };
  return {
    client: memoryClient(store),
    broker: new MemoryBroker({ queues: [queueOf("q")], resultQueueName: "r", leases }, store),
    injectResult: async (queueName, entry) => store.pushResult(queueName, entry),
    close: async () => {},
  };
});
