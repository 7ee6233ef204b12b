import { z } from "zod";
import type { Timer } from "../../../../base/clock/clock.ts";
import type { Endpoint } from "../../../../base/inference/endpoint.ts";
import { SluiceError } from "../../../../base/inference/errors.ts";
import type { InferenceRequest } from "../../../../base/inference/request.ts";
import { defineProducer } from "../../../../base/plugin/define.ts";
import { PREFIX_BLOCK_TOKENS, PREFIX_MATCHED_BLOCKS, PREFIX_TOTAL_BLOCKS } from "../../../../base/plugin/keys.ts";
import type { PluginContext, ProduceContext, Producer } from "../../../../base/plugin/kinds.ts";
import { BlockHasher, BlockHashes } from "../../../prefix/block-hash.ts";
import { type Placed, type PlacementSettings, place } from "./placement.ts";

/** Blocks of a prompt that count without `maxPrefixTokensToMatch`. */
const MAX_BLOCKS = 2048;
const MAX_WINDOW = 10_000;
/** Milliseconds of the preparation beyond the window. */
const MARGIN = 300;

const unlimited = (what: string) =>
  z.int().refine((value) => value === -1 || value >= 1, { error: `must be at least 1, or -1 for ${what}` });

const parameters = z
  .strictObject({
    windowDurationMs: z
      .int()
      .min(1, { error: "must be at least 1" })
      .max(MAX_WINDOW, { error: `must be at most ${MAX_WINDOW}` })
      .default(100)
      .describe("Length of a window in milliseconds, 1 to 10000. No request waits longer."),
    maxPerReplica: unlimited("no limit")
      .default(-1)
      .describe("The most requests with the same prompt that go to one endpoint in a window; -1 = all."),
    blockSizeTokens: z
      .int()
      .min(1, { error: "must be at least 1" })
      .default(64)
      .describe("Tokens per block, each token 4 bytes. Sluice compares prompts block by block."),
    maxPrefixTokensToMatch: z
      .int()
      .min(0, { error: "must not be negative" })
      .default(0)
      .describe("The most tokens of a prompt that Sluice compares; 0 = 2048 blocks."),
    minColocateBlocks: z
      .int()
      .min(0, { error: "must not be negative" })
      .default(0)
      .describe(
        "Leading blocks that different prompts must share to go to one endpoint; 0 = only equal prompts go to one endpoint.",
      ),
    maxBatchSize: unlimited("no limit")
      .default(1000)
      .describe("The most requests in a window. Further requests do not wait and go to any endpoint. -1 = no limit."),
    balanceBy: z
      .enum(["requests", "tokens", ""], { error: "must be requests or tokens" })
      .default("requests")
      .describe("The load that the endpoints share evenly: `requests`, or `tokens` to compute."),
  })
  .refine(
    ({ maxPrefixTokensToMatch, blockSizeTokens }) =>
      maxPrefixTokensToMatch === 0 || maxPrefixTokensToMatch >= blockSizeTokens,
    { path: ["maxPrefixTokensToMatch"], error: "must be 0 or at least blockSizeTokens" },
  );

/**
 * scheduling 3.10.5. Only readers that name it read it: it says where a prompt shall be computed, not where it is cached.
 */
export const burstPrefixCacheProducer = defineProducer({
  type: "burst-prefix-cache-producer",
  describe:
    "Holds each request for a short window, and sends all requests with the same prompt to one endpoint, which computes the prompt once. Name this producer in prefixMatchInfoProducerName of prefix-cache-scorer.",
  parameters,
  produces: [PREFIX_MATCHED_BLOCKS, PREFIX_TOTAL_BLOCKS, PREFIX_BLOCK_TOKENS],
  onlyByName: true,
  create: (settings, context) => new BurstPrefix(settings, context),
});

/** The requests of one window. `open` takes more; `sealed` waits for the first decision, which has candidates; `placed`. */
interface Batch {
  state: "open" | "sealed" | "placed";
  readonly entries: Entry[];
  readonly seals: (() => void)[];
  timer: Timer | undefined;
  /** The endpoints among which the requests were placed. */
  endpoints: readonly Endpoint[];
}

interface Entry extends Placed {
  readonly batch: Batch;
  /** The request needs no decision any more. */
  gone: boolean;
}

