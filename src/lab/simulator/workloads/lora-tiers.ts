import { poissonArrivals } from "./arrivals.ts";
import { drawTokens, type TokenLengths } from "./draws.ts";
import { randomText } from "./prompt-text.ts";
import type { WorkloadDefinition } from "./workload.ts";

const ADAPTERS_PER_TIER = 5;
const TIERS = [
  { kind: "high", upTo: 0.6 },
  { kind: "medium", upTo: 0.9 },
  { kind: "low", upTo: 1 },
];
const QUESTION: TokenLengths = { mean: 400, sigma: 0.8, least: 16, most: 1024 };
const ANSWER: TokenLengths = { mean: 300, sigma: 0.7, least: 1, most: 1024 };

/**
 * The multi-LoRA test of the Gateway API Inference Extension (its regression-testing guide, until 2026). It has 15 adapters in
 * three tiers of five, with 12 %, 6 % and 2 % of the requests each, and room for three in a server. Its prompts are single
 * questions from a data set, cut at 1,024 tokens like the answers, so no prefix is shared. The lengths are ours.
 */
export const LORA_TIERS: WorkloadDefinition = {
  name: "lora-tiers",
  about:
    "15 adapters that share the requests 60/30/10 in tiers of five, with 3 slots per server: shows which policy keeps adapters on their servers",
  rates: [20, 60, 100, 140, 180],
  rateUnit: "requests/s",
  servers: 8,
  preset: "llama-3-8b-h100",
  loraSlots: 3,
  durationMs: 45_000,
  make: ({ rate, durationMs }) => ({
    start(port) {
      const { random } = port;
      poissonArrivals(port, rate, durationMs, () => {
        const share = random.next();
        const tier = TIERS.findIndex(({ upTo }) => share < upTo);
        const adapter = `adapter-${tier * ADAPTERS_PER_TIER + random.below(ADAPTERS_PER_TIER)}`;
        const prompt = randomText(random, drawTokens(random, QUESTION));
        port.send({ prompt, outputTokens: drawTokens(random, ANSWER), adapter, kind: TIERS[tier]!.kind });
      });
    },
  }),
};
