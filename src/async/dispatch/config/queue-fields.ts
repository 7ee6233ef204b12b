import { z } from "zod";
import type { Path } from "../../../base/document/document.ts";
import type { QueueSettings } from "../../brokers/settings.ts";
import type { ConfigDocument } from "./config-document.ts";
import { bool, gatewayUrl, requiredText, text } from "./fields.ts";
import type { Findings } from "./findings.ts";
import { GATE_FIELDS, gateOf } from "./gate-fields.ts";

const LONGEST_LIST = 1_000;

/** Fields of a queue that all transports share (async-processor 5.1), and ours. */
const COMMON = {
  worker_pool_id: text("default"),
  inference_objective: text(""),
  igw_base_url: gatewayUrl,
  request_path_url: text("/v1/completions"),
  labels: z
    .record(z.string(), z.string())
    .nullish()
    .transform((labels) => labels ?? {}),
  trust_message_labels: bool(true),
  allowed_endpoints: z
    .array(z.string().startsWith("/", { error: "must be a path that begins with /, such as /v1/" }))
    .max(LONGEST_LIST)
    .nullish(),
  max_queue_share: z
    .number()
    .gt(0)
    .max(1)
    .nullish()
    .transform((share) => share ?? 1),
};

/** A queue that keeps what is in it: a sorted set, or a table. */
export const STORED_QUEUE = z.object({
  id: text(undefined),
  queue_name: requiredText,
  result_queue_name: text(undefined),
  ...COMMON,
  ...GATE_FIELDS,
});

/** A channel. */
export const CHANNEL = z.object({ queue_name: requiredText, ...COMMON });

/** A subscription. */
export const TOPIC = z.object({ subscriber_id: requiredText, ...COMMON, ...GATE_FIELDS });

export type StoredQueueEntry = z.output<typeof STORED_QUEUE>;
export type ChannelEntry = z.output<typeof CHANNEL>;
export type TopicEntry = z.output<typeof TOPIC>;

/**
 * One queue.
 * @param path of the entry
 * @param gated false: what the entry says about a gate does not count
 */
export function queueOf(
  entry: StoredQueueEntry | ChannelEntry | TopicEntry,
  document: ConfigDocument,
  path: Path,
  findings: Findings,
  gated: boolean,
): QueueSettings {
  const name = "queue_name" in entry ? entry.queue_name : entry.subscriber_id;
  return {
    // Series of Pub/Sub have no id (async-processor 8.6).
    id: "subscriber_id" in entry ? "" : (("id" in entry ? entry.id : undefined) ?? name),
    name,
    workerPoolId: entry.worker_pool_id,
    inferenceObjective: entry.inference_objective,
    igwBaseUrl: entry.igw_base_url,
    requestPathUrl: entry.request_path_url,
    labels: entry.labels,
    gate: gated ? gateOf(entry as Partial<TopicEntry>, document, path, findings) : undefined,
    resultQueueName: "result_queue_name" in entry ? entry.result_queue_name : undefined,
    trustMessageLabels: entry.trust_message_labels,
    allowedEndpoints: entry.allowed_endpoints ?? undefined,
    maxQueueShare: entry.max_queue_share,
  };
}

/** Refuses entries whose id or name another has, too. @param key field that holds the name */
export function refuseTwins(
  queues: readonly QueueSettings[],
  document: ConfigDocument,
  list: string,
  key: string,
  findings: Findings,
): void {
  const names = new Map<string, number>();
  const ids = new Map<string, number>();
  queues.forEach(({ id, name }, at) => {
    const sameName = names.get(name);
    const sameId = id === "" ? undefined : ids.get(id);
    if (sameName !== undefined) refuse(at, key, name, sameName);
    else if (sameId !== undefined) refuse(at, "id", id, sameId);
    names.set(name, sameName ?? at);
    ids.set(id, sameId ?? at);
  });

  function refuse(at: number, field: string, value: string, first: number): void {
    const { line } = document.positionOf([list, first]);
    findings.refuse(
      document,
      [list, at, field],
      `duplicate ${field} ${JSON.stringify(value)}; ${list}[${first}], at line ${line}, has it already`,
    );
  }
}
