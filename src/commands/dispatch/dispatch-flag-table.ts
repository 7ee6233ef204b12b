import { flagsHelp, flagsMarkdown, legacyMarkdown } from "../common/flag-text.ts";
import type { FlagRow } from "../common/go-flags.ts";
import { LOG_FLAGS } from "../common/log-flags.ts";
import { LEGACY_FLAGS } from "./dispatch-legacy-table.ts";

const PORT = { type: "int", min: 0, max: 65535 } as const;
/** The flag exists since the first release of the reference. */
const FIRST = { since: "v0.1" } as const;
const FILE = { type: "string", takes: "FILE", default: "" } as const;

/** The format of the reference's log: for people by default (async-processor 8.1). */
const [VERBOSITY, ENCODER, LEVEL, DEVEL, TIME, STACKTRACE] = LOG_FLAGS;
const DISPATCH_LOG_FLAGS = [
  { ...VERBOSITY, ...FIRST, help: `${VERBOSITY.help} Without the flag, the environment variable LOG_LEVEL applies.` },
  {
    ...ENCODER,
    ...FIRST,
    help: "Format of log lines: JSON, or text with tabs between the parts; console unless --zap-devel=false.",
  },
  { ...LEVEL, ...FIRST },
  { ...DEVEL, ...FIRST, default: "true", help: "false = --zap-encoder=json, unless --zap-encoder is given." },
  { ...TIME, ...FIRST },
  { ...STACKTRACE, ...FIRST },
] as const satisfies readonly FlagRow[];

/** Every current flag of the reference's Async Processor, and Sluice's own flags (async-processor 8.1). */
export const DISPATCH_FLAGS = [
  {
    ...FILE,
    name: "config",
    since: "ours",
    help: "dispatch.yaml: these flags by name; transport-config, pool-config, request-merge-policy-config and transform-config with the content of the files; plugins: a list of modules with gates and metric sources. Flags override the file; its relative paths start at its folder.",
  },
  {
    name: "transport",
    takes: "redis-sortedset|redis-pubsub|gcp-pubsub|sqlite",
    type: "string",
    default: "redis-pubsub",
    since: "HEAD",
    help: "Store of the queues. redis-pubsub, the reference's default, stores no messages; sqlite keeps the queues in a file.",
  },
  {
    name: "transport-config",
    secret: true,
    takes: "JSON",
    type: "string",
    default: "",
    since: "HEAD",
    help: "Configuration of the transport, as JSON or YAML.",
  },
  {
    ...FILE,
    name: "transport-config-file",
    since: "HEAD",
    help: "File with the configuration of the transport; give this flag or --transport-config.",
  },
  {
    name: "concurrency",
    type: "int",
    min: 1,
    max: 100_000,
    default: "64",
    since: "v0.1",
    help: "Workers of the default pool: its most requests in flight. With a pool file, each pool has its own number.",
  },
  {
    ...FILE,
    name: "pool-config-file",
    since: "v0.7",
    help: "Worker pools: a list of {id, workers, gate_type, gate_params}. Without the flag there is one pool, named default.",
  },
  {
    ...FILE,
    name: "request-merge-policy-config-file",
    since: "HEAD",
    help: "The order of requests of several queues, {type, parameters}; default random-robin.",
  },
  {
    ...FILE,
    name: "request-merge-policy-config",
    since: "v0.7",
    help: "The same.",
    deprecated: "use --request-merge-policy-config-file, which overrides this flag",
  },
  {
    ...FILE,
    name: "transform-config-file",
    since: "v0.7",
    help: "Transforms of request bodies, {requestTransforms: [{name, type, parameters}]}.",
  },
  {
    name: "request-timeout",
    type: "duration",
    min: 1,
    default: "5m",
    since: "v0.7",
    help: "Longest time of one attempt; retries follow until the deadline of the request.",
  },
  {
    name: "drain-timeout",
    type: "duration",
    min: 0,
    default: "2m",
    since: "v0.7",
    help: "Time for requests in flight after SIGTERM; then their messages return to their queues.",
  },
  {
    name: "bind-address",
    takes: "IP",
    type: "string",
    default: "0.0.0.0",
    since: "ours",
    help: "IP address that both ports listen on; :: for IPv6 and IPv4.",
  },
  {
    ...PORT,
    name: "health-port",
    default: "8081",
    since: "v0.7",
    help: "Port of /healthz and /readyz; 0 = any free port.",
  },
  {
    ...PORT,
    name: "metrics-port",
    default: "9090",
    since: "v0.1",
    help: "Port of /metrics and /debug; 0 = any free port.",
  },
  {
    name: "metrics-endpoint-auth",
    type: "bool",
    default: "true",
    since: "v0.1",
    help: "Authentication of /metrics by Kubernetes: not supported. An explicit true is an error; otherwise /metrics answers every client, /debug only loopback clients.",
  },
  {
    name: "metrics-backlog-poll-interval",
    type: "duration",
    min: 0,
    default: "15s",
    since: "v0.7",
    help: "Time between reads of the backlog; 0 = never.",
  },
  {
    ...FILE,
    name: "tls-ca-cert",
    since: "v0.7",
    help: "PEM file of CA certificates that Sluice trusts for gateways, besides those of the system.",
  },
  { ...FILE, name: "tls-cert", since: "v0.7", help: "Client certificate (PEM) for gateways; needs --tls-key." },
  { ...FILE, name: "tls-key", since: "v0.7", help: "Private key (PEM) of --tls-cert, without a passphrase." },
  {
    name: "tls-insecure-skip-verify",
    type: "bool",
    default: "false",
    since: "v0.7",
    help: "Accept any certificate of a gateway.",
  },
  {
    name: "prometheus-url",
    takes: "URL",
    type: "string",
    default: "",
    since: "v0.6",
    help: "Prometheus for the prometheus gates, such as http://prometheus:9090.",
  },
  {
    name: "prometheus-cache-ttl",
    type: "duration",
    min: 0,
    default: "5s",
    since: "v0.7",
    help: "How long a gate uses an answer of Prometheus before the next query; 0 = a query each time.",
  },
  {
    name: "allow-unknown-gates",
    type: "bool",
    default: "false",
    since: "ours",
    help: "A gate of an unknown type is always open, as in the reference; without the flag, an unknown type is an error.",
  },
  {
    ...FILE,
    name: "gateway-key-file",
    since: "ours",
    help: "File with a key of the gateways (sluice keys), sent as Authorization: Bearer. An Authorization header of the message, or credentials in the URL of the queue, override this key. Without the flag, Sluice uses the environment variable SLUICE_GATEWAY_KEY.",
  },
  {
    name: "deadline-header",
    takes: "NAME",
    type: "string",
    default: "",
    since: "ours",
    help: "Request header for the gateway with the milliseconds until the deadline; empty = no header.",
  },
  {
    name: "max-response-bytes",
    type: "quantity",
    min: 1,
    // JSON text is at most six times as long. Node can still hold that string, and Redis that value.
    max: 80 * 1024 * 1024,
    default: "64Mi",
    since: "ours",
    help: "Largest accepted answer of a gateway.",
  },
  {
    name: "replica-count",
    type: "int",
    min: 1,
    max: 10_000,
    default: "1",
    since: "ours",
    help: "Number of dispatchers with this configuration: each uses an equal part of the capacities that gates report.",
  },
  {
    name: "debug-open",
    type: "bool",
    default: "false",
    since: "ours",
    help: "Let /debug answer every client, not only loopback.",
  },
  ...DISPATCH_LOG_FLAGS,
] as const satisfies readonly FlagRow[];

