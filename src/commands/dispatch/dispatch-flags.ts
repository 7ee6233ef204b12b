import { type ConfigDocument, parseConfigDocument } from "../../async/dispatch/config/config-document.ts";
import { type DispatchOptions, loadDispatchOptions } from "../../async/dispatch/config/options.ts";
import { TRANSPORTS, type TransportName } from "../../async/dispatch/config/transport-fields.ts";
import { METRIC_GATES, METRIC_SOURCES, VERDICT_GATES } from "../../async/gates/builtin-gates.ts";
import type { GateCheck } from "../../async/gates/check-gate.ts";
import { didYouMean } from "../../base/document/nearest.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { REDACTED, redacted } from "../../base/inference/secrets.ts";
import { type LogLevel, levelOfVerbosity } from "../../base/telemetry/logging.ts";
import type { FlagSetting } from "../common/flag-settings.ts";
import { type FlagRow, type ParsedFlags, parseGoFlags } from "../common/go-flags.ts";
import { loggingOf } from "../common/log-flags.ts";
import { legacyTransport } from "./dispatch-legacy.ts";
import { LEGACY_FLAGS } from "./dispatch-legacy-table.ts";
import { ALL_FLAGS, DispatchSettings, type DispatchValues } from "./dispatch-settings.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** The command line of `sluice dispatch`, validated. */
export interface DispatchCommandLine {
  readonly options: DispatchOptions;
  /** For the log. */
  readonly warnings: readonly string[];
  /** Every flag by name with the value in force, for the log; without secrets. */
  readonly flags: Readonly<Record<string, string>>;
  /** Every flag with the origin of its value, for the page. */
  readonly settings: readonly FlagSetting[];
}

/**
 * Reads the command line of `sluice dispatch` (async-processor 8.1).
 * @throws SluiceError FLAG_UNKNOWN, FLAG_SYNTAX, FLAG_VALUE, FLAG_UNSUPPORTED
 */
export function parseDispatchFlags(args: readonly string[], env: Environment): ParsedFlags<typeof ALL_FLAGS> {
  const line = parseGoFlags(args, ALL_FLAGS, env);
  // Reports an unknown level in the same way as every malformed value.
  loggingOf(line);
  return line;
}

/**
 * Combines the command line with the file that it names, and reads every file that the two name.
 * @throws SluiceError FLAG_... for illegal combinations; DOCUMENT_..., TLS_FILE_INVALID for faults in files
 */
export async function dispatchOptionsOf(
  line: ParsedFlags<typeof ALL_FLAGS>,
  env: Environment,
): Promise<DispatchCommandLine> {
  const settings = await DispatchSettings.read(line);
  settings.validate();
  const { values, given, file } = settings;
  const replaced = usesTransport(settings);
  if (settings.pathOf("pool-config-file") !== undefined && !replaced && !hasQueueList(values))
    throw new SluiceError(
      "FLAG_CONFLICT",
      "--pool-config-file is only allowed together with a configuration of a transport or of queues",
    );
  const transport = replaced ? await transportOf(settings) : await legacyTransport({ values, explicit: given });
  const pools = await settings.document("pool-config-file", "pool-config");
  const logging = dispatchLogging(settings.values, given, env);
  const loaded = await loadDispatchOptions({
    transport,
    redisUrl: replaced ? env.REDIS_URL : undefined,
    gated: transport.gated,
    pools,
    concurrency: values.concurrency,
    gates: gateCheckOf(settings),
    mergePolicy: await mergePolicyOf(settings),
    transforms: await settings.document("transform-config-file", "transform-config"),
    plugins: file?.plugins ?? [],
    tlsPaths: {
      ca: settings.pathOf("tls-ca-cert"),
      cert: settings.pathOf("tls-cert"),
      key: settings.pathOf("tls-key"),
    },
    gatewayKey: {
      path: settings.pathOf("gateway-key-file"),
      flag: settings.nameOf("gateway-key-file"),
      given: env.SLUICE_GATEWAY_KEY || undefined,
    },
    tlsName: (which) => settings.nameOf(which === "ca" ? "tls-ca-cert" : `tls-${which}`),
    insecureSkipVerify: values["tls-insecure-skip-verify"],
    process: {
      bindAddress: settings.bindAddress,
      healthPort: values["health-port"],
      metricsPort: values["metrics-port"],
      requestTimeout: values["request-timeout"],
      drainTimeout: values["drain-timeout"],
      backlogPollInterval: values["metrics-backlog-poll-interval"],
      prometheusUrl: values["prometheus-url"] || undefined,
      prometheusCacheTtl: values["prometheus-cache-ttl"],
      allowUnknownGates: values["allow-unknown-gates"],
      deadlineHeader: values["deadline-header"] || undefined,
      maxResponseBytes: values["max-response-bytes"],
      replicaCount: values["replica-count"],
      debugOpen: values["debug-open"],
      logging: logging.logging,
    },
  });
  return {
    options: loaded.options,
    settings: settings.entries(env),
    flags: shownFlags(replaced ? { ...values, transport: transport.name } : values),
    warnings: [
      ...settings.warnings,
      ...legacyWarnings(given, replaced),
      ...logging.warnings,
      ...(pools !== undefined && given.has("concurrency")
        ? [`${settings.nameOf("concurrency")} has no effect: each worker pool sets its own workers`]
        : []),
      ...loaded.warnings,
    ],
  };
}

/**
 * What the gates of a configuration are checked by.
 * @param more gates and metric sources of the configuration's own modules; undefined = they are not loaded yet, so unknown types
 *   may be theirs
 */
