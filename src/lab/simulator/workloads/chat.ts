import { drawTokens, type TokenLengths } from "./draws.ts";
import { joined, randomText } from "./prompt-text.ts";
import type { WorkloadPort, WorkloadRequest } from "./workload.ts";

const SYSTEM_TOKENS = 512;
const QUESTION: TokenLengths = { mean: 500, sigma: 0.7, least: 16, most: 8000 };
const ANSWER: TokenLengths = { mean: 200, sigma: 0.7, least: 1, most: 1000 };

/** Requests with the lengths of a chat: about 1,000 tokens, half of them a system prompt that all share, and 200 tokens of answer. */
export function chat({ random }: Pick<WorkloadPort, "random">): () => Pick<WorkloadRequest, "prompt" | "outputTokens"> {
  const system = randomText(random, SYSTEM_TOKENS);
  return () => {
    const prompt = joined(system, randomText(random, drawTokens(random, QUESTION)));
    return { prompt, outputTokens: drawTokens(random, ANSWER) };
  };
}
