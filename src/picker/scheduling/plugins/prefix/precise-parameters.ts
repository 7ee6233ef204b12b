import { z } from "zod";
import { parseDuration } from "../../../../base/document/duration.ts";
import { parseQuantity } from "../../../../base/document/quantity.ts";
import { messageOf } from "../../../../base/inference/errors.ts";
import { parseLabelSelector } from "../../../../base/inference/label-selector.ts";
import type { FeedSettings } from "../../../kv-events/event-feed.ts";
import { MAX_NAMED_TIERS } from "../../../kv-events/tiers.ts";

/** The most pairs of block and endpoint, whatever the configuration says: 640 MiB at 40 bytes a pair. */
export const MOST_PAIRS = 2 ** 24;
/** Bytes that one pair counts for where the configuration gives the size in bytes. */
const BYTES_PER_PAIR = 40;
/** The default of `inMemoryConfig.size`. */
const DEFAULT_SIZE = 1e8;
/** Nanoseconds of a millisecond: Go writes durations as nanoseconds. */
const NANOSECONDS = 1e6;

const DEFAULT_BLOCK_TOKENS = 16;
const port = z.int().min(1).max(65_535);

/** A duration of Go as text, checked but not changed: companions parse parameters once more. */
function durationText(fallback: string) {
  return z
    .string()
    .default(fallback)
    .refine((text) => text === "" || isDuration(text), {
      message: "must be a duration above 0, such as 2s or 500ms",
    });
}

function isDuration(text: string): boolean {
  try {
    return parseDuration(text) > 0;
  } catch {
    return false;
  }
}

const tokenProcessorConfig = z
  .strictObject({
    blockSizeTokens: z.int().min(0).default(0),
    blockSize: z.int().min(0).optional(),
    hashSeed: z.string().default(""),
    hashAlgorithm: z.enum(["", "cbor-fnv", "xxh64"]).default(""),
  })
  .describe(
    "`blockSizeTokens` (16; older name `blockSize`): tokens of a block, the unit of matches. `hashSeed`: part of all keys. `hashAlgorithm` (`cbor-fnv` or `xxh64`): no effect, because keys stay in the process and Sluice has its own algorithm.",
  );

const size = z.string().refine(
  (text) => {
    try {
      return parseQuantity(text.replace(/B$/, "")) >= BYTES_PER_PAIR;
    } catch {
      return false;
    }
  },
  { message: "must be a size such as 2GiB" },
);

const kvBlockIndexConfig = z.strictObject({
  inMemoryConfig: z
    // Without a default here: a size that the configuration gives is kept, and the default shrinks with a memory limit.
    .strictObject({ size: z.number().min(1).optional(), podCacheSize: z.int().min(1).default(10) })
    .nullish(),
  costAwareMemoryConfig: z.strictObject({ size: size.default("2GiB") }).nullish(),
  redisConfig: z
    .never({
      error:
        "is not supported: each picker keeps the index in its memory; remove it, and the defaults of inMemoryConfig apply",
    })
    .optional(),
  enableMetrics: z.boolean().default(false),
  metricsLoggingInterval: z.union([z.number().min(0), durationText("")]).default(0),
});

const tier = z.strictObject({
  name: z.string().min(1).max(64),
  weight: z.number().min(0).max(1),
});

/** The parameter of the producer; the older scorer extends it. */
export const indexerConfig = z
  .strictObject({
    kvBlockIndexConfig: kvBlockIndexConfig.prefault({}),
    kvCacheBackendConfigs: z
      .array(tier)
      .max(MAX_NAMED_TIERS)
      .refine((tiers) => new Set(tiers.map(({ name }) => name.toLowerCase())).size === tiers.length, {
        message: "names a tier twice",
      })
      .default([
        { name: "gpu", weight: 1 },
        { name: "cpu", weight: 0.8 },
      ]),
    tokenizersPoolConfig: z
      .never({ error: "is not supported: configure a token-producer plugin, and remove it" })
      .optional(),
  })
  .describe(
    "`kvBlockIndexConfig`: `inMemoryConfig.size` (100000000) is the most pairs of block and endpoint. Sluice holds at most 16,777,216 pairs of 40 bytes. `costAwareMemoryConfig.size` (`2GiB`) is the limit in bytes instead. `enableMetrics` (false) shows the metrics of the index, and `metricsLoggingInterval` (0 = never) logs them. `kvCacheBackendConfigs` (`gpu` 1, `cpu` 0.8): the weight of a block by tier; other tiers weigh 1.",
  );

const kvEventsConfig = z
  .strictObject({
    topicFilter: z.string().max(256).default("kv@"),
    concurrency: z.int().min(1).default(4),
    engineType: z.enum(["", "vllm", "sglang"]).default("vllm"),
    zmqEndpoint: z
      .string()
      .default("")
      .refine((text) => text === "" || /^tcp:\/\/.+:(\d+|\*)$|^ipc:\/\/.+$/.test(text), {
        message: "must be an address to bind, such as tcp://0.0.0.0:5557",
      }),
    discoverPods: z.boolean().default(true),
    podDiscoveryConfig: z
      .strictObject({
        podLabelSelector: z
          .string()
          .default("")
          .superRefine((text, context) => {
            try {
              if (text !== "") parseLabelSelector(text);
            } catch (error) {
              context.addIssue({ code: "custom", message: messageOf(error) });
            }
          }),
        podNamespace: z.string().default(""),
        socketPort: port.default(5557),
        replaySocketPort: z.int().max(65_535).default(0),
      })
      .nullish(),
  })
  .describe(
    "`topicFilter` (`kv@`): topics begin with it. `discoverPods` (true): subscribe to each endpoint of the pool, at port `podDiscoveryConfig.socketPort` (5557) plus its rank. Missed events come from port `replaySocketPort` (0 = none) plus the rank. `podLabelSelector` and `podNamespace` limit the endpoints. `zmqEndpoint`: an address to bind, to which engines send. `engineType` (`vllm`, `sglang`): either value reads the events of both.",
  );

