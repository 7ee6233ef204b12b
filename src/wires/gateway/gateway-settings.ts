import { z } from "zod";
import { duration } from "../../base/document/duration-schema.ts";
import { quantity } from "../../base/document/quantity.ts";
import { parseListenAddress } from "../../base/inference/listen-address.ts";
import { LEAST_MEMORY } from "../../base/process/memory-plan.ts";
import { SHARED_NAME, SHARED_NAME_FORM, sharedStoreAddress } from "../../base/redis/shared-store.ts";
import { BUILT_IN_PROFILES } from "../../picker/config/defaults.ts";
import { limitsSection } from "../../picker/limits/limits-settings.ts";
import { endpointsSettings } from "../../pool/discovery/endpoints-settings.ts";
import { MODEL_MATCHING, STANDARD_SHED_AT } from "../../pool/resources/resolve.ts";
import { KeysSettings } from "../access/keys-settings.ts";
import { DEFAULT_LIMITS, DEFAULT_TIMERS } from "../proxy/options.ts";
import { allowedPath } from "../proxy/path-pattern.ts";
import { batchSettings } from "./batch-settings.ts";
import { corsSchema } from "./cors-settings.ts";
import { listenersSchema } from "./listener-settings.ts";
import { LONGEST_STREAM_REST } from "./longest-stream-rest.ts";
import { readBy } from "./read-by.ts";
import { requestLogEvery, WHICH_REQUESTS } from "./request-log-which.ts";
import { serversSchema } from "./server-tls-settings.ts";

/** The most bytes that a size can be: far more than the memory of a process. */
const MOST_BYTES = 2 ** 40;
/** The least bytes of the budget: one read of a socket. */
const LEAST_BUDGET = 64 * 1024;
const LEAST_WINDOW = 100;
const MOST_OBJECTIVES = 1000;
const MOST_RECORDS_EVERY = 1_000_000_000;
const MAX_PATHS = 1000;
const MAX_SHED_AT = 1_000_000;
/** The bounds of the number of client connections. */
const LEAST_CONNECTIONS = 4;
const MOST_CONNECTIONS = 1_000_000;

const address = z.string().transform(readBy((text) => parseListenAddress(text, "the address")));

function bytes(least: number) {
  return quantity().pipe(z.number().min(least).max(MOST_BYTES));
}

/** A mapping that may be absent: then each of its keys has its default. */
function section<S extends z.ZodRawShape>(shape: S) {
  return z.strictObject(shape);
}

const connections = section({
  max: z
    .int()
    .min(LEAST_CONNECTIONS)
    .max(MOST_CONNECTIONS)
    .default(DEFAULT_LIMITS.connections)
    .describe("The most client connections at once."),
  perAddress: z
    .int()
    .min(1)
    .max(MOST_CONNECTIONS)
    .optional()
    .describe("The most client connections of one address at once; absent = half of `max`."),
}).superRefine(({ max, perAddress }, context) => {
  if (perAddress !== undefined && perAddress > max)
    context.addIssue({ code: "custom", path: ["perAddress"], message: `is more than \`max\` (${max})` });
});

const streams = section({
  rest: duration()
    .pipe(z.number().max(LONGEST_STREAM_REST, `must be at most ${LONGEST_STREAM_REST} ms`))
    .prefault(`${DEFAULT_TIMERS.streamRest}ms`)
    .describe("With 16 or more event streams, the gateway may send chunks within this time together; 0s = never."),
});

const drain = section({
  timeout: duration()
    .prefault("0s")
    .describe("Time after SIGTERM in which the gateway is not ready but still takes requests."),
});

const admin = section({
  address: address.prefault("127.0.0.1:19001").describe("The address of /metrics, /debug and the page."),
  open: z.boolean().default(false).describe("Let /debug and the page answer every client, not only loopback."),
  prometheus: z
    .string()
    .max(2048)
    .optional()
    .describe("The address of a Prometheus, from which the page reads spans above 15 minutes; absent = none."),
});

const scaler = section({
  address: address.optional().describe("The address of the external scaler for KEDA; absent = none."),
});

