import type { Broker } from "../../../../src/async/brokers/broker.ts";
import type { Producer, QueueInspector } from "../../../../src/async/brokers/queue-client.ts";
import type { LeaseSettings, QueueSettings } from "../../../../src/async/brokers/settings.ts";

/** What a broker is made with for one case. */
export interface CaseSettings {
  readonly queues: readonly QueueSettings[];
  readonly resultQueueName: string;
  readonly leases: LeaseSettings;
  /** Milliseconds. */
  readonly pollInterval: number;
}

/** One empty store with a broker on it. */
export interface BrokerHarness {
  /** Not started. */
  readonly broker: Broker;
  /** Another broker on the same store, as another process has it; not started. */
  peer(): Broker;
  producer(requestQueueName: string, resultQueueName: string): Producer;
  readonly inspector: QueueInspector;
  /** Puts any text into a queue. @param score Unix seconds */
  inject(queueName: string, entry: string, score: number): Promise<void>;
  /** Puts any text into a result queue. */
  injectResult(queueName: string, entry: string): Promise<void>;
  /** What stands in a result queue, oldest first; it stays there. */
  results(queueName: string): Promise<readonly string[]>;
  /** The store loses everything that is in it, as one without persistence does when it is started again. */
  wipe(): Promise<void>;
  /** The broker's clock, Unix milliseconds. */
  now(): number | Promise<number>;
  /** Somebody sets the broker's clock forward or back by `ms`; no time passes. */
  setClock(ms: number): void | Promise<void>;
  /**
   * Lets time pass until `probe` is true, asking it now and then, at least 20 times. Fails when it is not within `ms`
   * milliseconds (and a good allowance for slow machines, where the clock is real).
   */
  until(what: string, ms: number, probe: () => boolean | Promise<boolean>): Promise<void>;
  /** Ends everything that was made. */
  close(): Promise<void>;
}

/** A queue without anything special. */
export function queueOf(name: string, more: Partial<QueueSettings> = {}): QueueSettings {
  return {
    id: name,
    name,
    workerPoolId: "default",
    inferenceObjective: "",
    igwBaseUrl: "http://127.0.0.1:1",
    requestPathUrl: "/v1/completions",
    labels: {},
    gate: undefined,
    resultQueueName: undefined,
    trustMessageLabels: true,
    allowedEndpoints: undefined,
    maxQueueShare: 1,
    ...more,
  };
}
