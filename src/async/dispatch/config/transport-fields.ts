import { resolve } from "node:path";
import { z } from "zod";
import type { Path } from "../../../base/document/document.ts";
import { messageOf } from "../../../base/inference/errors.ts";
import type { RedisConnection } from "../../../base/redis/address.ts";
import { parseRedisUrl } from "../../../base/redis/address.ts";
import type { QueueSettings } from "../../brokers/settings.ts";
import { TLS_NAMES } from "../../gates/tls-names.ts";
import { readTlsFiles, type TlsPaths } from "../send/client-tls.ts";
import type { ConfigDocument, Findings } from "./config-document.ts";
import { bool, count, GATE_FIELDS, gateOf, gatewayUrl, requiredText, textField } from "./fields.ts";

const LONGEST_LIST = 1_000;

/** Fields of a queue that all transports share (async-processor 5.1), and those that Sluice adds. */
const COMMON = {
  worker_pool_id: textField("default").describe("Worker pool of the queue."),
  inference_objective: textField("").describe(
    "InferenceObjective of the requests, which gives them a priority; empty = none.",
  ),
  igw_base_url: gatewayUrl.describe("URL of the gateway."),
  request_path_url: textField("/v1/completions").describe("Path of requests without an `endpoint`."),
  labels: z
    .record(z.string(), z.string())
    .nullish()
    .transform((labels) => labels ?? {})
    .describe("Labels for every message of the queue; they override the labels of a message."),
  trust_message_labels: bool(true).describe("`false` ignores the labels in messages."),
  allowed_endpoints: z
    .array(z.string().startsWith("/", { error: "must be a path that begins with /, such as /v1/" }))
    .max(LONGEST_LIST)
    .nullish()
    .describe("Prefixes of the paths that a message may name; absent = all paths."),
  max_queue_share: z
    .number()
    .gt(0)
    .max(1)
    .nullish()
    .transform((share) => share ?? 1)
    .describe("The largest share of a capacity that the queue may use, above 0 and at most 1."),
};

/** A queue in a store that keeps its entries: a sorted set, or a table. */
const STORED_QUEUE = z.object({
  id: textField(undefined).describe("Id of the queue in metrics and logs; empty = `queue_name`."),
  queue_name: requiredText.describe("Name of the queue."),
  result_queue_name: textField(undefined).describe(
    "Queue for all results; empty = the queue that the message or the transport names.",
  ),
  ...COMMON,
  ...GATE_FIELDS,
});

/** A channel. */
const CHANNEL = z.object({ queue_name: requiredText.describe("Name of the channel."), ...COMMON });

/** A subscription. */
const TOPIC = z.object({ subscriber_id: requiredText.describe("Id of the subscription."), ...COMMON, ...GATE_FIELDS });

type StoredQueueEntry = z.output<typeof STORED_QUEUE>;
type ChannelEntry = z.output<typeof CHANNEL>;
type TopicEntry = z.output<typeof TOPIC>;

/** One queue. @param path of the entry @param gated false: the entry's gate does not count */
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

/** Refuses entries whose id or name another entry has, too. @param key field that holds the name */
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
      `duplicate ${field} ${JSON.stringify(value)}; ${list}[${first}] at line ${line} already has this value`,
    );
  }
}

/** The fields with which a transport's section names its Redis server (async-processor 5.1). */
const REDIS_FIELDS = {
  url: textField(undefined).describe(
    "`redis://` or `rediss://` URL of the server; empty = the environment variable `REDIS_URL`.",
  ),
  enable_tracing: bool(false).describe("Trace each Redis command."),
  tls_ca_cert: textField(undefined).describe(
    "PEM file of CA certificates that Sluice trusts for the server, besides those of the system.",
  ),
  tls_cert: textField(undefined).describe("PEM file of the client certificate; needs `tls_key`."),
  tls_key: textField(undefined).describe("PEM file of the client certificate's key."),
  // The names that gates have.
  tls_ca_file: textField(undefined).describe("Alias of `tls_ca_cert`; gates use this name."),
  tls_cert_file: textField(undefined).describe("Alias of `tls_cert`."),
  tls_key_file: textField(undefined).describe("Alias of `tls_key`."),
};

