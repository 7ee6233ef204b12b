import { z } from "zod";
import { explainIssue } from "../../base/document/validate.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { type LoraModule, parseLoraModule } from "./adapters.ts";
import { FAILURE_TYPES } from "./api-error.ts";
import { DEFAULT_ENGINE } from "./engine.ts";
import { DEFAULT_LATENCY as L } from "./latency.ts";
import {
  choice,
  durationOption,
  flag,
  integer,
  list,
  type OptionMeta,
  type OptionType,
  real,
  textOption,
} from "./option-types.ts";

const BIG = 2 ** 31 - 1;
const LIVE = { live: true };
const FAULT = { fault: true };

/**
 * Every option of `sluice sim` under its reference name (envoy-data-plane 5.1, 5.3); "(only in Sluice)" marks the others.
 */
const SHAPE = {
  host: textOption("0.0.0.0", "address to listen on"),
  port: integer(8000, 0, 65535, "first port to listen on; 0 = any free port"),
  instances: integer(1, 1, 64, "servers in one process, on consecutive ports (only in Sluice)"),
  "data-parallel-size": integer(1, 1, 8, "data-parallel ranks; rank i listens on port + i"),
  model: textOption("sim", "name of the base model"),
  "served-model-name": list(
    z.string().min(1),
    "names that clients may use for the base model; the simulator reports the first name",
  ),
  engine: choice(
    ["vllm", "sglang", "trtllm-serve", "triton-tensorrt-llm"],
    "vllm",
    "engine whose metric names /metrics uses: vllm, sglang, trtllm-serve or triton-tensorrt-llm; except for vllm, the page shows only the load (only in Sluice)",
  ),
  mode: choice(["random", "echo"], "random", "text of the answers: fixed sentences (random) or the prompt (echo)"),
  seed: integer(
    1,
    0,
    2 ** 32 - 1,
    "seed of all random values: with the same seed, the same requests get the same answers and timings",
  ),
  "max-model-len": integer(DEFAULT_ENGINE.maxModelLen, 2, BIG, "context window in tokens, prompt and answer together"),
  "max-num-seqs": integer(DEFAULT_ENGINE.maxNumSeqs, 1, 65536, "sequences that run at the same time"),
  "max-waiting-queue-length": integer(
    DEFAULT_ENGINE.maxWaitingQueueLength,
    0,
    1_000_000,
    "sequences that may wait; one more gets a 429",
  ),
  "max-request-body-size-mb": integer(64, 1, 1024, "largest request body in MiB; more gets a 413"),

  "lora-modules": list(z.string(), 'adapters known from the start: {"name": ..., "path": ...} or name=path'),
  "max-loras": integer(DEFAULT_ENGINE.maxLoras, 1, 1024, "distinct adapters in the running batch"),
  "max-cpu-loras": integer(
    0,
    0,
    1024,
    "adapters kept in memory, 0 or at least max-loras; the simulator only checks the value",
  ),

  "enable-kvcache": flag(DEFAULT_ENGINE.enableKvcache, "cache prompt prefixes, and reuse them"),
  "kv-cache-size": integer(DEFAULT_ENGINE.kvCacheSize, 1, 2 ** 24, "blocks in the KV cache"),
  "block-size": integer(DEFAULT_ENGINE.blockSize, 1, 1024, "tokens per KV block"),
  "kv-events": textOption(
    "",
    "ZeroMQ address for KV-cache events in vLLM's form. The simulator listens on an address with * (each further server adds 1 to the port), and connects to any other address. Empty = none; needs the package zeromq (only in Sluice)",
  ),
  "kv-events-replay": textOption(
    "",
    "ZeroMQ address to listen on for replays of these events; empty = none (only in Sluice)",
  ),
  "hash-seed": textOption(DEFAULT_ENGINE.hashSeed, "seed of the block hashes (environment: PYTHONHASHSEED)"),

  "latency-calculator": choice(
    ["", "constant", "per-token"],
    L.latencyCalculator,
    "formula of the time to first token; empty = constant if time-to-first-token is set, else per-token",
    LIVE,
  ),
  "time-to-first-token": durationOption(L.timeToFirstToken, "time to first token of the constant formula", LIVE),
  "time-to-first-token-std-dev": durationOption(
    L.timeToFirstTokenStdDev,
    "standard deviation of the time to first token, at most 30 %",
    LIVE,
  ),
  "inter-token-latency": durationOption(L.interTokenLatency, "time between two tokens", LIVE),
  "inter-token-latency-std-dev": durationOption(
    L.interTokenLatencyStdDev,
    "standard deviation of the time between two tokens, at most 30 %",
    LIVE,
  ),
  "prefill-overhead": durationOption(L.prefillOverhead, "fixed part of the prefill time", LIVE),
  "prefill-time-per-token": durationOption(
    L.prefillTimePerToken,
    "prefill time of each prompt token not found in the cache",
    LIVE,
  ),
  "prefill-time-std-dev": durationOption(L.prefillTimeStdDev, "standard deviation of the whole prefill time", LIVE),
  "kv-cache-transfer-latency": durationOption(
    L.kvCacheTransferLatency,
    "time to first token after a remote prefill, constant formula",
    LIVE,
  ),
  "kv-cache-transfer-latency-std-dev": durationOption(
    L.kvCacheTransferLatencyStdDev,
    "standard deviation of the time to first token after a remote prefill, at most 30 %",
    LIVE,
  ),
  "kv-cache-transfer-time-per-token": durationOption(
    L.kvCacheTransferTimePerToken,
    "time to first token after a remote prefill, for each prompt token, per-token formula",
    LIVE,
  ),
  "kv-cache-transfer-time-std-dev": durationOption(
    L.kvCacheTransferTimeStdDev,
    "standard deviation of the whole KV transfer",
    LIVE,
  ),
  "time-factor-under-load": real(
    L.timeFactorUnderLoad,
    1,
    1000,
    "slow-down while every slot is in use, relative to a single sequence",
    LIVE,
  ),
  "time-scale": real(L.timeScale, 1e-6, 1e6, "multiplies every duration above (only in Sluice)", LIVE),

  "failure-injection-rate": real(0, 0, 100, "percentage of requests that fail", FAULT),
  "failure-types": list(
    z.enum(FAILURE_TYPES),
    `kinds of failures to inject, by default all: ${FAILURE_TYPES.join(", ")}`,
    FAULT,
  ),
  "fail-connect": flag(false, "accept connections, but reset each at its first request (only in Sluice)", FAULT),
  "drop-after-tokens": integer(-1, -1, BIG, "reset the connection after N tokens, -1 = never (only in Sluice)", FAULT),
  "stall-after-tokens": integer(
    -1,
    -1,
    BIG,
    "stop sending after N tokens, but keep the connection open; -1 = never (only in Sluice)",
    FAULT,
  ),
  "slow-body-bytes-per-sec": integer(
    0,
    0,
    BIG,
    "bytes per second of response bodies, 0 = unlimited (only in Sluice)",
    FAULT,
  ),
  "error-until": integer(0, 0, BIG, "answer the first N requests with 503 (only in Sluice)", FAULT),
  "crash-after": durationOption(0, "exit this long after the start, 0 = never (only in Sluice)", FAULT),
  "startup-duration": durationOption(0, "answer /health/ready with 503 for this long"),

  "pod-name": textOption("", "header x-inference-pod of every response (environment: POD_NAME); default sim-PORT"),
  "pod-namespace": textOption("", "header x-inference-namespace of every response (environment: POD_NAMESPACE)"),
  "enable-request-id-headers": flag(false, "echo x-request-id"),
} as const;

