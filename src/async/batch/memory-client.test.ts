import { VirtualClock } from "../../base/clock/virtual.ts";
import { queueOf } from "../brokers/broker.cases.ts";
import { MemoryBroker } from "../brokers/memory/broker.ts";
import { MemoryStore } from "../brokers/memory/store.ts";
import { queueClientCases } from "../brokers/queue-client.cases.ts";
import { memoryClient } from "./memory-client.cases.ts";

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