export interface RedisEntry {
  readonly url: string | undefined;
  readonly enable_tracing: boolean;
  readonly tls_ca_cert: string | undefined;
  readonly tls_cert: string | undefined;
  readonly tls_key: string | undefined;
  readonly tls_ca_file: string | undefined;
  readonly tls_cert_file: string | undefined;
  readonly tls_key_file: string | undefined;
}

const TLS_FILES = ["ca", "cert", "key"] as const;

/** Stands for the REDIS_URL of a start, where a check of a file does not know it. */
export const AT_START = Symbol("REDIS_URL at the start");

/** @param fallback REDIS_URL of the environment, for a section without a url */
export async function redisConnectionOf(
  entry: RedisEntry,
  fallback: string | typeof AT_START | undefined,
  document: ConfigDocument,
  findings: Findings,
): Promise<RedisConnection> {
  const url = entry.url ?? (fallback === AT_START ? undefined : fallback || undefined);
  const secure = url === undefined || checkUrl(url, entry.url === undefined, document, findings);
  const fieldOf = (which: (typeof TLS_FILES)[number]) => {
    const [other, usual] = TLS_NAMES[which];
    return entry[usual] === undefined && entry[other] !== undefined ? other : usual;
  };
  const paths: TlsPaths = { ca: entry[fieldOf("ca")], cert: entry[fieldOf("cert")], key: entry[fieldOf("key")] };
  for (const which of TLS_FILES) {
    const [other, usual] = TLS_NAMES[which];
    if (entry[usual] !== undefined && entry[other] !== undefined && entry[usual] !== entry[other])
      findings.refuseAlias(document, other, usual);
    if (paths[which] !== undefined && !secure)
      findings.refuse(document, [fieldOf(which)], "needs TLS: use a rediss:// url");
  }
  if (url === undefined && fallback === AT_START)
    findings.warn(document, ["url"], "is missing: at its start, Sluice reads the environment variable REDIS_URL");
  else if (url === undefined)
    findings.refuse(document, ["url"], "is missing, and so is the environment variable REDIS_URL");
  const absolute = (path: string | undefined) => (path === undefined ? undefined : resolve(document.folder, path));
  const tls = await readTlsFiles(
    { ca: absolute(paths.ca), cert: absolute(paths.cert), key: absolute(paths.key) },
    (which, problem) => findings.refuse(document, [fieldOf(which)], problem),
  );
  return { url: url ?? "", tls, enableTracing: entry.enable_tracing };
}

/** True when the URL asks for TLS, or cannot be read. */
function checkUrl(url: string, fromEnvironment: boolean, document: ConfigDocument, findings: Findings): boolean {
  const whose = fromEnvironment ? "from the environment's REDIS_URL: " : "";
  try {
    const { tls, ignored } = parseRedisUrl(url);
    if (ignored.length > 0)
      findings.warn(
        document,
        ["url"],
        `${whose}these options have no effect, because the Redis client of Sluice does not support them: ${[...new Set(ignored)].join(", ")}`,
      );
    return tls;
  } catch (error) {
    findings.refuse(document, ["url"], whose + messageOf(error));
    return true;
  }
}

/** Leases (async-processor 5.2.8). A lease is renewed after a third of it, at the earliest after 1 s and at the latest after 30 s. */
const LEASE_FIELDS = {
  claim_ttl_ms: count(60_000, { least: 2_000 }).describe("Length of a lease in milliseconds, at least 2000."),
  reclaim_interval_ms: count(5_000, { least: 100 }).describe(
    "Milliseconds between two checks for expired leases, at least 100.",
  ),
  max_attempts: count(0).describe(
    "Number of expired leases after which a message becomes a dead letter; 0 = no limit.",
  ),
};

