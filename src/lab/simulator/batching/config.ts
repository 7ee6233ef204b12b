/**
 * What one step of a batching engine takes, milliseconds:
 * `base + prefill x P + attention x A + context x K + sequence x S` with P = prompt tokens computed in the step (of a
 * sequence that starts again after a preemption also the tokens it had generated),
 * A = sum over the prompt chunks of chunk length x (tokens before it + half of it), K = tokens of context of the sequences that
 * generate in it, each its prompt and its answer so far, S = sequences in it. A sequence whose prompt is completed by the
 * step counts for P and A, not for K, although its first token comes at the end of it.
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
  /** Tokens that one step computes at most, prompts and answers together, >= 1. */
  readonly tokenBudget: number;
  /** Sequences in a batch, >= 1. */
  readonly maxNumSeqs: number;
  /** Sequences that may wait, >= 0; one more is refused. */
  readonly maxWaitingQueueLength: number;
  /** Context window in tokens: prompt and answer together, >= 2; what the KV cache holds counts if that is less. */
  readonly maxModelLen: number;
  /** Blocks of the KV cache, >= 1, and tokens per block, >= 1. */
  readonly kvBlocks: number;
  readonly blockSize: number;
  /** Whether prefixes are kept and found again. */
  readonly prefixCache: boolean;
  /** Adapters that are loaded at a time, >= 1; the least recently used one that no sequence runs on makes room. */
  readonly maxLoras: number;
  /** Milliseconds that the step waits in which an adapter is loaded, for each one. */
  readonly loraLoadMs: number;
}

/** What one step computes. */
export interface StepLoad {
  /** Prompt tokens computed, and tokens of answers computed again after a preemption. */
  prefillTokens: number;
  /** Sum over the chunks of prompts: chunk length x (tokens before it + half of it). */
  attention: number;
  /** Tokens of prompt and answer so far of the sequences that generate. */
  contextTokens: number;
  /** Sequences that generate, one token computed each. */
  decoding: number;
  /** Sequences in it, generating or at their prompts. */
  sequences: number;
  /** Adapters that have to be loaded first. */
  adapterLoads: number;
}

/** Milliseconds that a step takes: the formula of `StepCost`, and the loading of adapters. */
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
  /** As given on the command line, such as `qwen3-32b-2xh100`. */
  readonly name: string;
  readonly about: string;
  readonly config: BatchingConfig;
}

/**
 * As vLLM V1 has it by itself: blocks of 16 tokens, prefix caching, 8,192 tokens in a step (of a server on an H100), one adapter
 * slot, a queue without limit; 256 sequences in a step, of which newer versions allow more. Loading an adapter
 * takes no time until a workload says what it takes.
 */
const VLLM = {
  tokenBudget: 8192,
  maxNumSeqs: 256,
  blockSize: 16,
  prefixCache: true,
  maxWaitingQueueLength: Number.POSITIVE_INFINITY,
  maxLoras: 1,
  loraLoadMs: 0,
};

/**
 * The coefficients were given with the two set-ups that are to be reproduced, not measured here. What they come to is said
 * beside each, from the models' published configurations and the card's data sheet (80 GB at 3.35 TB/s, 989 Tflop/s in
 * bf16), and is plausible throughout. The rate for prompt tokens holds attention, too, whose own coefficient is
 * therefore 0: fair for prompts of some thousand tokens, too kind to those of 30,000 and more.
 */
export const PRESETS: readonly EnginePreset[] = [
  {
    name: "qwen3-32b-2xh100",
    about: "Qwen3-32B on two H100",
    config: {
      ...VLLM,
      cost: {
        // To read 65.5 GB of weights, half on each card, takes 9.8 ms; the rest is overhead.
        base: 13.5,
        // 20,480 tokens per second: at 2 x 32.8e9 operations each 68 % of what both cards could do.
        prefill: 1000 / 20_480,
        attention: 0,
        // 256 KiB per token (64 layers, 8 KV heads of 128, two bytes, keys and values), half on each card: 51 % of their bandwidth.
        context: 0.000_076,
        sequence: 0.0044,
      },
      // `max_position_embeddings` of the model's configuration.
      maxModelLen: 40_960,
      // 307,328 tokens, 75.0 GiB: what is left of 0.9 x 2 x 79.2 GiB when 61.0 of weights and 6.5 for all else are taken off.
      kvBlocks: 307_328 / 16,
    },
  },
  {
    name: "llama-3-8b-h100",
    about: "Llama-3.1-8B on one H100",
    config: {
      ...VLLM,
      cost: {
        // To read 16.1 GB of weights takes 4.8 ms; the rest is overhead.
        base: 7.7,
        // 43,478 tokens per second: at 2 x 8.03e9 operations each 71 % of what the card could do.
        prefill: 0.023,
        attention: 0,
        // 128 KiB per token (32 layers, 8 KV heads of 128, two bytes, keys and values): 51 % of the bandwidth.
        context: 0.000_076,
        sequence: 0,
      },
      // Of Llama 3.1; the first Llama 3 has the same sizes and 8,192.
      maxModelLen: 131_072,
      // Derived: of 0.9 x 79.2 GiB weights take 14.99 (as vLLM prints) and activations and graphs about 2.6; the 53.71 that are
      // left have room for 27,499 blocks of 2 MiB, 439,984 tokens. The 2.6 are the uncertain part: 1 GiB more or less is 512 blocks.
      kvBlocks: 27_499,
    },
  },
];

/** The preset of that name; undefined when there is none. */
export function presetNamed(name: string): EnginePreset | undefined {
  return PRESETS.find((preset) => preset.name === name);
}
