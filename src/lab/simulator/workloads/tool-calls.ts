import { poissonArrivals } from "./arrivals.ts";
import { startDialogues } from "./conversations.ts";
import { drawTokens, QuantileFunction, type TokenLengths } from "./draws.ts";
import { joined, randomText } from "./prompt-text.ts";
import type { WorkloadDefinition, WorkloadPort } from "./workload.ts";

/** A prompt that all calls of one program share, and what each call adds to it. */
interface ToolPrompt {
  /** Share of all requests. */
  readonly share: number;
  /** Tokens that all calls share: the instructions and the descriptions of the tools. */
  readonly tokens: number;
  /** Tokens that one call adds. */
  readonly added: TokenLengths;
}

/*
 * From what is published of Mooncake's trace of tools and agents (FAST '25, table 2; kvcache-ai/Mooncake, FAST25-release/README.md):
 * 23,608 requests within an hour, inputs of 8,596 tokens and outputs of 182 tokens on average, a cache ratio of 59 %, and system
 * prompts that repeat in full. The two requests that the README shows share 12 blocks of 512 tokens and add 811 and 328 tokens.
 * Measurements of the trace by others give 4 different first blocks, of which three begin 10,938, 9,203 and 3,449 of the requests;
 * inputs with a median of 6,346, a p90 of 16,810 and a p99 of 61,525 tokens; a median output of 30 tokens; and 55.3 % of the blocks
 * in a cache without limit. A part of the trace is dialogues, as in the conversation trace: the largest first block is theirs, since
 * that is the one way to reach the mean and the p99 of the inputs. The second prompt and the lengths below are fitted to these figures.
 */
const TOOLS: readonly ToolPrompt[] = [
  { share: 0.39, tokens: 6144, added: { mean: 450, sigma: 0.9, least: 16, most: 8000 } },
  { share: 0.147, tokens: 2048, added: { mean: 800, sigma: 0.8, least: 16, most: 8000 } },
];
/** Share of the requests that belong to dialogues. */
const DIALOGUES = 1 - TOOLS.reduce((sum, { share }) => sum + share, 0);
/** Requests of a dialogue on average, within the hour of the conversation trace. */
const TURNS = 12_031 / 8_349;
/** Tokens of the answer to a tool call. Five of six have at most 30: a call with its arguments, or a verdict. */
const ANSWER = new QuantileFunction([
  [0, 5],
  [0.84, 30],
  [0.97, 200],
  [1, 1200],
]);

/**
 * Traffic in the shape of Mooncake's trace of tools and agents: calls of programs, which add a little to one of two long prompts,
 * beside the dialogues of `conversations`, which fill the caches. Other than in the trace, arrivals are a Poisson process.
 */
export const TOOL_CALLS: WorkloadDefinition = {
  name: "tool-calls",
  about:
    "program calls under two long prompts, and dialogues, as in Mooncake's published trace of tools and agents: shows which policy keeps few hot and many cold prompts",
  rates: [7, 14, 21],
  rateUnit: "requests/s",
  servers: 8,
  preset: "llama-3-8b-h100",
  durationMs: 600_000,
  make: ({ rate, durationMs }) => ({
    start(port) {
      for (const tool of TOOLS) startCalls(port, tool, rate, durationMs);
      startDialogues(port, (rate * DIALOGUES) / TURNS, durationMs);
    },
  }),
};

/** Begins the calls that share a prompt. @param rate of all requests of the workload, per second */
function startCalls(port: WorkloadPort, { share, tokens, added }: ToolPrompt, rate: number, untilMs: number): void {
  const { random } = port;
  const shared = randomText(random, tokens);
  poissonArrivals(port, rate * share, untilMs, () => {
    const prompt = joined(shared, randomText(random, drawTokens(random, added)));
    port.send({ prompt, outputTokens: Math.round(ANSWER.at(random.next())), kind: "tool call" });
  });
}
