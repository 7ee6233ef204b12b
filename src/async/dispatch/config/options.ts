import type { LoggerOptions } from "../../../base/telemetry/logging.ts";
import type { PoolSettings, TransportSettings } from "../../brokers/settings.ts";
import type { ClientTls } from "../send/client-tls.ts";
import type { ConfigDocument } from "./config-document.ts";

/** What is about the process as a whole; times in milliseconds, sizes in bytes (async-processor 8.1). */
export interface ProcessOptions {
  /** An IP address, for both ports. */
  readonly bindAddress: string;
  /** Ports: 0 = any. */
  readonly healthPort: number;
  readonly metricsPort: number;
  /** For one attempt; at least 1. */
  readonly requestTimeout: number;
  readonly drainTimeout: number;
  /** 0 = the backlog is not looked at. */
  readonly backlogPollInterval: number;
  /** Absolute, http or https. */
  readonly prometheusUrl: string | undefined;
  /** 0 = no cache. */
  readonly prometheusCacheTtl: number;
  /** Gates of a type that nobody defines are open, instead of an error. */
  readonly allowUnknownGates: boolean;
  /** Header that tells the gateway how many milliseconds are left until the deadline; undefined = none. */
  readonly deadlineHeader: string | undefined;
  /** Longest answer of a gateway that is taken. */
  readonly maxResponseBytes: number;
  /** Processes that share the capacities, from 1 up: each spends its part. */
  readonly replicaCount: number;
  /** Answers /debug to everyone, not to loopback alone. */
  readonly debugOpen: boolean;
  readonly logging: Pick<LoggerOptions, "level" | "encoder" | "time">;
}

/** How `sluice dispatch` runs: flags, files and environment, weighed against each other and checked. */
export interface DispatchOptions extends ProcessOptions {
  readonly transport: TransportSettings;
  /** Every queue's pool is among them; ids are unique. */
  readonly pools: readonly PoolSettings[];
  /** `{type, parameters}` (async-processor 6.1), unread; undefined = random-robin. */
  readonly mergePolicy: ConfigDocument | undefined;
  /** `{requestTransforms}` (async-processor 6.6), unread; undefined = none. */
  readonly transforms: ConfigDocument | undefined;
  /** Modules with gates and metric sources of the user: absolute paths of files that exist. */
  readonly plugins: readonly string[];
  /** Towards the gateways; the texts were checked. */
  readonly clientTls: ClientTls;
}