/** Parameters of `precise-prefix-cache-producer` and of the older scorer (scheduling 3.14). */
export const preciseParameters = {
  tokenProcessorConfig: tokenProcessorConfig.nullish(),
  indexerConfig: indexerConfig.prefault({}),
  kvEventsConfig: kvEventsConfig.prefault({}),
  speculativeIndexing: z
    .boolean()
    .default(false)
    .describe("Count the blocks of a routed prompt at its endpoint even before the engine announces them."),
  speculativeTTL: durationText("2s").describe("How long blocks count that the engine has not announced."),
};

const schema = z.strictObject(preciseParameters);
export type PreciseParameters = z.output<typeof schema>;

/** The parameters as the producer uses them. */
export interface PreciseSettings {
  readonly blockTokens: number;
  readonly seed: string;
  readonly maxPairs: number;
  readonly hasMetrics: boolean;
  /** Milliseconds; 0 = never. */
  readonly logInterval: number;
  /** Milliseconds; 0 = no speculation. */
  readonly speculativeTtl: number;
}

/** Reads the parameters. @param indexBytes as `PluginContext.indexBytes` */
export function preciseSettings(parameters: PreciseParameters, indexBytes?: number): PreciseSettings {
  const { indexerConfig, speculativeIndexing, speculativeTTL } = parameters;
  const { enableMetrics, metricsLoggingInterval } = indexerConfig.kvBlockIndexConfig;
  const { blockSizeTokens = 0, blockSize = 0, hashSeed = "" } = parameters.tokenProcessorConfig ?? {};
  return {
    blockTokens: blockSizeTokens || blockSize || DEFAULT_BLOCK_TOKENS,
    seed: hashSeed,
    maxPairs: Math.max(1, Math.min(MOST_PAIRS, pairsOf(parameters, indexBytes))),
    hasMetrics: enableMetrics,
    logInterval: enableMetrics ? millisecondsOf(metricsLoggingInterval) : 0,
    speculativeTtl: speculativeIndexing ? parseDuration(speculativeTTL || "2s") : 0,
  };
}

function pairsOf({ indexerConfig }: PreciseParameters, indexBytes = Number.POSITIVE_INFINITY): number {
  const { costAwareMemoryConfig: inBytes, inMemoryConfig } = indexerConfig.kvBlockIndexConfig;
  if (inBytes) return Math.floor(parseQuantity(inBytes.size.replace(/B$/, "")) / BYTES_PER_PAIR);
  return inMemoryConfig?.size ?? Math.min(DEFAULT_SIZE, Math.floor(indexBytes / BYTES_PER_PAIR));
}

function millisecondsOf(interval: string | number): number {
  if (typeof interval === "number") return interval / NANOSECONDS;
  return interval === "" ? 0 : parseDuration(interval);
}

/** Notes for the author of a configuration. */
export function preciseNotes(parameters: PreciseParameters): string[] {
  const notes: string[] = [];
  const { inMemoryConfig } = parameters.indexerConfig.kvBlockIndexConfig;
  const { size = 0 } = inMemoryConfig ?? {};
  const { concurrency, zmqEndpoint, discoverPods } = parameters.kvEventsConfig;
  // The default is a larger number, too, but nobody has asked for it.
  if (size > MOST_PAIRS) notes.push(`inMemoryConfig.size ${size} counts as ${MOST_PAIRS}`);
  if (inMemoryConfig && inMemoryConfig.podCacheSize !== 10)
    notes.push("podCacheSize has no effect: Sluice keeps all endpoints of a block, with one bit for each");
  if (concurrency !== 4) notes.push("concurrency has no effect: one thread reads all events");
  if (zmqEndpoint === "" && !discoverPods)
    notes.push("no event can arrive: give zmqEndpoint, or set discoverPods to true");
  return notes;
}

/** Returns which publishers the picker hears, and where. */
export function feedSettings({ kvEventsConfig }: PreciseParameters): FeedSettings {
  const { topicFilter, zmqEndpoint, discoverPods, podDiscoveryConfig } = kvEventsConfig;
  const {
    podLabelSelector = "",
    podNamespace = "",
    socketPort = 5557,
    replaySocketPort = 0,
  } = podDiscoveryConfig ?? {};
  const selects = podLabelSelector === "" ? undefined : parseLabelSelector(podLabelSelector);
  return {
    topicFilter,
    bind: zmqEndpoint === "" ? undefined : zmqEndpoint,
    perEndpoint: discoverPods
      ? {
          port: socketPort,
          replayPort: replaySocketPort > 0 ? replaySocketPort : undefined,
          selects: ({ labels, namespace }) =>
            (podNamespace === "" || namespace === podNamespace) && selects?.(labels) !== false,
        }
      : undefined,
  };
}
