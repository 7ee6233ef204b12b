import { poissonArrivals } from "./arrivals.ts";
import { drawTokens, type TokenLengths } from "./draws.ts";
import { FLOW_POLICIES } from "./flow-policies.ts";
import { randomText } from "./prompt-text.ts";
import type { WorkloadDefinition } from "./workload.ts";

/** Long prompts and short answers: the prompts fill their servers first. */
const QUESTION: TokenLengths = { mean: 3000, sigma: 0.6, least: 64, most: 20_000 };
const ANSWER: TokenLengths = { mean: 200, sigma: 0.7, least: 1, most: 1000 };
const TENANTS = 2;

/** Half of the servers compute prompts and half generate: the fuller half is the saturation of the pool. */
export const DISAGGREGATED: WorkloadDefinition = {
  name: "disaggregated",
  about:
    "new questions of 3,000 tokens from two tenants for four servers that compute prompts and four that generate: shows whether the policy reacts to the fuller stage",
  rates: [8, 16, 24, 32],
  rateUnit: "requests/s",
  servers: 8,
  preset: "qwen3-32b-2xh100",
  durationMs: 45_000,
  prefillShare: 0.5,
  policies: FLOW_POLICIES,
  make: ({ rate, durationMs }) => ({
    start(port) {
      const { random } = port;
      poissonArrivals(port, rate, durationMs, () => {
        const prompt = randomText(random, drawTokens(random, QUESTION));
        const tenant = `tenant-${1 + random.below(TENANTS)}`;
        port.send({ prompt, outputTokens: drawTokens(random, ANSWER), tenant });
      });
    },
  }),
};
