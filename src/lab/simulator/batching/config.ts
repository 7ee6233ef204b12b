/**
 * Milliseconds of one step of a batching engine:
 * `base + prefill x P + attention x A + context x K + sequence x S`.
 * P = prompt tokens computed in the step; after a preemption also the tokens that the sequence had generated.
 * A = sum over the prompt chunks of chunk length x (tokens before it + half of it).
 * K = tokens of context of the sequences that generate, each its prompt and its answer so far.
 * S = sequences in the step.
 * A sequence whose prompt ends with the step counts for P and A, not for K, although its first token appears at the end of the
 * step.
 */
interface StepCost {
  readonly base: number;
  readonly prefill: number;
  readonly attention: number;
  readonly context: number;
  readonly sequence: number;
}

/** The size and speed of an engine with continuous batching. */
export interface BatchingConfig {
  readonly cost: StepCost;
  /** The most tokens that one step computes, prompts and answers together, >= 1. */
  readonly tokenBudget: number;
  /** Sequences in a batch, >= 1. */
  readonly maxNumSeqs: number;
  /** The most waiting sequences, >= 0; the engine refuses further ones. */
  readonly maxWaitingQueueLength: number;
  /** Context window in tokens: prompt and answer together, >= 2. The size of the KV cache may lower it. */
  readonly maxModelLen: number;
  /** Blocks of the KV cache, >= 1, and tokens per block, >= 1. */
  readonly kvBlocks: number;
  readonly blockSize: number;
  /** Whether the engine caches prefixes. */
  readonly prefixCache: boolean;
  /**
   * The most loaded adapters at a time, >= 1. For a new one, the least recently used adapter without a running sequence is
   * unloaded.
   */
  readonly maxLoras: number;
  /** Milliseconds that a step takes longer for each adapter that it loads. */
  readonly loraLoadMs: number;
  /**
   * Milliseconds that the API process of the server works on a request before the engine gets it, >= 0, one request after the
   * other; absent = 0. Metrics do not show the requests that wait for it.
   */
  readonly apiMs?: number | undefined;
}

/** The load of one step. */
export interface StepLoad {
  /** Prompt tokens in the step, and answer tokens that are computed again after a preemption. */
  prefillTokens: number;
  /** Sum over the chunks of prompts: chunk length x (tokens before it + half of it). */
  attention: number;
  /** Tokens of prompt and answer so far of the sequences that generate. */
  contextTokens: number;
  /** Sequences that generate, one token computed each. */
  decoding: number;
  /** Sequences in the step, in decode or in prefill. */
  sequences: number;
  /** Adapters that the step loads first. */
  adapterLoads: number;
}

/** Milliseconds of a step: the formula of `StepCost`, and the time to load adapters. */
export function stepDuration(cost: StepCost, load: Readonly<StepLoad>, loraLoadMs: number): number {
  return (
    cost.base +
    cost.prefill * load.prefillTokens +
    cost.attention * load.attention +
    cost.context * load.contextTokens +
    cost.sequence * load.sequences +
    loraLoadMs * load.adapterLoads
  );
}

/** A model on a machine. */
export interface EnginePreset {
  /** The name on the command line, such as `qwen3-32b-2xh100`. */
  readonly name: string;
  readonly about: string;
  readonly config: BatchingConfig;
}

/**
 * The defaults of vLLM V1: blocks of 16 tokens, prefix caching, one adapter slot, and a queue without limit. A step has 8,192
 * tokens (on an H100) and 256 sequences; newer versions allow more sequences. To load an adapter takes no time unless a
 * workload says so.
 */
export const ENGINE_DEFAULTS = {
  tokenBudget: 8192,
  maxNumSeqs: 256,
  blockSize: 16,
  prefixCache: true,
  maxWaitingQueueLength: Number.POSITIVE_INFINITY,
  maxLoras: 1,
  loraLoadMs: 0,
};