const SCHEMA = z.strictObject(SHAPE);
/** Error messages for users of the command line, who do not know zod. */
const PLAIN_WORDS = { error: explainIssue, reportInput: true } as const;

type Camel<S extends string> = S extends `${infer A}-${infer B}` ? `${A}${Capitalize<Camel<B>>}` : S;
type Kebab = z.infer<typeof SCHEMA>;

/** The name of an option on the command line. */
type SimOptionName = keyof typeof SHAPE;

/** The options of one simulator under camel-case names; durations in milliseconds, `loraModules` parsed. */
export type SimOptions = Omit<{ readonly [K in keyof Kebab as Camel<K>]: Kebab[K] }, "loraModules"> & {
  readonly loraModules: readonly LoraModule[];
};

/** One row of the table of options. */
export interface SimOption extends OptionMeta {
  readonly name: SimOptionName;
  readonly type: OptionType;
  readonly default: string | number | boolean | readonly string[];
}

/** All options, for the command line and its help. */
export const SIM_OPTIONS: readonly SimOption[] = Object.entries(SHAPE).map(([name, field]) => ({
  ...(field.meta() as unknown as OptionMeta),
  name: name as SimOptionName,
  default: field.parse(undefined),
}));

const BY_NAME = new Map<string, SimOption>(SIM_OPTIONS.map((option) => [option.name, option]));

/** Flags of vLLM in existing manifests that have no effect here; each also with `no-` in front. */
export const IGNORED_VLLM_FLAGS: readonly string[] = [
  "enforce-eager",
  "tensor-parallel-size",
  "enable-prefix-caching",
  "mm-processor-kwargs",
  "ec-transfer-config",
].flatMap((name) => [name, `no-${name}`]);

