import { freshRandom } from "../../base/clock/random.ts";
import { realClock } from "../../base/clock/real.ts";
import { didYouMean } from "../../base/document/nearest.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import type { RedisConnection } from "../../base/redis/address.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import type { QueueClient } from "../brokers/queue-client.ts";
import type { QueueSettings, TransportSettings } from "../brokers/settings.ts";
import { type ConfigDocument, Findings } from "../dispatch/config/config-document.ts";
import type { TransportName } from "../dispatch/config/transport-fields.ts";
import { readTransport } from "../dispatch/config/transport-file.ts";

/** The place of the queues, as the user gives it. */
export type QueueStoreLocation =
  | {
      readonly kind: "config";
      readonly path: string;
      readonly transport: { readonly name: TransportName; readonly document: ConfigDocument };
      /** The environment's REDIS_URL. */
      readonly redisUrl: string | undefined;
    }
  | { readonly kind: "redis"; readonly url: string }
  | { readonly kind: "sqlite"; readonly path: string };

/** A queue that takes requests. */
export interface RequestQueue {
  readonly name: string;
  /** The queue for its results, unless the request names another. */
  readonly resultQueueName: string;
  /** True: a request cannot choose another queue for its results. */
  readonly resultsFixed: boolean;
}

/** The reference's defaults (async-processor 4.6, 5.2.1). */
const REQUESTS = "request-sortedset";
const RESULTS = "result-list";
const RETRIES = "retry-sortedset";

/** The queues of the queue commands, with their known settings. */
export class QueueStore {
  readonly client: QueueClient;
  /** The queue for results that neither the request queue nor the request routes. */
  readonly resultQueueName: string;
  readonly #source: QueueStoreLocation;
  /** Undefined: no queue is configured here. */
  readonly #queues: readonly QueueSettings[] | undefined;

  constructor(
    client: QueueClient,
    source: QueueStoreLocation,
    { queues, resultQueueName }: { readonly queues?: readonly QueueSettings[]; readonly resultQueueName: string },
  ) {
    this.client = client;
    this.resultQueueName = resultQueueName;
    this.#source = source;
    this.#queues = queues;
  }

  /** Names of the wanted queues; when none is wanted, of all known queues. */
  async queueNames(wanted: readonly string[]): Promise<readonly string[]> {
    if (wanted.length > 0) return Promise.all(wanted.map(async (name) => (await this.requestQueue(name)).name));
    return this.#queues?.map(({ name }) => name) ?? (await this.client.names())?.queues ?? [REQUESTS];
  }

  async resultQueueNames(): Promise<readonly string[]> {
    const fixed = (this.#queues ?? []).flatMap(({ resultQueueName }) => resultQueueName ?? []);
    const filled = (await this.client.names())?.results ?? [];
    return [...new Set([this.resultQueueName, ...fixed, ...filled])];
  }

  /**
   * The queue with this name or id; without one, the only queue.
   * @throws SluiceError QUEUE_UNKNOWN, which lists the known queues
   */
  async requestQueue(wanted: string | undefined): Promise<RequestQueue> {
    const configured = this.#queues;
    if (configured !== undefined) {
      const names = configured.map(({ name }) => name);
      const queue =
        wanted === undefined
          ? configured[configured.length === 1 ? 0 : -1]
          : configured.find(({ name, id }) => name === wanted || id === wanted);
      if (queue === undefined) throw this.#unknown(wanted, names);
      const { name, resultQueueName } = queue;
      return {
        name,
        resultQueueName: resultQueueName ?? this.resultQueueName,
        resultsFixed: resultQueueName !== undefined,
      };
    }
    const known = (await this.client.names())?.queues;
    const name = wanted ?? (known === undefined ? REQUESTS : known.length === 1 ? known[0] : undefined);
    // A file without any queue takes every name.
    if (name === undefined || (known !== undefined && known.length > 0 && !known.includes(name)))
      throw this.#unknown(wanted, known ?? []);
    return { name, resultQueueName: this.resultQueueName, resultsFixed: false };
  }

  close(): void {
    this.client.close();
  }

  #unknown(wanted: string | undefined, known: readonly string[]): SluiceError {
    const place = this.#source.kind === "config" ? this.#source.path : this.client.place;
    if (wanted === undefined && known.length === 0)
      return new SluiceError("QUEUE_UNKNOWN", `${place} has no queue yet: name a queue with --queue, or give --config`);
    const list = `the queues are ${known.join(", ")}`;
    if (wanted === undefined)
      return new SluiceError("QUEUE_UNKNOWN", `name the queue with --queue: ${place} has ${known.join(", ")}`);
    const hint = this.#source.kind === "sqlite" ? "; for a queue that never had a message, give --config" : "";
    return new SluiceError(
      "QUEUE_UNKNOWN",
      `there is no queue ${JSON.stringify(wanted)} in ${place}; ${list}${hint}${didYouMean(wanted, known)}`,
    );
  }
}

/**
 * Opens the queues of a place.
 * @param create true: a configured queue file that does not exist is created; a file that was only named never is
 * @throws SluiceError DOCUMENT_INVALID, QUEUE_TRANSPORT, BROKER_UNAVAILABLE, REDIS_URL_INVALID, QUEUE_FILE_...
 */
export async function openQueueStore(source: QueueStoreLocation, create: boolean): Promise<QueueStore> {
  switch (source.kind) {
    case "config": {
      const settings = await settingsOf(source);
      if (settings.transport === "sqlite")
        return new QueueStore(await sqliteClient(settings.path, create), source, settings);
      if (settings.transport === "redis-sortedset")
        return new QueueStore(await redisClient(settings.redis, settings.retryQueueName), source, settings);
      throw new SluiceError(
        "QUEUE_TRANSPORT",
        settings.transport === "redis-pubsub"
          ? `${source.path}: the transport redis-pubsub stores no messages; this command needs sqlite or redis-sortedset`
          : `${source.path}: this command needs sqlite or redis-sortedset; for Google Pub/Sub use gcloud pubsub`,
      );
    }
    case "redis":
      return new QueueStore(await redisClient({ url: source.url, tls: {}, enableTracing: false }, RETRIES), source, {
        resultQueueName: RESULTS,
      });
    case "sqlite":
      return new QueueStore(await sqliteClient(source.path, false), source, { resultQueueName: RESULTS });
  }
}

async function settingsOf({
  transport,
  redisUrl,
}: QueueStoreLocation & { kind: "config" }): Promise<TransportSettings> {
  const findings = new Findings();
  const settings = await readTransport(transport.name, transport.document, { redisUrl, gated: true }, findings);
  findings.throwIfAny("dispatch configuration");
  // Undefined only when a finding was refused, and then `throwIfAny` throws.
  return settings!;
}

// Both are loaded on use: each store needs only its own client.

async function redisClient(connection: RedisConnection, retryQueueName: string): Promise<QueueClient> {
  const { redisQueueClient } = await import("../brokers/redis-sortedset/queue-client.ts");
  return redisQueueClient(connection, retryQueueName, deps());
}

async function sqliteClient(path: string, create: boolean): Promise<QueueClient> {
  const { sqliteQueueClient } = await import("../brokers/sqlite/queue-client.ts");
  return sqliteQueueClient(path, deps(), create);
}

function deps() {
  return { clock: realClock, random: freshRandom(), log: silentLogger };
}