const QWEN_COST: StepCost = {
  // To read 65.5 GB of weights, half on each card, takes 9.8 ms; the rest is overhead.
  base: 13.5,
  // 20,480 tokens per second: at 2 x 32.8e9 operations each, 68 % of the peak rate of both cards.
  prefill: 1000 / 20_480,
  attention: 0,
  // 256 KiB per token (64 layers, 8 KV heads of 128, two bytes, keys and values), half on each card: 51 % of their bandwidth.
  context: 0.000_076,
  sequence: 0.0044,
};
/** `max_position_embeddings` of the model's configuration. */
const QWEN_CONTEXT = 40_960;
/** 307,328 tokens, 75.0 GiB: the rest of 0.9 x 2 x 79.2 GiB after 61.0 of weights and 6.5 for all else. */
const QWEN_BLOCKS = 307_328 / 16;
/**
 * Milliseconds of attention for a pair of tokens. A pair takes 2 x 2 operations for each of 64 layers x 64 heads x 128
 * dimensions, 2.1e6 in all. The two cards do them at 53 % of their peak rate; FlashAttention-3 publishes up to 75 % for its
 * kernel alone (arXiv 2407.08608).
 */
const QWEN_PAIR = 0.000_002;

/**
 * The coefficients come with the two set-ups to reproduce; they were not measured here. A note beside each says what share of
 * the hardware it means. The notes use the models' published configurations and the card's data sheet (80 GB at 3.35 TB/s, 989
 * Tflop/s in bf16). All are plausible. The rate for prompt tokens includes attention, so the coefficient of attention is 0.
 * That is right for prompts of some thousand tokens, and too fast for those of 30,000 and more. `QWEN_PAIR` on top of that rate
 * would count attention twice: `b2b-saas` at 60/s then has 2.63 times round robin's output tokens/s, and 2.0 to 2.1 times are
 * published (`bench/routing.ts`, 10 seeds). The last preset is llm-d's own measurement of the first set-up, with attention apart.
 */
export const PRESETS: readonly EnginePreset[] = [
  {
    name: "qwen3-32b-2xh100",
    about: "Qwen3-32B on two H100",
    config: {
      ...ENGINE_DEFAULTS,
      cost: QWEN_COST,
      maxModelLen: QWEN_CONTEXT,
      kvBlocks: QWEN_BLOCKS,
    },
  },
  {
    name: "llama-3-8b-h100",
    about: "Llama-3.1-8B on one H100",
    config: {
      ...ENGINE_DEFAULTS,
      cost: {
        // To read 16.1 GB of weights takes 4.8 ms; the rest is overhead.
        base: 7.7,
        // 43,478 tokens per second: at 2 x 8.03e9 operations each, 71 % of the peak rate of the card.
        prefill: 0.023,
        attention: 0,
        // 128 KiB per token (32 layers, 8 KV heads of 128, two bytes, keys and values): 51 % of the bandwidth.
        context: 0.000_076,
        sequence: 0,
      },
      // Of Llama 3.1; the first Llama 3 has the same sizes and 8,192.
      maxModelLen: 131_072,
      // Derived. Of 0.9 x 79.2 GiB, weights take 14.99 (as vLLM prints), activations and graphs about 2.6. The remaining 53.71
      // hold 27,499 blocks of 2 MiB, 439,984 tokens. The 2.6 are uncertain: 1 GiB more or less is 512 blocks.
      kvBlocks: 27_499,
    },
  },
  {
    name: "qwen3-32b-2xh100-calibrated",
    about:
      "Qwen3-32B on two H100, as fast with prompts as llm-d measured it (15,928 tokens/s), and slower with long ones",
    config: {
      ...ENGINE_DEFAULTS,
      cost: {
        ...QWEN_COST,
        // llm-d's calibration sends single prompts of 8,192 tokens to an idle server, and publishes 8,192 / TTFT = 15,928
        // tokens/s (`peakPrefillThroughput` of `prefix-cache-affinity-filter`). That is one step of 514.3 ms: the base, the
        // attention of 8,192^2 / 2 pairs, and the rest for the prompt tokens.
        prefill: (8192 / 15.928 - QWEN_COST.base - QWEN_COST.sequence - (QWEN_PAIR * 8192 ** 2) / 2) / 8192,
        attention: QWEN_PAIR,
      },
      maxModelLen: QWEN_CONTEXT,
      kvBlocks: QWEN_BLOCKS,
    },
  },
];

/** The preset of that name; undefined when there is none. */
export function presetNamed(name: string): EnginePreset | undefined {
  return PRESETS.find((preset) => preset.name === name);
}
