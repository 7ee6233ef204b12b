import { stat } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { knownKeys } from "../../../base/document/validate.ts";
import type { LeaseSettings, QueueSettings, TransportSettings } from "../../brokers/settings.ts";
import type { ConfigDocument, Findings } from "./config-document.ts";
import {
  type AT_START,
  queueList,
  queueOf,
  type RedisEntry,
  redisConnectionOf,
  refuseTwins,
  TRANSPORT_SCHEMAS,
  type TransportEntry,
  type TransportName,
} from "./transport-fields.ts";

export interface TransportContext {
  /** The environment's REDIS_URL; `AT_START` = the environment of the start will have it, or not. */
  readonly redisUrl: string | typeof AT_START | undefined;
  /** False: gates of queues do not count, as with the reference's `--message-queue-impl=gcp-pubsub`. */
  readonly gated: boolean;
}

/** Default of the sorted set transport: other deployments on the same server keep their retries there. */
const SHARED_RETRIES = "retry-sortedset";
const NO_LEASES: LeaseSettings = { claimTtl: 60_000, reclaimInterval: 5_000, maxAttempts: 0 };

/**
 * Reads the configuration of a transport: the content of the reference's `--transport-config-file` (async-processor 5.1-5.4),
 * and the fields that Sluice adds. Unknown keys are ignored with a warning.
 * @param findings gets each error and each warning, with its place in the file
 * @returns undefined when there is an error
 */
export async function readTransport(
  name: TransportName,
  document: ConfigDocument,
  context: TransportContext,
  findings: Findings,
): Promise<TransportSettings | undefined> {
  warnOfUnknown(name, document, findings);
  const reader = new TransportReader(document, context, findings);
  switch (name) {
    case "redis-sortedset":
      return reader.sortedSet(findings.check(document, TRANSPORT_SCHEMAS[name]));
    case "redis-pubsub":
      return reader.redisPubSub(findings.check(document, TRANSPORT_SCHEMAS[name]));
    case "gcp-pubsub":
      return reader.pubSub(findings.check(document, TRANSPORT_SCHEMAS[name]));
    case "sqlite":
      return reader.sqlite(findings.check(document, TRANSPORT_SCHEMAS[name]));
  }
}

function warnOfUnknown(name: TransportName, document: ConfigDocument, findings: Findings): void {
  const schema = TRANSPORT_SCHEMAS[name];
  const list = queueList(name);
  findings.warnOfUnknown(document, [], document.value, knownKeys(schema, []));
  const entries = (document.value as Record<string, unknown> | null)?.[list];
  if (!Array.isArray(entries)) return;
  const known = knownKeys(schema, [list, 0]);
  const because = name === "redis-pubsub" ? UNGATED : {};
  entries.forEach((entry: unknown, at) => {
    findings.warnOfUnknown(document, [list, at], entry, known, because);
  });
}

const NO_GATE = "has no effect: channels have no gate; set this key on the worker pool";
const UNGATED = { gate_type: NO_GATE, gate_params: NO_GATE };

/** Fields of llm-d-async beside those of Sluice with the same meaning. */
const LEASE_ALIASES = [
  ["claim_lease_ttl_seconds", "claim_ttl_ms"],
  ["claim_reclaim_interval_ms", "reclaim_interval_ms"],
] as const;

/** Makes settings of sections with the right shape, and checks the rules that a shape cannot express. */
class TransportReader {
  readonly #document: ConfigDocument;
  readonly #context: TransportContext;
  readonly #findings: Findings;

  constructor(document: ConfigDocument, context: TransportContext, findings: Findings) {
    this.#document = document;
    this.#context = context;
    this.#findings = findings;
  }

  async sortedSet(entry: TransportEntry<"redis-sortedset"> | undefined): Promise<TransportSettings | undefined> {
    if (entry === undefined) return undefined;
    const queues = this.#queues(entry.queues, "queues", "queue_name");
    this.#refuseSharedKeys(queues, entry.result_queue_name, entry.retry_queue_name);
    return {
      transport: "redis-sortedset",
      redis: await this.#redis(entry),
      resultQueueName: entry.result_queue_name,
      retryQueueName: entry.retry_queue_name,
      queues,
      pollInterval: entry.poll_interval_ms,
      batchCap: entry.batch_size,
      leases: this.#sortedSetLeases(entry),
    };
  }