/** The names that llm-d-async has for two of these fields, after v0.9.0. */
const LLMD_LEASE_FIELDS = {
  claim_lease_ttl_seconds: count(undefined, { least: 2, most: 2_147_483 }).describe(
    "`claim_ttl_ms` in seconds, as llm-d-async has it; absent = `claim_ttl_ms`.",
  ),
  claim_reclaim_interval_ms: count(undefined, { least: 100 }).describe(
    "The name that llm-d-async has for `reclaim_interval_ms`; absent = `reclaim_interval_ms`.",
  ),
};

/** Most queues of one process. */
const MAX_QUEUES = 10_000;

/**
 * The sections of the transports, by name: the reference's fields (async-processor 5.2.1, 5.3, 5.4), and those that Sluice
 * adds.
 */
export const TRANSPORT_SCHEMAS = {
  "redis-sortedset": z.object({
    ...REDIS_FIELDS,
    result_queue_name: textField("result-list").describe("Queue for the results."),
    retry_queue_name: textField("retry-sortedset").describe("Sorted set of the messages that wait for a retry."),
    poll_interval_ms: count(1_000).describe("Milliseconds between two polls of a queue without messages."),
    batch_size: count(undefined).describe(
      "The most messages of one claim; 0 = as many as free workers and gates allow.",
    ),
    ...LEASE_FIELDS,
    ...LLMD_LEASE_FIELDS,
    queues: z.array(STORED_QUEUE).min(1).max(MAX_QUEUES).describe("The queues."),
  }),
  "redis-pubsub": z.object({
    ...REDIS_FIELDS,
    result_queue_name: textField("result-queue").describe("Channel of the results."),
    retry_queue_name: textField(undefined).describe(
      "Sorted set of the messages that wait for a retry; empty = `retry-pubsub`.",
    ),
    queues: z.array(CHANNEL).min(1).max(MAX_QUEUES).describe("The channels."),
  }),
  "gcp-pubsub": z.object({
    project_id: requiredText.describe("Google Cloud project."),
    result_topic_id: requiredText.describe("Topic of the results."),
    batch_size: z
      .int()
      .min(1)
      .nullish()
      .describe("The most messages of one claim; absent = as many as free workers and gates allow."),
    poll_interval_ms: count(1_000).describe("Milliseconds between two polls of a queue without messages."),
    // Pub/Sub's own limits for an acknowledgement deadline.
    claim_ttl_ms: count(60_000, { least: 10_000, most: 600_000 }).describe(
      "Acknowledgement deadline in milliseconds, 10000 to 600000.",
    ),
    topics: z.array(TOPIC).min(1).max(MAX_QUEUES).describe("The subscriptions."),
  }),
  sqlite: z.object({
    path: requiredText.describe("File of the database, which the dispatcher creates."),
    result_queue_name: textField("result-list").describe("Queue for the results."),
    poll_interval_ms: count(1_000).describe("Milliseconds between two polls of a queue without messages."),
    batch_size: count(undefined).describe(
      "The most messages of one claim; 0 = as many as free workers and gates allow.",
    ),
    ...LEASE_FIELDS,
    queues: z.array(STORED_QUEUE).min(1).max(MAX_QUEUES).describe("The queues."),
  }),
} as const;

export type TransportName = keyof typeof TRANSPORT_SCHEMAS;

export type TransportEntry<N extends TransportName> = z.output<(typeof TRANSPORT_SCHEMAS)[N]>;

export const TRANSPORTS = Object.keys(TRANSPORT_SCHEMAS) as readonly TransportName[];

/** The list of queues in a transport's section. */
export function queueList(name: TransportName): "queues" | "topics" {
  return name === "gcp-pubsub" ? "topics" : "queues";
}