/** The text of `sluice dispatch --help`. */
export function dispatchHelp(): string {
  return [
    "Usage: sluice dispatch --config FILE [flags]\n",
    "The Async Processor: takes requests from persistent queues, sends them to a gateway when the gateway has room, and writes one\n",
    "result for each. Start with a copy of examples/dispatch.yaml.\n\n",
    "Flags are written -name value, --name value or --name=value.\n\n",
    flagsHelp(DISPATCH_FLAGS),
    "\nThe reference's older flags (--message-queue-impl, --redis.*, --redis.ss.*, --pubsub.*) work, with a warning; they are\n",
    "listed in docs/reference/flags.md.\n",
  ].join("");
}

/** The flags of `sluice dispatch` for docs/reference/flags.md, below a heading of the second level. */
export function dispatchReference(): string {
  return `## \`sluice dispatch\`

Written \`-name value\`, \`--name value\` or \`--name=value\`; a bare boolean is true. Durations are Go's (\`50ms\`, \`1m30s\`). In the
file of \`--config\` the same names are keys, without dashes before them. There \`transport-config\`, \`pool-config\`,
\`request-merge-policy-config\` and \`transform-config\` hold the content of the reference's files. \`plugins\` is a list of
modules. The command line overrides the file, the file overrides the environment. "Since" is the release of the reference that
introduced the flag.

Exit status 2: an unknown or malformed flag. Exit status 1: flags that exclude each other, or an error in a file.

${flagsMarkdown(DISPATCH_FLAGS)}
### Older flags

They work, with a warning. If \`--transport\`, \`--transport-config\` or \`--transport-config-file\` is given, they have no effect, with
another warning.

${legacyMarkdown(LEGACY_FLAGS)}
### Environment of \`sluice dispatch\`

| Variable | Meaning |
|---|---|
| \`REDIS_URL\` | The Redis server, when the configuration of the transport has no \`url\`. |
| \`LOG_LEVEL\` | The log level without \`-v\` and \`--zap-log-level\`: trace, debug, info, warn, error or a number as for \`-v\`. |
| \`OTEL_EXPORTER_OTLP_ENDPOINT\` | Address for traces; without it, Sluice sends no traces. The other \`OTEL_\` variables are the standard's. |
`;
}
