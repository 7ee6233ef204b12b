import { isIP } from "node:net";
import { SluiceError } from "../../base/inference/errors.ts";
import { type MemoryPlan, memoryPlanOf } from "../../base/process/memory-plan.ts";
import { deploymentName, type KubernetesSettings } from "../../pool/controllers/kubernetes-settings.ts";
import { peersSettings } from "../../pool/peers/peers-settings.ts";
import {
  type ResourceCounting,
  type ResourceFlags,
  resourceCounting,
  resourceSettings,
} from "../../pool/resources/resource-settings.ts";
import { bodySettingsOf, explainSettingsOf, memoryLimitOf } from "../common/exchange-flags.ts";
import { flagSettings } from "../common/flag-settings.ts";
import { flagsHelp, flagsMarkdown } from "../common/flag-text.ts";
import { type FlagValues, type ParsedFlags, parseGoFlags } from "../common/go-flags.ts";
import { loggingOf } from "../common/log-flags.ts";
import { peersGiven } from "../common/peers-flags.ts";
import { environmentMarkdown, readEnvironment } from "./epp-environment.ts";
import { EPP_FLAGS } from "./epp-flag-table.ts";
import type { EppSettings } from "./epp-settings.ts";
import { modelServersOf } from "./model-server-flags.ts";
import { tlsOf } from "./tls-flags.ts";
import { learnsBytesPerTokenOf, maxRequestBodyOf, releaseOf, wireOf } from "./wire-flags.ts";

type Values = FlagValues<typeof EPP_FLAGS>;

/** Shortest time between two scrapes of one endpoint, milliseconds (scheduling 1.2). */
const MIN_REFRESH = 50;

/**
 * Reads the command line of `sluice epp` (epp-protocol 13).
 * @param cgroup the bytes that the cgroup of the process allows; Infinity = it has no limit
 * @returns "help" when the command line asks for help
 * @throws SluiceError FLAG_... for the first faulty flag
 */
export function parseEppFlags(
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  cgroup: number = Number.POSITIVE_INFINITY,
): EppSettings | "help" {
  const given = parseGoFlags(args, EPP_FLAGS, env);
  if (given.help) return "help";
  const memory = memoryPlanOf(memoryLimitOf(given), cgroup);
  const parsed = withinMemory(given, memory);
  const { values, explicit } = parsed;
  validate(parsed);
  const modelServers = modelServersOf(values, parsed.explicit);
  const environment = readEnvironment(env);
  const { tls, warnings: tlsWarnings } = tlsOf(parsed);
  const flags = resourceFlags(parsed);
  const kubernetes = kubernetesOf(parsed, resourceCounting(flags));
  checkMetricsAuth(parsed, kubernetes !== undefined);
  if (!values.endpoints && !values["config-file"] && !values["config-text"] && kubernetes === undefined)
    throw missingEndpoints();
  const poolName = poolNameOf(values, kubernetes, env);
  return {
    bindAddress: values["bind-address"].replace(/^\[(.*)\]$/, "$1"),
    grpcPort: values["grpc-port"],
    grpcHealthPort: values["grpc-health-port"],
    metricsPort: values["metrics-port"],
    scalerPort: values["scaler-port"] || undefined,
    poolName,
    endpointsFile: values.endpoints || undefined,
    missingEndpoints: missingEndpoints(),
    objectives: values.objective,
    resources: kubernetes === undefined ? resourceSettings(flags) : undefined,
    kubernetes,
    peers: peersSettings(peersGiven(parsed), env, kubernetes && `${kubernetes.namespace}/${poolName}`),
    configFile: values["config-file"] || undefined,
    configText: values["config-text"] || undefined,
    profile: parsed.explicit.has("profile") ? values.profile : undefined,
    allowExperimental: values["allow-experimental-plugins"],
    parity: releaseOf(parsed),
    env,
    modelServers,
    tls,
    wire: wireOf(parsed, environment.streaming),
    emitScores: values["emit-endpoint-scores"],
    maxEndpoints: values["max-endpoints"] || undefined,
    maxRequestBytes: maxRequestBodyOf(parsed),
    learnsBytesPerToken: learnsBytesPerTokenOf(parsed),
    bodies: bodySettingsOf(parsed),
    memory,
    streamMetrics: values["enable-grpc-stream-metrics"],
    tracing: values.tracing,
    inferenceModelMetrics: values["inference-model-metrics"],
    pprof: values["enable-pprof"],
    // The Envoy of published standalone charts checks this port, with or without the flag (api-resources 3.6).
    healthChecking: explicit.has("health-checking") ? values["health-checking"] : values.parity !== "v1.5",
    refreshMetricsInterval: Math.max(MIN_REFRESH, values["refresh-metrics-interval"]),
    fixedCadence: parsed.explicit.has("refresh-metrics-interval"),
    refreshPrometheusMetricsInterval: values["refresh-prometheus-metrics-interval"],
    metricsStalenessThreshold: values["metrics-staleness-threshold"],
    grpcMaxRecvMsgSize: values["grpc-max-recv-msg-size"],
    grpcMaxStreams: values["grpc-max-concurrent-streams"],
    grpcMaxTotalStreams: values["grpc-max-total-streams"],
    grpcMaxConnections: values["grpc-max-connections"],
    disableEndpointSubsetFilter: values["disable-endpoint-subset-filter"],
    drainTimeout: values["drain-timeout"],
    logging: loggingOf(parsed),
    debugOpen: values["debug-open"],
    prometheus: values.prometheus || undefined,
    explain: explainSettingsOf(parsed),
    shown: flagSettings(EPP_FLAGS, parsed, env),
    warnings: [...parsed.warnings, ...environment.warnings, ...tlsWarnings, ...effectless(values, kubernetes)],
  };
}