class BurstPrefix implements Producer {
  readonly prepareBudget: number;
  readonly #context: PluginContext;
  readonly #window: number;
  readonly #blockTokens: number;
  readonly #maxBlocks: number;
  readonly #maxBatch: number;
  readonly #placement: PlacementSettings;
  readonly #hasher: BlockHasher;
  readonly #hashes = new BlockHashes();
  #batch: Batch | undefined;

  constructor(settings: z.output<typeof parameters>, context: PluginContext) {
    const { windowDurationMs, blockSizeTokens, maxPrefixTokensToMatch, maxBatchSize, balanceBy } = settings;
    const { random } = context;
    this.#context = context;
    this.#window = windowDurationMs;
    this.prepareBudget = windowDurationMs + MARGIN;
    this.#blockTokens = blockSizeTokens;
    this.#maxBlocks = maxPrefixTokensToMatch === 0 ? MAX_BLOCKS : Math.floor(maxPrefixTokensToMatch / blockSizeTokens);
    this.#maxBatch = maxBatchSize === -1 ? Number.POSITIVE_INFINITY : maxBatchSize;
    this.#placement = {
      maxPerReplica: settings.maxPerReplica === -1 ? Number.POSITIVE_INFINITY : settings.maxPerReplica,
      minColocateBlocks: settings.minColocateBlocks,
      balanceBy: balanceBy || "requests",
    };
    this.#hasher = new BlockHasher(random.below(2 ** 32), random.below(2 ** 32));
  }

  /** Waits for the end of the window. @throws SluiceError BURST_FULL */
  prepare(request: InferenceRequest, signal: AbortSignal): Promise<Entry> {
    const batch = this.#batch ?? this.#open();
    if (batch.entries.length >= this.#maxBatch)
      throw new SluiceError("BURST_FULL", `${this.#maxBatch} requests already wait in this window (maxBatchSize)`);
    this.#hasher.hash(request, this.#blockTokens, this.#maxBlocks, this.#hashes);
    const entry: Entry = { hashes: this.#hashes.copy(), replica: undefined, batch, gone: false };
    batch.entries.push(entry);
    signal.addEventListener("abort", () => {
      entry.gone = true;
    });
    return new Promise((resolve) => {
      batch.seals.push(() => resolve(entry));
    });
  }

  produce({ request, prepared, candidates }: ProduceContext): void {
    const entry = prepared as Entry | undefined;
    if (entry === undefined) return;
    const { endpoints, count, running } = candidates;
    const { batch } = entry;
    if (batch.state !== "placed") {
      const replicas = endpoints.slice(0, count).map(({ id }, i) => ({ name: id, running: running[i]! }));
      place(
        batch.entries.filter(({ gone }) => !gone),
        replicas,
        this.#placement,
      );
      batch.endpoints = endpoints.slice(0, count);
      batch.state = "placed";
    }
    const total = entry.hashes.count;
    candidates.column(PREFIX_TOTAL_BLOCKS).fill(total, 0, count);
    candidates.column(PREFIX_BLOCK_TOKENS).fill(this.#blockTokens, 0, count);
    const chosen = entry.replica === undefined ? undefined : batch.endpoints[entry.replica];
    const at = chosen === undefined ? -1 : endpoints.indexOf(chosen);
    if (at >= 0 && at < count) candidates.column(PREFIX_MATCHED_BLOCKS)[at] = total;
    else if (chosen !== undefined)
      this.#context.log.debug(
        { request: request.id, endpoint: chosen.id },
        "the endpoint of this window is no longer a candidate",
      );
  }

  /** Lets those that wait go on. */
  close(): void {
    if (this.#batch !== undefined) this.#seal(this.#batch);
  }

  debugState(): unknown {
    return { waiting: this.#batch?.entries.length ?? 0 };
  }

  #open(): Batch {
    const batch: Batch = { state: "open", entries: [], seals: [], timer: undefined, endpoints: [] };
    batch.timer = this.#context.clock.after(this.#window, () => this.#seal(batch));
    this.#batch = batch;
    return batch;
  }

  #seal(batch: Batch): void {
    if (batch.state !== "open") return;
    batch.state = "sealed";
    batch.timer?.cancel();
    if (this.#batch === batch) this.#batch = undefined;
    for (const seal of batch.seals.splice(0)) seal();
  }
}
