import { poissonArrivals } from "./arrivals.ts";
import { drawTokens, type TokenLengths } from "./draws.ts";
import { joined, randomText } from "./prompt-text.ts";
import type { Workload, WorkloadDefinition, WorkloadSettings } from "./workload.ts";

const HOT_SHARE = 0.7;
const PREFIX_TOKENS = 6000;
const OTHER_PREFIXES = 100;
const DOCUMENT_TOKENS = 30_000;
const OTHER_DOCUMENTS = 40;
const QUESTION: TokenLengths = { mean: 300, sigma: 0.5, least: 16, most: 4000 };
const ANSWER: TokenLengths = { mean: 250, sigma: 0.67, least: 1, most: 1000 };

/**
 * One prefix in seven of ten requests for the whole run, beside a hundred prefixes that share the rest. One server can serve
 * 6.8 requests/s with the hot prefix, half of the lowest rate. So a policy must spread the prefix over several servers. The
 * load balance covers the whole run, including the time before the policy spreads the prefix. Traffic that became even later
 * would spread under any policy and show nothing. The kinds show the times of the other requests meanwhile.
 */
export const HOT_PREFIX: WorkloadDefinition = {
  name: "hot-prefix",
  about:
    "one prefix of 6,000 tokens in 70 % of the requests, 100 others in the rest: shows which policy leaves a server that is full",
  rates: [20, 25, 30, 35, 40],
  rateUnit: "requests/s",
  servers: 8,
  preset: "qwen3-32b-2xh100",
  durationMs: 45_000,
  make: (settings) => hotTraffic(PREFIX_TOKENS, OTHER_PREFIXES, settings),
};

/**
 * The same with documents. At 30,000 tokens a copy is expensive. A policy that weighs the length of a prefix may keep all
 * requests at one server.
 */
export const HOT_DOCUMENT: WorkloadDefinition = {
  name: "hot-document",
  about:
    "one document of 30,000 tokens in 70 % of the requests, 40 others in the rest: shows which policy copies a document when its server is full",
  rates: [10, 20, 30],
  rateUnit: "requests/s",
  servers: 8,
  preset: "llama-3-8b-h100",
  durationMs: 45_000,
  make: (settings) => hotTraffic(DOCUMENT_TOKENS, OTHER_DOCUMENTS, settings),
};

function hotTraffic(tokens: number, count: number, { rate, durationMs }: WorkloadSettings): Workload {
  return {
    start(port) {
      const { random } = port;
      const hot = randomText(random, tokens);
      const others = Array.from({ length: count }, () => randomText(random, tokens));
      poissonArrivals(port, rate, durationMs, () => {
        const isHot = random.next() < HOT_SHARE;
        const prefix = isHot ? hot : others[random.below(count)]!;
        const prompt = joined(prefix, randomText(random, drawTokens(random, QUESTION)));
        port.send({ prompt, outputTokens: drawTokens(random, ANSWER), kind: isHot ? "hot" : "other" });
      });
    },
  };
}
