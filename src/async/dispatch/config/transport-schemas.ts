import { z } from "zod";
import { count, requiredText, text } from "./fields.ts";
import { CHANNEL, STORED_QUEUE, TOPIC } from "./queue-fields.ts";
import { REDIS_FIELDS } from "./redis-fields.ts";

/** Leases (async-processor 5.2.8). A lease is renewed after a third of it, and at least every second. */
const LEASE_FIELDS = {
  claim_ttl_ms: count(60_000, { least: 2_000 }),
  reclaim_interval_ms: count(5_000, { least: 100 }),
  max_attempts: count(0),
};

/** Most queues of one process. */
const MAX_QUEUES = 10_000;

/** The sections of the transports, by name: the reference's fields (async-processor 5.2.1, 5.3, 5.4) and ours. */
export const TRANSPORT_SCHEMAS = {
  "redis-sortedset": z.object({
    ...REDIS_FIELDS,
    result_queue_name: text("result-list"),
    retry_queue_name: text("retry-sortedset"),
    poll_interval_ms: count(1_000),
    batch_size: count(undefined),
    ...LEASE_FIELDS,
    queues: z.array(STORED_QUEUE).min(1).max(MAX_QUEUES),
  }),
  "redis-pubsub": z.object({
    ...REDIS_FIELDS,
    result_queue_name: text("result-queue"),
    retry_queue_name: text(undefined),
    queues: z.array(CHANNEL).min(1).max(MAX_QUEUES),
  }),
  "gcp-pubsub": z.object({
    project_id: requiredText,
    result_topic_id: requiredText,
    batch_size: z.int().min(1).nullish(),
    poll_interval_ms: count(1_000),
    // Pub/Sub's own limits of an acknowledgement deadline.
    claim_ttl_ms: count(60_000, { least: 10_000, most: 600_000 }),
    topics: z.array(TOPIC).min(1).max(MAX_QUEUES),
  }),
  sqlite: z.object({
    path: requiredText,
    result_queue_name: text("result-list"),
    poll_interval_ms: count(1_000),
    batch_size: count(undefined),
    ...LEASE_FIELDS,
    queues: z.array(STORED_QUEUE).min(1).max(MAX_QUEUES),
  }),
} as const;

export type TransportName = keyof typeof TRANSPORT_SCHEMAS;

export type TransportEntry<N extends TransportName> = z.output<(typeof TRANSPORT_SCHEMAS)[N]>;

export const TRANSPORTS = Object.keys(TRANSPORT_SCHEMAS) as readonly TransportName[];

/** The list of queues in a transport's section. */
export function queueList(name: TransportName): "queues" | "topics" {
  return name === "gcp-pubsub" ? "topics" : "queues";
}
