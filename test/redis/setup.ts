import type { Broker, BrokerEvents, Claim, Settlement } from "../../src/async/brokers/broker.ts";
import type { ResultMessage } from "../../src/async/brokers/messages/message.ts";
import { errorResult } from "../../src/async/brokers/messages/result.ts";
import type { Producer } from "../../src/async/brokers/queue-client.ts";
import { redisSortedSetBroker } from "../../src/async/brokers/redis-sortedset/broker.ts";
import { redisProducer } from "../../src/async/brokers/redis-sortedset/producer.ts";
import type { QueueSettings, RedisSortedSetSettings } from "../../src/async/brokers/settings.ts";
import { SeededRandom } from "../../src/base/clock/random.ts";
import { realClock } from "../../src/base/clock/real.ts";
import type { RedisConnection } from "../../src/base/redis/address.ts";
import { connectRedis, type Redis } from "../../src/base/redis/connection.ts";
import { type LogFields, type Logger, silentLogger } from "../../src/base/telemetry/logger.ts";
import { queueOf } from "../support/brokers/broker.cases.ts";
import { poll } from "../support/poll.ts";
import { fixedLimit } from "../support/slowness.ts";

export const Q = queueOf("q");
export const LEASES = { claimTtl: 60_000, reclaimInterval: 5000, maxAttempts: 0 };

export const deps = { clock: realClock, random: new SeededRandom(7), log: silentLogger };

export const at = (url: string): RedisConnection => ({ url, tls: {}, enableTracing: false });

/** A plain connection, for what other programs do to the server. */
export async function direct(url: string): Promise<Redis> {
  const redis = connectRedis(at(url), deps);
  await redis.whenReady(fixedLimit(10_000));
  return redis;
}

export function settingsOf(url: string, more: Partial<RedisSortedSetSettings> = {}): RedisSortedSetSettings {
  return {
    transport: "redis-sortedset",
    redis: at(url),
    queues: [Q],
    resultQueueName: "results",
    retryQueueName: "retries",
    pollInterval: 1000,
    batchCap: undefined,
    leases: LEASES,
    ...more,
  };
}

/** What a broker has reported. */
export class Reports implements BrokerEvents {
  available_ = 0;
  readonly dead: string[] = [];
  reclaimed_ = 0;

  available(): void {
    this.available_++;
  }
  deadLettered(_queue: QueueSettings, reason: string): void {
    this.dead.push(reason);
  }
  reclaimed(_queue: QueueSettings, count: number): void {
    this.reclaimed_ += count;
  }
  writeRetried(): void {}
  forgotten_ = 0;
  forgotten(_queue: QueueSettings, count: number): void {
    this.forgotten_ += count;
  }
  /** Claims that this process holds, as the dispatcher would know them: renewed when the broker doubts. */
  readonly held: Claim[] = [];
  broker: Broker | undefined;
  async doubted(): Promise<void> {
    await this.broker?.renew(this.held).catch(() => undefined);
  }
}

/** A broker that has reached its server. */
export async function started(
  settings: RedisSortedSetSettings,
  log: Logger = silentLogger,
): Promise<{ broker: Broker; reports: Reports }> {
  const broker = redisSortedSetBroker(settings, { ...deps, log });
  const reports = new Reports();
  reports.broker = broker;
  broker.start(reports);
  await reached(broker);
  return { broker, reports };
}

export const reached = (broker: Broker): Promise<true> =>
  poll("the broker to be reached", () => broker.check().then((): true => true));

export const producerOn = (client: Redis): Promise<Producer> =>
  redisProducer({ client, requestQueueName: "q", resultQueueName: "results" }, deps);

/** Unix seconds, whole. */
export const inSeconds = (seconds: number): number => Math.floor(realClock.wall() / 1000) + seconds;

export const envelope = (internal: object, data: object): string =>
  JSON.stringify({ internal, request_kind: "redis", data: { payload: {}, ...data } });

export const idsOf = (claims: readonly Claim[]): string[] => claims.map(({ message }) => message.request.id);

export const ok = (id: string): ResultMessage => ({ ...errorResult(id, "INFERENCE_ERROR", ""), errorCode: "" });

export const answered = (claim: Claim): Settlement => ({ kind: "result", claim, result: ok(claim.message.request.id) });

export const refused = (claim: Claim): Settlement => ({
  kind: "refuse",
  claim,
  labels: claim.message.routing.labels,
});

export const parked = (claim: Claim, due: number): Settlement => ({
  kind: "retry",
  claim,
  due,
  retryCount: claim.message.routing.retryCount + 1,
  labels: claim.message.routing.labels,
});

/** Ids of the results in a list, oldest first. */
export async function resultIds(redis: Redis, key = "results"): Promise<string[]> {
  const texts = (await redis.send(["LRANGE", key, "0", "-1"])) as string[];
  return texts.toReversed().map((text) => (JSON.parse(text) as { id: string }).id);
}

export interface Line {
  readonly level: string;
  readonly fields: LogFields;
  readonly message: string;
}

/** A logger that keeps its lines. */
export function keepingLog(): { log: Logger; lines: Line[] } {
  const lines: Line[] = [];
  const line = (level: string) => (fields: LogFields, message: string) => {
    lines.push({ level, fields, message });
  };
  const log: Logger = {
    debug: line("debug"),
    info: line("info"),
    warn: line("warn"),
    error: line("error"),
    child: () => log,
  };
  return { log, lines };
}
