import type { Claim } from "../../../../src/async/brokers/broker.ts";
import { NO_ROUTING } from "../../../../src/async/brokers/messages/envelope.ts";
import type { QueueSettings } from "../../../../src/async/brokers/settings.ts";

/** Queues `q0`, `q1`, ... of one pool. */
export function madeQueues(count: number): QueueSettings[] {
  return Array.from({ length: count }, (_, i) => ({
    ...{ id: `q${i}`, name: `q${i}`, workerPoolId: "default", inferenceObjective: "", igwBaseUrl: "http://gateway" },
    ...{ requestPathUrl: "/v1/completions", labels: {}, gate: undefined, resultQueueName: undefined },
    ...{ trustMessageLabels: true, allowedEndpoints: undefined, maxQueueShare: 1 },
  }));
}

/** A claim of a message that has nothing but an id and metadata. */
export function madeClaim(queue: QueueSettings, id: string, metadata: Readonly<Record<string, string>> = {}): Claim {
  const request = { id, created: 0, deadline: 1, payload: undefined, metadata, headers: {}, endpoint: "" };
  const message = { routing: NO_ROUTING, kind: "plain", request, text: "{}" } as const;
  return { id, queue, message, cancelled: false, publishedAt: Number.NaN, lost: false };
}
