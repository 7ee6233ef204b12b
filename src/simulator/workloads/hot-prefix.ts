import { poissonArrivals } from "./poisson.ts";
import { joined, randomText } from "./prompt-text.ts";
import { drawTokens, type TokenLengths } from "./token-lengths.ts";
import type { WorkloadDefinition } from "./workload.ts";

const HOT_SHARE = 0.7;
const PREFIX_TOKENS = 6000;
const OTHER_PREFIXES = 100;
const QUESTION: TokenLengths = { mean: 300, sigma: 0.5, least: 16, most: 4000 };
const ANSWER: TokenLengths = { mean: 250, sigma: 0.67, least: 1, most: 1000 };

/**
 * One prefix in seven of ten requests, from the first moment to the last, beside a hundred that share the rest. A server
 * that has the hot prefix can do 6.8 requests/s with it, half of what the least rate asks for, so it must be released to
 * others. How evenly the load lies is read off the whole run, the time before it is let go included; traffic that turned even by
 * itself would spread under any policy and show nothing. The kinds tell how the others fare meanwhile.
 */
export const HOT_PREFIX: WorkloadDefinition = {
  name: "hot-prefix",
  about:
    "one prefix of 6,000 tokens in 70 % of the requests, 100 others in the rest: shows who lets go of a server that is full",
  rates: [20, 25, 30, 35, 40],
  rateUnit: "requests/s",
  servers: 8,
  preset: "qwen3-32b-2xh100",
  durationMs: 45_000,
  make: ({ rate, durationMs }) => ({
    start(port) {
      const { random } = port;
      const hot = randomText(random, PREFIX_TOKENS);
      const others = Array.from({ length: OTHER_PREFIXES }, () => randomText(random, PREFIX_TOKENS));
      poissonArrivals(port, rate, durationMs, () => {
        const isHot = random.next() < HOT_SHARE;
        const prefix = isHot ? hot : others[random.below(OTHER_PREFIXES)]!;
        const prompt = joined(prefix, randomText(random, drawTokens(random, QUESTION)));
        port.send({ prompt, outputTokens: drawTokens(random, ANSWER), kind: isHot ? "hot" : "other" });
      });
    },
  }),
};
