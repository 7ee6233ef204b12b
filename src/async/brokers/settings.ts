import type { GateSpec } from "../../base/plugin/gate.ts";

/** A source of requests as it is configured: a sorted set, a table, a channel or a subscription (async-processor 5.1). */
export interface QueueSettings {
  /** Unique; the name unless the configuration gives one. Empty for Pub/Sub, as its series have it. */
  readonly id: string;
  /** Key, channel or subscription. */
  readonly name: string;
  readonly workerPoolId: string;
  /** Goes out as `x-gateway-inference-objective`; empty = no header. */
  readonly inferenceObjective: string;
  readonly igwBaseUrl: string;
  readonly requestPathUrl: string;
  /** Overwrite labels of the same name in the message. */
  readonly labels: Readonly<Record<string, string>>;
  readonly gate: GateSpec | undefined;
  /** Where results of this queue go, before what the message names; undefined = not set. */
  readonly resultQueueName: string | undefined;
  /** False throws away all labels that a message brings, before gates see them. */
  readonly trustMessageLabels: boolean;
  /** Prefixes of paths that a message's `endpoint` may name; undefined = all. */
  readonly allowedEndpoints: readonly string[] | undefined;
  /** Share of a shared capacity that this queue may have at most, 0..1. */
  readonly maxQueueShare: number;
}

/** Leases on messages (async-processor 5.2.8); all in milliseconds. */
export interface LeaseSettings {
  readonly claimTtl: number;
  readonly reclaimInterval: number;
  /** How many times a message's lease may run out before it is given up; 0 = without limit. */
  readonly maxAttempts: number;
}

/** A set of workers (async-processor 6.5). */
export interface PoolSettings {
  readonly id: string;
  /** Requests in flight at the same time, from 1 up. */
  readonly workers: number;
  readonly gate: GateSpec | undefined;
}

/** How one Redis server is reached. */
export interface RedisConnection {
  /** `redis://` or `rediss://`. */
  readonly url: string;
  /** PEM texts; undefined = the system's authorities, no client certificate. */
  readonly tls: { readonly ca?: string; readonly cert?: string; readonly key?: string };
  /** One span per command. */
  readonly enableTracing: boolean;
}

interface CommonSettings {
  readonly queues: readonly QueueSettings[];
  /** Milliseconds between looks at an idle queue that nobody has announced anything for. */
  readonly pollInterval: number;
  /** `batch_size` when the operator has set one: a cap on what is claimed at once. */
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
  /** Of the database file; its folder exists. */
  readonly path: string;
  readonly resultQueueName: string;
}

export interface PubSubSettings extends CommonSettings {
  readonly transport: "gcp-pubsub";
  readonly projectId: string;
  readonly resultTopicId: string;
}

/** A transport as it is configured (async-processor 5). */
export type TransportSettings = RedisSortedSetSettings | RedisPubSubSettings | SqliteSettings | PubSubSettings;
