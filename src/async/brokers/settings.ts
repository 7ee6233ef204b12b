import type { GateSpec } from "../../base/plugin/gate.ts";
import type { RedisConnection } from "../../base/redis/address.ts";

/** A configured source of requests: a sorted set, a table, a channel or a subscription (async-processor 5.1). */
export interface QueueSettings {
  /** Unique; the name unless the configuration gives one. Empty for Pub/Sub, as in its series. */
  readonly id: string;
  /** Key, channel or subscription. */
  readonly name: string;
  readonly workerPoolId: string;
  /** Goes out as `x-gateway-inference-objective`; empty = no header. */
  readonly inferenceObjective: string;
  readonly igwBaseUrl: string;
  readonly requestPathUrl: string;
  /** These replace labels of the same name in the message. */
  readonly labels: Readonly<Record<string, string>>;
  readonly gate: GateSpec | undefined;
  /** The queue for results of this queue, before the queue that the message names; undefined = not set. */
  readonly resultQueueName: string | undefined;
  /** False drops all labels of a message before gates see them. */
  readonly trustMessageLabels: boolean;
  /** Prefixes of paths that a message's `endpoint` may name; undefined = all. */
  readonly allowedEndpoints: readonly string[] | undefined;
  /** Largest share of a shared capacity for this queue, 0..1. */
  readonly maxQueueShare: number;
}

/** Leases on messages (async-processor 5.2.8); all in milliseconds. */
export interface LeaseSettings {
  readonly claimTtl: number;
  readonly reclaimInterval: number;
  /** How often a message's lease may run out before the message is given up; 0 = without limit. */
  readonly maxAttempts: number;
}

/** A set of workers (async-processor 6.5). */
export interface PoolSettings {
  readonly id: string;
  /** Most requests in flight at the same time, from 1 up. */
  readonly workers: number;
  readonly gate: GateSpec | undefined;
}

interface CommonSettings {
  readonly queues: readonly QueueSettings[];
  /** Milliseconds between polls of an idle queue without an announcement. */
  readonly pollInterval: number;
  /** `batch_size`, if the operator has set one: the most messages of one claim. */
  readonly batchCap: number | undefined;
  readonly leases: LeaseSettings;
}

interface RedisSettings<T extends string> extends CommonSettings {
  readonly transport: T;
  readonly redis: RedisConnection;
  readonly resultQueueName: string;
  readonly retryQueueName: string;
}

export type RedisSortedSetSettings = RedisSettings<"redis-sortedset">;
export type RedisPubSubSettings = RedisSettings<"redis-pubsub">;

export interface SqliteSettings extends CommonSettings {
  readonly transport: "sqlite";
  /** Path of the database file; its folder exists. */
  readonly path: string;
  readonly resultQueueName: string;
}

export interface PubSubSettings extends CommonSettings {
  readonly transport: "gcp-pubsub";
  readonly projectId: string;
  readonly resultTopicId: string;
}

/** A configured transport (async-processor 5). */
export type TransportSettings = RedisSortedSetSettings | RedisPubSubSettings | SqliteSettings | PubSubSettings;