const peers = section({
  redis: z
    .string()
    .superRefine(readBy((url) => void sharedStoreAddress(url, "replicas")))
    .optional()
    .describe(
      "URL of the Redis or Valkey through which replicas share their load and what they placed; absent = each gateway knows only its own requests.",
    ),
  name: z
    .string()
    .regex(SHARED_NAME, SHARED_NAME_FORM)
    .optional()
    .describe("Replicas with the same name share; absent = `default`."),
  ca: z.string().min(1).optional().describe("Authorities of the store's certificate, PEM."),
  certificate: z.string().min(1).optional().describe("The certificate that the gateway shows to the store, PEM."),
  key: z.string().min(1).optional().describe("The key of that certificate, PEM."),
});

const picker = section({
  configFile: z.string().min(1).optional().describe("The file of an EndpointPickerConfig; watched for changes."),
  profile: z.enum(BUILT_IN_PROFILES).optional().describe("A built-in profile."),
  config: z.record(z.string(), z.unknown()).optional().describe("An EndpointPickerConfig, inline."),
  allowExperimentalPlugins: z.boolean().default(false).describe("Permit alpha plugins."),
}).superRefine(({ configFile, profile, config }, context) => {
  const given = Object.entries({ configFile, profile, config }).filter(([, value]) => value !== undefined);
  if (given.length > 1)
    context.addIssue({
      code: "custom",
      path: [given[1]![0]],
      message: "give at most one of `configFile`, `profile` and `config`",
    });
});

const objectives = z
  .record(z.string().regex(/^[^\s=]{1,253}$/, "must be a name without blanks and `=`"), z.int())
  .refine((table) => Object.keys(table).length <= MOST_OBJECTIVES, `must not have more than ${MOST_OBJECTIVES} names`);

const resources = section({
  folder: z
    .string()
    .min(1)
    .optional()
    .describe("The folder of manifests of InferencePool, InferenceModel and the like; watched for changes."),
  poolName: z.string().min(1).optional().describe("The name of the InferencePool; required if there are several."),
  poolNamespace: z
    .string()
    .min(1)
    .optional()
    .describe("The namespace of the pool, and of manifests without a namespace."),
  modelMatching: z
    .enum(MODEL_MATCHING)
    .default("auto")
    .describe("Whether a model name without an InferenceModel gets 404; auto = 404 once the pool has InferenceModels."),
  standardShedAt: z
    .number()
    .min(1)
    .max(MAX_SHED_AT)
    .default(STANDARD_SHED_AT)
    .describe(
      "Without flow control: the saturation from which requests for InferenceModels of Standard criticality get 429.",
    ),
  legacyCriticality: z
    .boolean()
    .default(false)
    .describe("Refuse requests of Standard criticality from saturation 1, like Sheddable ones, as v0.3 did."),
}).superRefine(({ folder, ...rest }, context) => {
  if (folder !== undefined) return;
  const isIdle = { modelMatching: "auto", standardShedAt: STANDARD_SHED_AT, legacyCriticality: false } as const;
  for (const [key, value] of Object.entries(rest))
    if (value !== undefined && value !== isIdle[key as keyof typeof isIdle])
      context.addIssue({ code: "custom", path: [key], message: "applies to API objects; it needs `folder`" });
});

const retries = section({
  max: z.int().min(0).max(7).default(2).describe("Retries on another endpoint when one fails before its answer."),
  statuses: z.array(z.int().min(400).max(599)).max(200).default([503]).describe("Statuses that cause a retry."),
});

const paths = section({
  allow: z
    .array(z.string().refine(isAllowable, "must be a path such as /load_lora_adapter, or a prefix that ends in /*"))
    .max(MAX_PATHS)
    .default([])
    .describe("Dangerous: also pass requests to these paths of administration."),
});

const memory = section({
  limit: bytes(0)
    .refine((size) => size === 0 || size >= LEAST_MEMORY, "must be 192Mi or more, or 0 for no limit")
    .optional()
    .describe(
      "The memory for the process: the defaults of `bodies`, the prompt indexes and the heap growth depend on it. 0 = no limit; absent = the limit of the cgroup.",
    ),
});

