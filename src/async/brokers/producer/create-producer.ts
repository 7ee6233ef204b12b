import { randomUUID } from "node:crypto";
import { freshRandom } from "../../../base/clock/random.ts";
import { realClock } from "../../../base/clock/real.ts";
import { isObject } from "../../../base/document/json-object.ts";
import { didYouMean } from "../../../base/document/nearest.ts";
import { SluiceError } from "../../../base/inference/errors.ts";
import { type Logger, silentLogger } from "../../../base/telemetry/logger.ts";
import type { ResultMessage } from "../messages/message.ts";
import type { Producer } from "../queue-client.ts";
import { type Requester, ResultRequester } from "./result-requester.ts";

/** The place of the queues: exactly one of the two. */
type PlaceOptions =
  | {
      readonly redis: {
        /** `redis://` or `rediss://`, with user, password and database. */
        readonly url: string;
        /** PEM texts; default: the system's authorities and no client certificate. */
        readonly tls?: { readonly ca?: string; readonly cert?: string; readonly key?: string };
      };
      readonly sqlite?: undefined;
    }
  | {
      readonly sqlite: {
        /** Path of the queue file. The file is created if needed, its folder is not. */
        readonly path: string;
      };
      readonly redis?: undefined;
    };

export type ProducerOptions = PlaceOptions & {
  /** The queue for requests that name no other queue. Default on Redis: `request-sortedset`; required with a file. */
  readonly requestQueueName?: string;
  /** The queue for their results, from which `getResult` takes them. */
  readonly resultQueueName: string;
  /** Gets connection problems, which end without help from the application; default: no log. */
  readonly log?: Logger;
};

const PRODUCER_OPTIONS = ["redis", "sqlite", "requestQueueName", "resultQueueName", "log"] as const;

/**
 * A producer for an application (async-processor 4.6): puts requests on a queue of the Async Processor, and takes results.
 * End it with `close`.
 * @throws SluiceError PRODUCER_INVALID for invalid options; REDIS_URL_INVALID; BROKER_UNAVAILABLE when Redis does not answer
 * within 5 s; QUEUE_FILE_FOREIGN, QUEUE_FILE_NEWER, QUEUE_FILE_CORRUPT for a file that must not be used
 */
export async function createProducer(options: ProducerOptions): Promise<Producer> {
  checkOptions(options, PRODUCER_OPTIONS);
  const { requestQueueName, resultQueueName, redis, sqlite } = options;
  if (!resultQueueName) throw invalid("resultQueueName is required: the queue for results");
  const deps = { clock: realClock, random: freshRandom(), log: options.log ?? silentLogger };
  if (redis !== undefined) {
    // Loaded on use: each store needs only its own client.
    const { redisProducer } = await import("../redis-sortedset/producer.ts");
    const connection = { url: redis.url, tls: redis.tls ?? {}, enableTracing: false };
    const names = { resultQueueName, ...(requestQueueName === undefined ? {} : { requestQueueName }) };
    return redisProducer({ connection, ...names }, deps);
  }
  if (!requestQueueName) throw invalid("with sqlite, requestQueueName is required: a queue_name of the dispatcher");
  const { sqliteProducer } = await import("../sqlite/producer.ts");
  return sqliteProducer({ path: sqlite.path, requestQueueName, resultQueueName }, deps);
}

/** Checks all rules, those of the types included, for callers without types. @throws SluiceError PRODUCER_INVALID */
function checkOptions(options: ProducerOptions, known: readonly string[]): void {
  if (!isObject(options)) throw invalid("options are required: redis or sqlite, and the names of the queues");
  for (const name of Object.keys(options))
    if (!known.includes(name)) throw invalid(`there is no option ${JSON.stringify(name)}${didYouMean(name, known)}`);
  const { redis, sqlite } = options as { redis?: unknown; sqlite?: unknown };
  if ((redis === undefined) === (sqlite === undefined))
    throw invalid('give either redis: { url: "redis://host:6379" } or sqlite: { path: "queue.db" }');
  if (redis !== undefined && !(isObject(redis) && typeof redis["url"] === "string" && redis["url"] !== ""))
    throw invalid("redis.url is required, such as redis://host:6379");
  if (sqlite !== undefined && !(isObject(sqlite) && typeof sqlite["path"] === "string" && sqlite["path"] !== ""))
    throw invalid("sqlite.path is required: the path in the dispatcher's transport-config");
  for (const name of ["requestQueueName", "resultQueueName"] as const)
    if (typeof (options[name] ?? "") !== "string") throw invalid(`${name} must be a string`);
}

function invalid(problem: string): SluiceError {
  return new SluiceError("PRODUCER_INVALID", problem);
}

export type RequesterOptions = Omit<ProducerOptions, "resultQueueName"> & {
  /**
   * A queue that no other consumer takes results from. Default: a queue with a random name, for this requester alone; results
   * in it stay there when the process dies. A fixed name for each process, the same after a restart, avoids that.
   */
  readonly resultQueueName?: string;
  /** Most requests that wait at a time; default 10,000. */
  readonly maxWaiting?: number;
  /** Gets results that no request waits for: of requests given up, or of an earlier run of the process. */
  readonly onStray?: (result: ResultMessage) => void;
};

const REQUESTER_OPTIONS = [
  "redis",
  "sqlite",
  "requestQueueName",
  "resultQueueName",
  "log",
  "maxWaiting",
  "onStray",
] as const;
const MOST_WAITING = 10_000;

/** A requester with its own producer. Options and errors as for `createProducer`. */
export async function createRequester(options: RequesterOptions): Promise<Requester> {
  const named = { ...options, resultQueueName: options?.resultQueueName ?? `replies-${randomUUID()}` };
  checkOptions(named as ProducerOptions, REQUESTER_OPTIONS);
  const { maxWaiting = MOST_WAITING, onStray = () => {}, ...producerOptions } = named;
  const producer = await createProducer(producerOptions as ProducerOptions);
  return new ResultRequester(producer, { clock: realClock, log: options.log ?? silentLogger, maxWaiting, onStray });
}