/** Sizes that the command line does not give become as small as the memory plan has them. */
function withinMemory(
  parsed: ParsedFlags<typeof EPP_FLAGS>,
  { bodies, smallBodies }: MemoryPlan,
): ParsedFlags<typeof EPP_FLAGS> {
  const { values, explicit } = parsed;
  const { "body-budget": budget, "small-body-reserve": reserve, "small-body": small } = values;
  return {
    ...parsed,
    values: {
      ...values,
      "body-budget": explicit.has("body-budget") ? budget : Math.min(budget, bodies),
      "small-body-reserve": explicit.has("small-body-reserve")
        ? reserve
        : Math.min(reserve, Math.max(smallBodies, small)),
    },
  };
}

function resourceFlags({ values, explicit }: ParsedFlags<typeof EPP_FLAGS>): ResourceFlags {
  const namespace = values["pool-namespace"] || "default";
  return {
    directory: values.resources || undefined,
    pool: {
      name: values["pool-name"] || undefined,
      // The default is no restriction: a single pool in another namespace is served, too.
      namespace: explicit.has("pool-namespace") || namespace !== "default" ? namespace : undefined,
      group: explicit.has("pool-group") ? values["pool-group"] : undefined,
    },
    namespace,
    modelMatching: values["model-matching"],
    standardShedAt: values["standard-shed-at"],
    legacyCriticality: values["legacy-criticality"],
  };
}

/** The text of `sluice epp --help`. */
export function eppHelp(): string {
  return [
    "Usage: sluice epp --pool-name NAME | --endpoints FILE [flags]\n",
    "An Endpoint Picker: it chooses the model server of each request for Envoy, over ext_proc.\n",
    "Flags are written -name value, --name value or --name=value; older spellings (-poolName) work.\n\n",
    flagsHelp(EPP_FLAGS),
    "\ndocs/reference/flags.md lists the flags of the reference that have no effect.\n",
  ].join("");
}

/** The flags of `sluice epp` for docs/reference/flags.md, below a heading of the second level. */
export function eppReference(): string {
  return `## \`sluice epp\`

Written \`-name value\`, \`--name value\` or \`--name=value\`; a bare boolean is true. Durations are Go's (\`50ms\`, \`1m30s\`), sizes
Kubernetes quantities. "Since" is the release of the reference that introduced the flag.

${flagsMarkdown(EPP_FLAGS)}
### Environment

Sluice logs a malformed value, and ignores it.

${environmentMarkdown()}`;
}

/** Checks combinations of flags. */
function validate({ values }: ParsedFlags<typeof EPP_FLAGS>): void {
  if (values["config-file"] && values["config-text"])
    throw new SluiceError(
      "FLAG_CONFLICT",
      "--config-file and --config-text: both flags cannot be set at the same time",
    );
  if (values["metrics-cert-dir"] && !values["metrics-client-ca-file"] && !values["metrics-endpoint-auth"])
    throw new SluiceError(
      "FLAG_CONFLICT",
      "--metrics-cert-dir requires --metrics-client-ca-file or --metrics-endpoint-auth: TLS alone admits every client",
    );
  if (values["scaler-cert-dir"] && values["scaler-port"] === 0)
    throw new SluiceError(
      "FLAG_CONFLICT",
      "--scaler-cert-dir requires --scaler-port: without this port there is no scaler",
    );
  if (values["pool-name"] && values["endpoint-selector"])
    throw new SluiceError(
      "FLAG_CONFLICT",
      "either pool-name or endpoint-selector must be set: --pool-name and --endpoint-selector exclude each other",
    );
  if (values["endpoint-selector"] && values["endpoint-target-ports"].length === 0)
    throw new SluiceError("FLAG_CONFLICT", "--endpoint-selector requires --endpoint-target-ports, 1 to 8 ports");
  if (isIP(values["bind-address"].replace(/^\[(.*)\]$/, "$1")) === 0)
    throw new SluiceError(
      "FLAG_VALUE",
      `--bind-address=${JSON.stringify(values["bind-address"])} is not an IP address; write for example 127.0.0.1, 0.0.0.0 or ::`,
    );
  const taken = new Map<number, string>();
  for (const flag of ["grpc-port", "grpc-health-port", "metrics-port", "scaler-port"] as const) {
    const other = taken.get(values[flag]);
    if (other !== undefined && values[flag] !== 0)
      throw new SluiceError(
        "FLAG_CONFLICT",
        `--${other} and --${flag} are both ${values[flag]}; give each its own port`,
      );
    taken.set(values[flag], flag);
  }
  checkTargetPorts(values);
}