const bodies = section({
  budget: bytes(LEAST_BUDGET).prefault("256Mi").describe("The byte budget of all bodies except small ones."),
  small: bytes(0).prefault("64Ki").describe("The largest size of a small body; 0 = no body is small."),
  smallReserve: bytes(0).prefault("64Mi").describe("The byte budget of all small bodies."),
  minRate: bytes(0)
    .prefault("1Ki")
    .describe("The lowest rate of a body, in bytes per second, while memory is short; 0 = no limit."),
  stallWindow: duration({ min: LEAST_WINDOW })
    .prefault("10s")
    .describe("How long a body may stay below `minRate`; then the request gets 408."),
}).superRefine(({ small, smallReserve }, context) => {
  if (small > smallReserve)
    context.addIssue({
      code: "custom",
      path: ["small"],
      message: `is ${small} bytes, more than \`smallReserve\` holds (${smallReserve} bytes)`,
    });
});

const requests = section({
  which: z
    .string()
    .refine((text) => requestLogEvery(text) !== "wrong", WHICH_REQUESTS)
    .default("errors")
    .describe(
      "The requests that get a log line: off, errors, all, or 1/N (all errors, and one in N of the other requests).",
    ),
  file: z.string().min(1).default("-").describe("The file for the log of requests; - = stdout."),
}).superRefine(({ which, file }, context) => {
  if (which === "off" && file !== "-")
    context.addIssue({
      code: "custom",
      path: ["file"],
      message: "has no effect with `which: off`; set `which` to errors, all or 1/N",
    });
});

const log = section({
  level: z.enum(["error", "warn", "info", "debug"]).default("info").describe("The lowest level of log lines."),
  format: z
    .enum(["json", "console"])
    .optional()
    .describe("The format of log lines and ready lines; absent = JSON for log lines, text for ready lines."),
  requests: requests.prefault({}).describe("The log of requests."),
});

const explain = section({
  decisionHeader: z.boolean().default(false).describe("Let a request ask for its decision by x-sluice-explain: 1."),
  fullRecordsEvery: z
    .int()
    .min(0)
    .max(MOST_RECORDS_EVERY)
    .default(256)
    .describe("Keep a full record of one decision in N; 0 = only for requests that ask for a record."),
});

/** The content of a gateway.yaml: one line for each section. */
export const gatewaySettings = z.strictObject({
  listeners: listenersSchema
    .prefault([{ address: "127.0.0.1:8080" }])
    .describe("The addresses for clients, each with or without TLS."),
  connections: connections.prefault({}).describe("Limits of client connections."),
  keys: KeysSettings.prefault({}).describe("The keys and tokens of clients."),
  limits: limitsSection.prefault({}).describe("Limits of requests and tokens by key and model."),
  cors: corsSchema.optional().describe("Which pages of other origins may use the gateway; absent = none."),
  servers: serversSchema.prefault({}).describe("Connections to model servers."),
  streams: streams.prefault({}).describe("How the gateway forwards event streams."),
  drain: drain.prefault({}).describe("How the gateway ends after SIGTERM."),
  admin: admin.prefault({}).describe("Health, metrics, /debug and the page."),
  peers: peers.prefault({}).describe("Replicas that share what they know."),
  scaler: scaler.prefault({}).describe("The external scaler for KEDA."),
  endpoints: endpointsSettings.optional().describe("The model servers: one of file, list, dns and slurm."),
  picker: picker.prefault({}).describe("How an endpoint is chosen: at most one of configFile, profile and config."),
  objectives: objectives
    .default({})
    .describe(
      "The priority of each objective by name. A saturated pool refuses requests of a priority below 0, unless flow control is on.",
    ),
  resources: resources.prefault({}).describe("API objects of Kubernetes, from files."),
  retries: retries.prefault({}).describe("Attempts after the first one."),
  paths: paths.prefault({}).describe("Paths that reach model servers."),
  memory: memory.prefault({}).describe("The memory of the process."),
  bodies: bodies.prefault({}).describe("Limits of the bytes of bodies in memory."),
  batch: batchSettings.prefault({}).describe("OpenAI's Batch API beside live traffic."),
  log: log.prefault({}).describe("Log lines, and the log of requests."),
  explain: explain.prefault({}).describe("Records and headers that explain decisions."),
  learnBytesPerToken: z.boolean().default(true).describe("Learn the bytes per token of each model from answers."),
});

/** All settings of a gateway, each with its value or its default. */
export type GatewaySettings = z.output<typeof gatewaySettings>;

function isAllowable(text: string): boolean {
  try {
    allowedPath(text);
    return true;
  } catch {
    return false;
  }
}