  #sortedSetLeases(entry: TransportEntry<"redis-sortedset">): LeaseSettings {
    const own = leasesOf(entry);
    const given = this.#document.value as Readonly<Record<string, unknown>>;
    for (const [alias, usual] of LEASE_ALIASES)
      if (entry[alias] !== undefined && given[usual]) this.#findings.refuseAlias(this.#document, alias, usual);
    const seconds = entry.claim_lease_ttl_seconds;
    return {
      ...own,
      claimTtl: seconds === undefined ? own.claimTtl : seconds * 1000,
      reclaimInterval: entry.claim_reclaim_interval_ms ?? own.reclaimInterval,
    };
  }

  async redisPubSub(entry: TransportEntry<"redis-pubsub"> | undefined): Promise<TransportSettings | undefined> {
    if (entry === undefined) return undefined;
    const queues = this.#queues(entry.queues, "queues", "queue_name");
    if (queues.some(({ name }) => name === entry.result_queue_name))
      this.#refuse(["result_queue_name"], "is also the channel of a queue: results would come back as requests");
    if (entry.retry_queue_name === undefined)
      this.#findings.warn(
        this.#document,
        [],
        `retries wait in the queue retry-pubsub: the default of the reference, ${SHARED_RETRIES}, is also the default of ` +
          "redis-sortedset; name a queue in retry_queue_name",
      );
    else if (entry.retry_queue_name === SHARED_RETRIES)
      this.#findings.warn(
        this.#document,
        ["retry_queue_name"],
        `${SHARED_RETRIES} is also the default of redis-sortedset: a dispatcher of redis-sortedset on the same server would take ` +
          "these retries; name another queue",
      );
    return {
      transport: "redis-pubsub",
      redis: await this.#redis(entry),
      resultQueueName: entry.result_queue_name,
      retryQueueName: entry.retry_queue_name ?? "retry-pubsub",
      queues,
      pollInterval: 1_000,
      batchCap: undefined,
      leases: NO_LEASES,
    };
  }

  pubSub(entry: TransportEntry<"gcp-pubsub"> | undefined): TransportSettings | undefined {
    if (entry === undefined) return undefined;
    return {
      transport: "gcp-pubsub",
      projectId: entry.project_id,
      resultTopicId: entry.result_topic_id,
      queues: this.#queues(entry.topics, "topics", "subscriber_id"),
      pollInterval: entry.poll_interval_ms,
      batchCap: entry.batch_size ?? undefined,
      leases: { ...NO_LEASES, claimTtl: entry.claim_ttl_ms },
    };
  }

  async sqlite(entry: TransportEntry<"sqlite"> | undefined): Promise<TransportSettings | undefined> {
    if (entry === undefined) return undefined;
    const path = resolve(this.#document.folder, entry.path);
    const queues = this.#queues(entry.queues, "queues", "queue_name");
    if (!(await isFolder(dirname(path))))
      this.#refuse(["path"], `there is no folder ${dirname(path)} for the database; create the folder first`);
    else if (await isFolder(path)) this.#refuse(["path"], `${path} is a folder; name a file in it, such as queue.db`);
    return {
      transport: "sqlite",
      path,
      resultQueueName: entry.result_queue_name,
      queues,
      pollInterval: entry.poll_interval_ms,
      batchCap: entry.batch_size,
      leases: leasesOf(entry),
    };
  }

  #redis(entry: RedisEntry) {
    return redisConnectionOf(entry, this.#context.redisUrl, this.#document, this.#findings);
  }

  #queues(entries: readonly Parameters<typeof queueOf>[0][], list: string, key: string): QueueSettings[] {
    const queues = entries.map((entry, at) =>
      queueOf(entry, this.#document, [list, at], this.#findings, this.#context.gated),
    );
    refuseTwins(queues, this.#document, list, key, this.#findings);
    return queues;
  }

  /** Requests are in a sorted set, retries in another, results in a list: one key cannot be two of these. */
  #refuseSharedKeys(queues: readonly QueueSettings[], results: string, retries: string): void {
    const names = new Set(queues.map(({ name }) => name));
    if (names.has(retries)) this.#refuse(["retry_queue_name"], `${JSON.stringify(retries)} is also a queue_name`);
    const taken = new Set([...names, retries]);
    if (taken.has(results))
      this.#refuse(["result_queue_name"], `${JSON.stringify(results)} is also a queue_name or the retry_queue_name`);
    queues.forEach(({ resultQueueName }, at) => {
      if (resultQueueName !== undefined && taken.has(resultQueueName))
        this.#refuse(
          ["queues", at, "result_queue_name"],
          `${JSON.stringify(resultQueueName)} is also a queue_name or the retry_queue_name`,
        );
    });
  }

  #refuse(path: readonly (string | number)[], problem: string): void {
    this.#findings.refuse(this.#document, path, problem);
  }
}

function leasesOf(entry: {
  readonly claim_ttl_ms: number;
  readonly reclaim_interval_ms: number;
  readonly max_attempts: number;
}): LeaseSettings {
  return {
    claimTtl: entry.claim_ttl_ms,
    reclaimInterval: entry.reclaim_interval_ms,
    maxAttempts: entry.max_attempts,
  };
}

async function isFolder(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch {
    return false;
  }
}