/** Without Kubernetes no API server can authorize readers. */
function checkMetricsAuth({ values, explicit }: ParsedFlags<typeof EPP_FLAGS>, kubernetes: boolean): void {
  if (!kubernetes && explicit.has("metrics-endpoint-auth") && values["metrics-endpoint-auth"])
    throw new SluiceError(
      "FLAG_UNSUPPORTED",
      "--metrics-endpoint-auth=true needs an API server of Kubernetes, which endpoints from a file do not have; remove the flag",
    );
}

function checkTargetPorts(values: Values): void {
  const ports = new Set(values["endpoint-target-ports"]);
  const wrong = [...ports].find((port) => !/^\d{1,5}$/.test(port) || Number(port) < 1 || Number(port) > 65535);
  if (wrong !== undefined || ports.size > 8)
    throw new SluiceError(
      "FLAG_VALUE",
      `--endpoint-target-ports takes 1 to 8 ports from 1 to 65535, got ${wrong === undefined ? ports.size : JSON.stringify(wrong)}`,
    );
}

/** Warnings for flags without effect in this combination. */
function effectless(values: Values, kubernetes: KubernetesSettings | undefined): string[] {
  const warnings = effectlessOf(values, kubernetes);
  if (values["refresh-metrics-interval"] < MIN_REFRESH)
    warnings.push(`--refresh-metrics-interval is raised to ${MIN_REFRESH}ms, the minimum`);
  return warnings;
}

/**
 * The Kubernetes settings of the picker; undefined when a file names the endpoints, or no flag names a pool.
 * @param counting the settings for API objects from other flags
 */
function kubernetesOf(
  { values, explicit }: ParsedFlags<typeof EPP_FLAGS>,
  counting: ResourceCounting,
): KubernetesSettings | undefined {
  const name = values["pool-name"];
  const selector = values["endpoint-selector"];
  if (values.endpoints || values.resources || (!name && !selector)) return undefined;
  return {
    namespace: values["pool-namespace"] || "default",
    members: selector
      ? { kind: "selector", selector, ports: [...new Set(values["endpoint-target-ports"].map(Number))] }
      : { kind: "pool", name, group: explicit.has("pool-group") ? values["pool-group"] : undefined },
    kubeconfig: values.kubeconfig || undefined,
    leaderElection: values["ha-enable-leader-election"],
    metricsAuth: values["metrics-endpoint-auth"],
    writeModelStatus: values["write-model-status"],
    ...counting,
  };
}

/** The pool's name in labels; with a selector, the name of the Deployment. @throws SluiceError POD_NAME */
function poolNameOf(
  values: Values,
  kubernetes: KubernetesSettings | undefined,
  env: Readonly<Record<string, string | undefined>>,
): string {
  if (kubernetes?.members.kind === "selector") return deploymentName(env);
  return values["pool-name"] || "epp";
}

/** Warnings for flags about Kubernetes, which have no effect while a file names the endpoints. */
function effectlessOf(values: Values, kubernetes: KubernetesSettings | undefined): string[] {
  if (kubernetes !== undefined) return [];
  const given: readonly [flag: string, isGiven: boolean][] = [
    ["endpoint-selector", values["endpoint-selector"] !== ""],
    ["endpoint-target-ports", values["endpoint-target-ports"].length > 0],
    ["kubeconfig", values.kubeconfig !== ""],
    ["ha-enable-leader-election", values["ha-enable-leader-election"]],
    ["write-model-status", values["write-model-status"]],
  ];
  return given.flatMap(([flag, isGiven]) =>
    isGiven ? [`--${flag} has no effect: the endpoints come from a file`] : [],
  );
}

/** The error for a command line that names no endpoints. */
function missingEndpoints(): SluiceError {
  return new SluiceError(
    "ENDPOINTS_MISSING",
    "no flag and no configuration names the endpoints: give --pool-name or --endpoint-selector in Kubernetes, else --endpoints FILE, or a --config-file with a file-discovery in dataLayer.discovery",
  );
}
