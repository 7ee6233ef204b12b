import type { StepCost } from "./config.ts";

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
