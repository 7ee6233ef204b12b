import { isDeepStrictEqual } from "node:util";
import type { GatewaySettings } from "./gateway-settings.ts";

/**
 * How a change of a key takes effect. `now`: while requests run. `restart`: at the next start; the log names the key until then.
 */
export type ChangeKind = "now" | "restart";

interface KeyRow {
  /** The flag that wins over the key. */
  readonly flag: string;
  readonly change: ChangeKind;
}

/** Every key of a gateway.yaml. A key with no row here is a key whose change would be lost: a test compares with the schema. */
export const GATEWAY_KEYS = {
  listeners: { flag: "--listen or --tls-cert or --tls-key or --client-ca", change: "restart" },
  "connections.max": { flag: "--max-connections", change: "restart" },
  "connections.perAddress": { flag: "--max-connections-per-address", change: "restart" },
  "keys.file": { flag: "--keys", change: "now" },
  "keys.jwt": { flag: "--jwt-issuer or --jwt-audience or --jwt-jwks or --jwt-claim", change: "now" },
  "keys.open": { flag: "--open", change: "now" },
  "limits.file": { flag: "--limits", change: "now" },
  "limits.rules": { flag: "--limits", change: "now" },
  "limits.redis": { flag: "--limits-redis", change: "restart" },
  "limits.ca": { flag: "--limits-ca", change: "restart" },
  "limits.certificate": { flag: "--limits-cert", change: "restart" },
  "limits.key": { flag: "--limits-key", change: "restart" },
  cors: { flag: "--cors-origin", change: "now" },
  "servers.tls": {
    flag: "--server-tls or --server-ca or --server-name or --server-cert or --server-key",
    change: "restart",
  },
  "streams.rest": { flag: "--stream-rest", change: "restart" },
  "drain.timeout": { flag: "--drain-timeout", change: "now" },
  "admin.address": { flag: "--admin", change: "restart" },
  "admin.prometheus": { flag: "--prometheus", change: "restart" },
  "admin.open": { flag: "--debug-open", change: "now" },
  "peers.redis": { flag: "--peers", change: "restart" },
  "peers.name": { flag: "--peers-name", change: "restart" },
  "peers.ca": { flag: "--peers-ca", change: "restart" },
  "peers.certificate": { flag: "--peers-cert", change: "restart" },
  "peers.key": { flag: "--peers-key", change: "restart" },
  "scaler.address": { flag: "--scaler", change: "restart" },
  endpoints: { flag: "--endpoints", change: "now" },
  "picker.configFile": { flag: "--config-file or --profile", change: "now" },
  "picker.profile": { flag: "--config-file or --profile", change: "now" },
  "picker.config": { flag: "--config-file or --profile", change: "now" },
  "picker.allowExperimentalPlugins": { flag: "--allow-experimental-plugins", change: "now" },
  objectives: { flag: "--objective", change: "now" },
  "resources.folder": { flag: "--resources", change: "restart" },
  "resources.poolName": { flag: "--pool-name", change: "restart" },
  "resources.poolNamespace": { flag: "--pool-namespace", change: "restart" },
  "resources.modelMatching": { flag: "--model-matching", change: "restart" },
  "resources.standardShedAt": { flag: "--standard-shed-at", change: "restart" },
  "resources.legacyCriticality": { flag: "--legacy-criticality", change: "restart" },
  "retries.max": { flag: "--max-retries", change: "now" },
  "retries.statuses": { flag: "--retry-statuses", change: "now" },
  "paths.allow": { flag: "--allow-path", change: "now" },
  "memory.limit": { flag: "--memory-limit", change: "restart" },
  "bodies.budget": { flag: "--body-budget", change: "restart" },
  "bodies.small": { flag: "--small-body", change: "restart" },
  "bodies.smallReserve": { flag: "--small-body-reserve", change: "restart" },
  "bodies.minRate": { flag: "--body-min-rate", change: "restart" },
  "bodies.stallWindow": { flag: "--body-stall-window", change: "restart" },
  "batch.folder": { flag: "--batch", change: "restart" },
  "batch.redis": { flag: "--batch", change: "restart" },
  "batch.name": { flag: "--batch-name", change: "restart" },
  "batch.ca": { flag: "--batch-ca", change: "restart" },
  "batch.certificate": { flag: "--batch-cert", change: "restart" },
  "batch.key": { flag: "--batch-key", change: "restart" },
  "batch.spool": { flag: "--batch-spool", change: "restart" },
  "batch.workers": { flag: "--batch-workers", change: "restart" },
  "batch.window": { flag: "--batch-window", change: "restart" },
  "batch.baseline": { flag: "--batch-baseline", change: "restart" },
  "batch.priority": { flag: "--batch-priority", change: "restart" },
  "batch.maxFile": { flag: "--batch-max-file", change: "restart" },
  "batch.maxBytes": { flag: "--batch-max-bytes", change: "restart" },
  "batch.maxOpen": { flag: "--batch-max-open", change: "restart" },
  "batch.maxLines": { flag: "--batch-max-lines", change: "restart" },
  "batch.keep": { flag: "--batch-keep", change: "restart" },
  "batch.files": { flag: "--batch-files", change: "restart" },
  "batch.s3Endpoint": { flag: "--batch-s3-endpoint", change: "restart" },
  "batch.webhook": { flag: "--batch-webhook", change: "restart" },
  "batch.webhookSecretFile": { flag: "--batch-webhook-secret-file", change: "restart" },
  "log.level": { flag: "--log-level", change: "now" },
  "log.format": { flag: "--log-format", change: "restart" },
  "log.requests.which": { flag: "--request-log", change: "now" },
  "log.requests.file": { flag: "--request-log-file", change: "now" },
  "explain.decisionHeader": { flag: "--decision-header", change: "restart" },
  "explain.fullRecordsEvery": { flag: "--full-records-every", change: "restart" },
  learnBytesPerToken: { flag: "--learn-bytes-per-token", change: "restart" },
} as const satisfies Readonly<Record<string, KeyRow>>;