export function gateCheckOf(
  { values, file }: DispatchSettings,
  more?: Pick<GateCheck, "definitions" | "sources">,
): GateCheck {
  const hasOthers = more === undefined && (file?.plugins.length ?? 0) > 0;
  return {
    definitions: [...METRIC_GATES, ...VERDICT_GATES, ...(more?.definitions ?? [])],
    sources: [...METRIC_SOURCES, ...(more?.sources ?? [])],
    prometheusUrl: values["prometheus-url"] || undefined,
    allowUnknown: values["allow-unknown-gates"] || hasOthers,
  };
}

/** Whether at least one of the flags that replace the flags per backend is set. */
function usesTransport({ given, file }: DispatchSettings): boolean {
  return (
    ["transport", "transport-config", "transport-config-file"].some((flag) => given.has(flag)) ||
    file?.transport !== undefined ||
    file?.section("transport-config") !== undefined
  );
}

function hasQueueList(values: DispatchValues): boolean {
  const lists = [
    "redis.queues-config",
    "redis.queues-config-file",
    "redis.ss.queues-config",
    "redis.ss.queues-config-file",
    "pubsub.topics-config-file",
  ] as const;
  return lists.some((flag) => values[flag] !== "");
}

/** The transport and the document that holds its configuration. @throws SluiceError FLAG_CONFLICT, DOCUMENT_... */
export async function transportOf(settings: DispatchSettings): Promise<{
  readonly name: TransportName;
  readonly document: ConfigDocument;
  readonly gated: boolean;
}> {
  const { values, file } = settings;
  const inline = values["transport-config"];
  const explicitFile = settings.isExplicit("transport-config-file") && values["transport-config-file"] !== "";
  if (inline !== "" && explicitFile)
    throw new SluiceError("FLAG_CONFLICT", "--transport-config and --transport-config-file are mutually exclusive");
  const document =
    inline === ""
      ? await settings.document("transport-config-file", "transport-config")
      : parseConfigDocument(inline, "--transport-config");
  if (document === undefined)
    throw new SluiceError("FLAG_CONFLICT", "--transport-config or --transport-config-file is required");
  const explicit = settings.isExplicit("transport");
  if (!explicit && file?.transport !== undefined) return { name: file.transport, document, gated: true };
  // The default transport keeps no messages. The user of a dispatch.yaml must ask for it by name.
  if (!explicit && inline === "" && !explicitFile)
    throw new SluiceError(
      "FLAG_CONFLICT",
      `${values.config} has a transport configuration but no transport; write one of ${TRANSPORTS.join(", ")}`,
    );
  const name = TRANSPORTS.find((known) => known === values.transport);
  if (name === undefined)
    throw new SluiceError(
      "FLAG_CONFLICT",
      `--transport must be one of: ${TRANSPORTS.join(", ")}${didYouMean(values.transport, TRANSPORTS)}`,
    );
  return { name, document, gated: true };
}

function mergePolicyOf(settings: DispatchSettings): Promise<ConfigDocument | undefined> {
  const older = settings.given.has("request-merge-policy-config");
  const newer = settings.isExplicit("request-merge-policy-config-file");
  const flag = older && !newer ? "request-merge-policy-config" : "request-merge-policy-config-file";
  return settings.document(flag, "request-merge-policy-config");
}

function legacyWarnings(given: ReadonlySet<string>, replaced: boolean): string[] {
  return LEGACY_FLAGS.filter(({ name }) => given.has(name)).map(({ name, instead }) =>
    replaced
      ? `--${name} is deprecated and ignored, since --transport or --transport-config is given; use ${instead}`
      : `--${name} is deprecated: it still works, and will be removed; use ${instead}`,
  );
}

const LEVELS: ReadonlyMap<string, LogLevel> = new Map([
  ["trace", "trace"],
  ["debug", "debug"],
  ["info", "info"],
  ["warn", "warn"],
  ["warning", "warn"],
  ["error", "error"],
]);

/** The logger settings of the flags; LOG_LEVEL applies when the flags set no level (async-processor 8.2). */
export function dispatchLogging(
  values: DispatchValues,
  given: ReadonlySet<string>,
  env: Environment,
): { readonly logging: DispatchOptions["logging"]; readonly warnings: readonly string[] } {
  const logging = loggingOf({ values, explicit: given });
  const text = env.LOG_LEVEL;
  if (!text || given.has("v") || given.has("zap-log-level")) return { logging, warnings: [] };
  const level = LEVELS.get(text.toLowerCase()) ?? (/^\d{1,3}$/.test(text) ? levelOfVerbosity(Number(text)) : undefined);
  if (level !== undefined) return { logging: { ...logging, level }, warnings: [] };
  const known = [...LEVELS.keys()].join(", ");
  return {
    logging,
    warnings: [
      `environment variable LOG_LEVEL is ignored: ${JSON.stringify(text.slice(0, 100))} is neither a number nor one of ${known}`,
    ],
  };
}

function shownFlags(values: DispatchValues): Record<string, string> {
  return Object.fromEntries(ALL_FLAGS.map((row: FlagRow) => [row.name, shown(row, values)]));
}

function shown(row: FlagRow, values: Readonly<Record<string, unknown>>): string {
  const value = values[row.name];
  const text = `${Array.isArray(value) ? value.join(",") : value}${row.type === "duration" ? "ms" : ""}`;
  if (row.secret) return text === "" ? "" : REDACTED;
  return String(redacted(text));
}