/**
 * Options from texts or values by their option names; an absent option takes its default.
 * @param raw values as text or typed, `undefined` = absent; ignored vLLM flags are dropped
 * @param env environment: POD_NAME, POD_NAMESPACE and PYTHONHASHSEED replace absent options
 * @throws SluiceError SIM_OPTION: unknown name, wrong value, or contradictory values
 */
export function parseSimOptions(
  raw: Readonly<Record<string, unknown>>,
  env: Readonly<Record<string, string | undefined>> = {},
): SimOptions {
  const given: Record<string, unknown> = {
    "pod-name": env.POD_NAME,
    "pod-namespace": env.POD_NAMESPACE,
    "hash-seed": env.PYTHONHASHSEED,
  };
  for (const [name, value] of Object.entries(raw)) {
    if (value === undefined || IGNORED_VLLM_FLAGS.includes(name)) continue;
    given[name] = value;
  }
  return settle(given);
}

/** The options that `/admin/config` shows, by their option names. */
export function liveSettings(options: SimOptions): Record<string, unknown> {
  const settings: Record<string, unknown> = {};
  for (const { name, live } of SIM_OPTIONS) if (live) settings[name] = options[camel(name) as keyof SimOptions];
  return settings;
}

/**
 * `options` with some live settings changed: all of them or, on an error, none.
 * @throws SluiceError SIM_OPTION as `parseSimOptions`, also for an option that cannot change while the server runs
 */
export function withLiveSettings(options: SimOptions, changes: Readonly<Record<string, unknown>>): SimOptions {
  return merged(options, changes, (option) => option.live, "cannot be changed while the server runs");
}

/** `options` with some faults changed for one request; same errors as `withLiveSettings`. */
export function withFaults(options: SimOptions, changes: Readonly<Record<string, unknown>>): SimOptions {
  return merged(options, changes, (option) => option.fault, "cannot be set by a request");
}

function merged(
  options: SimOptions,
  changes: Readonly<Record<string, unknown>>,
  allowed: (option: SimOption) => boolean,
  otherwise: string,
): SimOptions {
  const result: Record<string, unknown> = { ...options };
  for (const [name, value] of Object.entries(changes)) {
    const option = BY_NAME.get(name);
    if (!option) throw new SluiceError("SIM_OPTION", `unknown option "${name}"`);
    if (!allowed(option)) throw new SluiceError("SIM_OPTION", `${name} ${otherwise}`);
    const parsed = SHAPE[option.name].safeParse(value, PLAIN_WORDS);
    if (!parsed.success) throw new SluiceError("SIM_OPTION", explain(name, value, parsed.error.issues[0]!.message));
    result[camel(name)] = parsed.data;
  }
  return consistent(result as unknown as SimOptions);
}

function settle(given: Record<string, unknown>): SimOptions {
  const parsed = SCHEMA.safeParse(given, PLAIN_WORDS);
  if (!parsed.success) {
    const issue = parsed.error.issues[0]!;
    if (issue.code === "unrecognized_keys") throw new SluiceError("SIM_OPTION", `unknown option "${issue.keys[0]}"`);
    const name = String(issue.path[0]);
    throw new SluiceError("SIM_OPTION", explain(name, given[name], issue.message));
  }
  const result: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(parsed.data)) result[camel(name)] = value;
  result.loraModules = parsed.data["lora-modules"].map(parseLoraModule);
  return consistent(result as unknown as SimOptions);
}

function explain(name: string, value: unknown, message: string): string {
  return message.includes("got ")
    ? `${name}: ${message}`
    : `${name}: ${message}, got ${JSON.stringify(value)?.slice(0, 200)}`;
}

/** Checks pairs of options. */
function consistent(o: SimOptions): SimOptions {
  const deviations = [
    ["time-to-first-token", o.timeToFirstToken, o.timeToFirstTokenStdDev],
    ["inter-token-latency", o.interTokenLatency, o.interTokenLatencyStdDev],
    ["kv-cache-transfer-latency", o.kvCacheTransferLatency, o.kvCacheTransferLatencyStdDev],
  ] as const;
  for (const [name, mean, deviation] of deviations) {
    // A mean of 0 switches the duration off, with any deviation.
    if (mean > 0 && deviation > 0.3 * mean + 1e-9) {
      throw new SluiceError("SIM_OPTION", `${name}-std-dev: ${deviation} ms is more than 30 % of ${name} (${mean} ms)`);
    }
  }
  if (o.maxCpuLoras !== 0 && o.maxCpuLoras < o.maxLoras) {
    throw new SluiceError("SIM_OPTION", `max-cpu-loras: ${o.maxCpuLoras} is less than max-loras (${o.maxLoras})`);
  }
  return o;
}

function camel(name: string): string {
  return name.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
