import type { ClockSkew } from "../../lab/check/clock-skew.ts";
import type { ServerFacts } from "../../lab/check/server-facts.ts";

/** Everything that the checks judge. It holds no secret: no key, no token, no password of a URL. */
export interface InstallationFacts {
  /** Wall-clock milliseconds of this machine. */
  readonly now: number;
  /** The version of this command. */
  readonly cli: string;
  /** The address of the admin port. */
  readonly admin: string;
  /** What the running process says; a text = why it says nothing. */
  readonly running: RunningFacts | string;
  /** The servers of the endpoints, asked from this machine, by `hostPort`; undefined = not asked. */
  readonly servers: ReadonlyMap<string, ServerFacts> | undefined;
  /** Why the servers could not be asked, and what to do; absent = they were, or nobody wants it. */
  readonly unasked?: { readonly because: string; readonly todo: string } | undefined;
  /** The gateway.yaml of `--config`; undefined = none is given. */
  readonly file: FileFacts | undefined;
}

/** What the admin port of a running process says. */
export interface RunningFacts {
  /** Undefined = the metrics page does not name it. */
  readonly version: string | undefined;
  readonly ready: boolean;
  /** Why not. */
  readonly because: string | undefined;
  readonly skew: ClockSkew | undefined;
  readonly endpoints: readonly EndpointFacts[];
  /** Whether requests may wait in flow control. */
  readonly flowControl: boolean;
  /** The types of the plugins in force; undefined = unknown. */
  readonly plugins: ReadonlySet<string> | undefined;
  readonly gauges: Readonly<Partial<Record<GaugeName, number>>>;
}

/** The metrics of the process that checks read. */
export const GAUGES = {
  startedAt: "process_start_time_seconds",
  openFiles: "process_open_fds",
  maxFiles: "process_max_fds",
  memory: "process_resident_memory_bytes",
  eventLoopLag: "sluice_event_loop_lag_seconds",
  bodyBytes: "sluice_body_budget_bytes",
  bodyLimit: "sluice_body_budget_limit_bytes",
  bodiesPaused: "sluice_body_budget_paused",
  fileRefused: "sluice_gateway_file_refused",
  fileRestartKeys: "sluice_gateway_file_restart_keys",
  fileReloads: "sluice_gateway_file_reloads_total",
  configRefused: "sluice_config_refused",
  limitsShared: "sluice_limits_shared",
  limitsRefused: "sluice_limits_file_refused",
  saturation: "llm_d_epp_flow_control_pool_saturation",
  queued: "llm_d_epp_flow_control_queue_size",
} as const;
export type GaugeName = keyof typeof GAUGES;

/** One endpoint of `/debug/endpoints`. */
export interface EndpointFacts {
  readonly id: string;
  readonly hostPort: string;
  /** What it speaks. Undefined = unknown: another version of sluice. */
  readonly scheme: "http" | "https" | undefined;
  readonly state: "up" | "blind" | "down";
  readonly cause: string;
  readonly sinceMs: number;
  /** Undefined = unknown: it counts as serving every model. */
  readonly models: readonly string[] | undefined;
  readonly inFlight: number;
  /** Null = unknown. */
  readonly waiting: number | null;
  readonly running: number | null;
  readonly kvUsage: number | null;
  /** The most requests that it ran at a time, as far as its pages showed. */
  readonly capacity: number | null;
  readonly blockSize: number | null;
  /** The blocks of its KV cache. */
  readonly blocks: number | null;
  /** Milliseconds since the metrics were read; null = never. */
  readonly ageMs: number | null;
  readonly fresh: boolean;
}

/** A gateway.yaml on disk. */
export interface FileFacts {
  readonly path: string;
  /** Why it cannot be used; undefined = it can. */
  readonly problem: string | undefined;
  /** Wall-clock milliseconds of its last change; undefined = it is not there. */
  readonly changedAt: number | undefined;
  /** `host:port` of an inline list; undefined = the endpoints come from elsewhere. */
  readonly endpoints: readonly string[] | undefined;
  readonly certificates: readonly CertificateFacts[];
  readonly keys: KeysFacts | undefined;
  readonly limits: LimitsFacts | undefined;
  readonly redis: RedisFacts | undefined;
}

export interface CertificateFacts {
  readonly path: string;
  readonly problem: string | undefined;
  /** Wall-clock milliseconds. */
  readonly ends: number | undefined;
}

/** A keys file, without its hashes. */
export interface KeysFacts {
  readonly path: string;
  readonly problem: string | undefined;
  /** Permission bits. */
  readonly mode: number | undefined;
  /** Callers with tokens of an issuer count, too. */
  readonly tokens: boolean;
  readonly keys: readonly { readonly name: string; readonly expires: number | undefined }[];
}

/** Rules of limits: of a file of their own, or of gateway.yaml. */
export interface LimitsFacts {
  readonly path: string;
  readonly problem: string | undefined;
  readonly rules: number;
  /** The names of keys in rules, each once; `*` is none. */
  readonly keyNames: readonly string[];
  /** The file names a Redis that does not count, because gateway.yaml names another one. */
  readonly otherRedis: boolean;
}

/** The Redis of shared limits. */
export interface RedisFacts {
  /** Host and port alone. */
  readonly server: string;
  readonly problem: string | undefined;
  readonly skew: ClockSkew | undefined;
  /** `Redis 7.2.4`; absent = it does not show it. */
  readonly version?: string;
  /** Milliseconds of the quickest answer. */
  readonly latency?: number;
  /** Bytes; `limit` 0 = none. Absent = it does not show them. */
  readonly memory?: { readonly policy: string; readonly limit: number; readonly used: number };
}