export type GatewayKey = keyof typeof GATEWAY_KEYS;

export const GATEWAY_KEY_NAMES = Object.keys(GATEWAY_KEYS) as GatewayKey[];

/** The keys at the top of a gateway.yaml. */
export const GATEWAY_SECTIONS: ReadonlySet<string> = new Set(GATEWAY_KEY_NAMES.map((key) => key.split(".")[0]!));

type At<T, K extends string> = K extends `${infer Head}.${infer Rest}`
  ? Head extends keyof T
    ? At<T[Head], Rest>
    : never
  : K extends keyof T
    ? T[K]
    : never;

/** The value of a key in the settings. */
export type ValueOf<K extends GatewayKey> = At<GatewaySettings, K>;

/** Values of keys that the command line gives. A value of undefined takes away what the file says. */
export class GivenSettings {
  readonly #values = new Map<GatewayKey, unknown>();

  set<K extends GatewayKey>(key: K, value: ValueOf<K>): void {
    this.#values.set(key, value);
  }

  has(key: GatewayKey): boolean {
    return this.#values.has(key);
  }

  /** The settings of a file, with these values in place of those of the file. */
  over(settings: GatewaySettings): GatewaySettings {
    let all: unknown = settings;
    for (const [key, value] of this.#values) all = withValue(all, key.split("."), value);
    return all as GatewaySettings;
  }
}

/** The value at a key. */
export function valueAt(from: unknown, key: string): unknown {
  let at = from;
  for (const step of key.split(".")) at = (at as Readonly<Record<string, unknown>> | undefined | null)?.[step];
  return at;
}

function withValue(into: unknown, [step = "", ...rest]: readonly string[], value: unknown): unknown {
  const object = into as Readonly<Record<string, unknown>>;
  return { ...object, [step]: rest.length === 0 ? value : withValue(object[step], rest, value) };
}

/** The result of a change: which keys take effect at once, and which at the next start. */
export interface SettingsChange {
  readonly now: readonly GatewayKey[];
  readonly restart: readonly GatewayKey[];
  /** What is in force after the change: the keys that need a restart still have the values of the start. */
  readonly inForce: GatewaySettings;
}

/** Compares the settings in force with those of a changed file. */
export function settingsChange(inForce: GatewaySettings, next: GatewaySettings): SettingsChange {
  const changed = GATEWAY_KEY_NAMES.filter((key) => !isDeepStrictEqual(valueAt(inForce, key), valueAt(next, key)));
  const restart = changed.filter((key) => GATEWAY_KEYS[key].change === "restart");
  let kept: unknown = next;
  for (const key of restart) kept = withValue(kept, key.split("."), valueAt(inForce, key));
  return {
    now: changed.filter((key) => GATEWAY_KEYS[key].change === "now"),
    restart,
    inForce: kept as GatewaySettings,
  };
}
