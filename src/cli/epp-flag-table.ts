import { RESOURCE_DEFAULTS } from "../app/resource-settings.ts";
import type { FlagRow, Inert } from "./go-flags.ts";
import { LOG_FLAGS } from "./log-flags.ts";
import { MODEL_SERVER_FLAGS } from "./model-server-flags.ts";
import { TLS_FLAGS } from "./tls-flags.ts";
import { WIRE_FLAGS } from "./wire-flags.ts";

const PORT = { type: "int", min: 0, max: 65535 } as const;

/** Refused until built, unless the value asks for what happens anyway. */
function needsKubernetes(...harmless: readonly string[]): Inert {
  return { harmless, otherwise: "refuse", because: "needs Kubernetes, not built yet; leave it away" };
}

function ignored(because: string, ...harmless: readonly string[]): Inert {
  return { harmless, otherwise: "warn", because: `has no effect: ${because}` };
}

/**
 * Every flag of the reference EPP, from v0.3 to HEAD, and ours (epp-protocol 13.2, 13.3; scheduling appendix A). Those
 * with `inert` are known but do nothing yet.
 */
export const EPP_FLAGS = [
  {
    ...PORT,
    name: "grpc-port",
    aliases: ["grpcPort"],
    default: "9002",
    since: "v0.3",
    help: "Port of ext_proc; 0 = any.",
  },
  {
    ...PORT,
    name: "grpc-health-port",
    aliases: ["grpcHealthPort"],
    default: "9003",
    since: "v0.3",
    help: "Port of the gRPC health service, always without TLS; 0 = any.",
  },
  {
    ...PORT,
    name: "metrics-port",
    aliases: ["metricsPort"],
    default: "9090",
    since: "v0.3",
    help: "Port of /metrics, /debug and the page; 0 = any.",
  },
  {
    name: "bind-address",
    takes: "IP",
    type: "string",
    default: "0.0.0.0",
    since: "ours",
    help: "IP address that all three ports listen on; :: for IPv6 and IPv4.",
  },
  {
    name: "endpoints",
    takes: "FILE",
    type: "string",
    default: "",
    since: "ours",
    help: "File with the endpoints (YAML or JSON), followed while running: short for the plugin file-discovery with watchFile.",
  },
  {
    name: "objective",
    takes: "NAME=PRIORITY",
    type: "list",
    default: "",
    since: "ours",
    help: "NAME=PRIORITY of an InferenceObjective; below 0 may be shed under load. Repeatable.",
  },
  {
    name: "resources",
    takes: "FOLDER",
    type: "string",
    default: "",
    since: "ours",
    help: "Folder with InferencePool, InferenceModel, InferenceObjective and InferenceModelRewrite manifests, followed while running; not ready until the pool is there.",
  },
  {
    name: "model-matching",
    takes: "auto|enforce|off",
    type: "string",
    default: RESOURCE_DEFAULTS.modelMatching,
    since: "ours",
    help: "Whether a model name without an InferenceModel is answered 404: enforce = yes; auto = once an InferenceModel of a v1alpha2 pool was found; off = InferenceModels are ignored.",
  },
  {
    name: "standard-shed-at",
    takes: "SATURATION",
    type: "string",
    default: RESOURCE_DEFAULTS.standardShedAt,
    since: "ours",
    help: "Saturation from which requests of InferenceModels of Standard criticality may be shed; Sheddable ones are from 1.",
  },
  {
    name: "legacy-criticality",
    type: "bool",
    default: "false",
    since: "ours",
    help: "Shed Standard like Sheddable, from saturation 1, as v0.3 did.",
  },
  {
    name: "pool-name",
    aliases: ["poolName"],
    type: "string",
    default: "",
    since: "v0.3",
    help: "Name of the InferencePool: which one in --resources, where there are several; a label of the metrics, there `epp` when not given.",
  },
  {
    name: "pool-namespace",
    aliases: ["poolNamespace"],
    type: "string",
    default: "default",
    env: "NAMESPACE",
    since: "v0.3",
    help: "Namespace of the InferencePool in --resources, and of manifests there that name none.",
  },
  {
    name: "pool-group",
    type: "string",
    default: "inference.networking.k8s.io",
    since: "v1.0",
    help: "API group of the InferencePool in --resources; not given, one of inference.networking.x-k8s.io is taken, too.",
  },
  {
    name: "endpoint-selector",
    type: "string",
    default: "",
    since: "v1.5",
    help: "Label selector that replaces the pool; needs Kubernetes, not built yet.",
  },
  {
    name: "endpoint-target-ports",
    takes: "PORTS",
    type: "list",
    default: "",
    since: "v1.5",
    help: "1 to 8 ports of the endpoints that --endpoint-selector selects.",
  },
  {
    name: "config-file",
    takes: "FILE",
    type: "string",
    default: "",
    since: "v1.0",
    help: "File with an EndpointPickerConfig (YAML or JSON). Without one the built-in profile is used.",
  },
  {
    name: "config-text",
    type: "string",
    default: "",
    since: "v1.0",
    help: "The EndpointPickerConfig itself, instead of --config-file.",
  },
  {
    name: "profile",
    takes: "NAME",
    type: "string",
    default: "default",
    since: "ours",
    help: "Built-in profile, instead of a configuration: default, or legacy-v0.3, the decision tree of that release.",
  },
  {
    name: "health-checking",
    type: "bool",
    default: "false",
    since: "v1.0",
    help: "The gRPC health service on the ext_proc port, too.",
  },
  {
    name: "metrics-endpoint-auth",
    type: "bool",
    default: "true",
    since: "v1.0",
    help: "Authentication of /metrics by Kubernetes. With endpoints from a file there is none, and true is refused when given.",
  },
  {
    name: "refresh-metrics-interval",
    aliases: ["refreshMetricsInterval"],
    type: "duration",
    min: 1,
    default: "50ms",
    since: "v0.3",
    help: "Time between scrapes of a busy endpoint, at least 50ms. Given explicitly, idle endpoints are scraped as often.",
  },
  {
    name: "refresh-prometheus-metrics-interval",
    aliases: ["refreshPrometheusMetricsInterval"],
    type: "duration",
    min: 1,
    default: "5s",
    since: "v0.3",
    help: "Time between updates of the pool gauges.",
  },
  {
    name: "metrics-staleness-threshold",
    type: "duration",
    min: 1,
    default: "2s",
    since: "v1.0",
    help: "Age from which an endpoint's metrics count as stale.",
  },
  ...MODEL_SERVER_FLAGS,
  ...WIRE_FLAGS,
  ...TLS_FLAGS,
  ...LOG_FLAGS,
  {
    name: "grpc-max-recv-msg-size",
    type: "quantity",
    min: 0,
    max: 2 ** 32 - 1,
    default: "64Mi",
    since: "HEAD",
    help: "Largest gRPC message received, inflated, as 64Mi, 10MiB or 25MB; 0 = the default.",
  },
  {
    name: "grpc-max-send-msg-size",
    type: "quantity",
    min: 0,
    default: "",
    since: "HEAD",
    help: "Largest gRPC message sent.",
    inert: ignored("what is sent is cut into chunks far below any limit", "0"),
  },
  {
    name: "emit-endpoint-scores",
    type: "bool",
    default: "false",
    since: "HEAD",
    help: "Send the score of each candidate in the metadata.",
  },
  {
    name: "enable-grpc-stream-metrics",
    type: "bool",
    default: "false",
    since: "HEAD",
    help: "Metrics of ext_proc streams: open, duration, ends by gRPC status.",
  },
  {
    name: "enable-pprof",
    type: "bool",
    default: "true",
    since: "v1.0",
    help: "CPU and heap profiles at /debug/pprof/ on the metrics port.",
  },
  {
    name: "disable-endpoint-subset-filter",
    type: "bool",
    default: "false",
    since: "v1.5",
    help: "Ignore the subset of endpoints that a proxy asks for.",
  },
  {
    name: "drain-timeout",
    type: "duration",
    min: 0,
    default: "30s",
    since: "HEAD",
    help: "How long requests are still taken after SIGTERM.",
  },
  {
    name: "debug-open",
    type: "bool",
    default: "false",
    since: "ours",
    help: "Answer /debug and the page to everyone, not to loopback alone.",
  },

  {
    name: "kubeconfig",
    type: "string",
    default: "",
    since: "v0.3",
    help: "Kubernetes access from outside.",
    inert: ignored("Kubernetes is not used yet", ""),
  },
  {
    name: "ha-enable-leader-election",
    type: "bool",
    default: "false",
    since: "v1.0",
    help: "Leader election.",
    inert: needsKubernetes("false"),
  },
  {
    name: "allow-experimental-plugins",
    type: "bool",
    default: "false",
    since: "HEAD",
    help: "Permit alpha plugins in the configuration.",
  },
  {
    name: "tracing",
    type: "bool",
    default: "true",
    since: "v1.5",
    help: "OpenTelemetry.",
    inert: ignored("tracing is not supported yet", "false"),
  },
] as const satisfies readonly FlagRow[];
