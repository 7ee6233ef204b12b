import { poissonArrivals } from "./arrivals.ts";
import { drawTokens, type TokenLengths } from "./draws.ts";
import { joined, randomText } from "./prompt-text.ts";
import type { WorkloadDefinition } from "./workload.ts";

/** Seven blocks of 16: one system prompt for all requests, about 7.5 % of a prompt. */
const SYSTEM_TOKENS = 112;
/** Half of the questions between 790 and 1,770 tokens. */
const QUESTION: TokenLengths = { mean: 1400, sigma: 0.6, least: 16, most: 16_000 };
const ANSWER: TokenLengths = { mean: 250, sigma: 0.7, least: 1, most: 1000 };

/**
 * Prompts with the same start and nothing else in common. All requests share that start, so a policy that always follows
 * prefixes sends all of them to one place. The servers can serve 67 requests/s of it under any policy.
 */
export const LOW_PREFIX_SHARE: WorkloadDefinition = {
  name: "low-prefix-share",
  about:
    "prompts of about 1,500 tokens that share only their first 112 tokens: shows what routing by prefix costs when it gains nothing",
  rates: [20, 40, 50, 55, 60, 65, 70],
  rateUnit: "requests/s",
  servers: 8,
  preset: "qwen3-32b-2xh100",
  durationMs: 45_000,
  make: ({ rate, durationMs }) => ({
    start(port) {
      const { random } = port;
      const system = randomText(random, SYSTEM_TOKENS);
      poissonArrivals(port, rate, durationMs, () => {
        const prompt = joined(system, randomText(random, drawTokens(random, QUESTION)));
        port.send({ prompt, outputTokens: drawTokens(random, ANSWER) });
      });
    },
  }),
};
