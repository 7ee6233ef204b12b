import type { Random } from "../../../base/clock/random.ts";
import { poissonArrivals } from "./arrivals.ts";
import { drawTokens, type TokenLengths } from "./draws.ts";
import { joined, randomText } from "./prompt-text.ts";
import type { Workload, WorkloadDefinition, WorkloadSettings } from "./workload.ts";

const TENANTS = 40;
/**
 * Zipf's law with Mandelbrot's offset, fitted to two figures: the top tenant has 16.0 %, the top ten 63.0 %. Without the offset
 * the shares would be 23 % and 68 %.
 */
const EXPONENT = 1.0593;
const OFFSET = 1.08;
/** The share of all requests of the largest tenant, of the two largest, and so on; the last is 1. */
const SHARE_UP_TO = cumulated(Array.from({ length: TENANTS }, (_, i) => (i + 1 + OFFSET) ** -EXPONENT));
const TOP = 10;

const ANSWER: TokenLengths = { mean: 250, sigma: 0.67, least: 1, most: 1000 };

/**
 * Tenants of very different sizes, each with a system prompt. They ask for half as much again as the servers can serve: 47
 * requests/s under the default profile, with any number of waiting requests.
 */
export const TENANTS_OVERLOAD: WorkloadDefinition = {
  name: "tenants",
  about:
    "40 tenants send 1.5 times what the servers can do; the largest tenant sends 16 % of this load, the top ten 63 %: shows which tenants get the remaining capacity",
  rates: [71],
  rateUnit: "requests/s",
  servers: 8,
  preset: "qwen3-32b-2xh100",
  durationMs: 45_000,
  make: (settings) => tenantTraffic(2000, { mean: 1500, sigma: 0.6, least: 16, most: 16_000 }, settings),
};

/**
 * The same tenants with long new questions: a system prompt is 40 % of a prompt. The servers can serve about 24 requests/s of
 * it.
 */
export const TENANTS_FRESH: WorkloadDefinition = {
  name: "tenants-fresh",
  about:
    "the tenants of `tenants` with new questions of 6,000 tokens, one in a hundred above 27,000: shows which policy leaves the server of a tenant in time",
  rates: [8, 12, 16, 20],
  rateUnit: "requests/s",
  servers: 8,
  preset: "llama-3-8b-h100",
  durationMs: 90_000,
  make: (settings) => tenantTraffic(4000, { mean: 6000, sigma: 1, least: 16, most: 60_000 }, settings),
};

/**
 * Poisson arrivals of requests, each with its tenant's system prompt and a new question.
 * @param systemTokens tokens of a system prompt
 */
function tenantTraffic(systemTokens: number, question: TokenLengths, { rate, durationMs }: WorkloadSettings): Workload {
  return {
    start(port) {
      const { random } = port;
      const systems = Array.from({ length: TENANTS }, () => randomText(random, systemTokens));
      poissonArrivals(port, rate, durationMs, () => {
        const tenant = drawTenant(random);
        const prompt = joined(systems[tenant]!, randomText(random, drawTokens(random, question)));
        const kind = tenant === 0 ? "top tenant" : tenant < TOP ? "next nine" : "other tenants";
        port.send({ prompt, outputTokens: drawTokens(random, ANSWER), tenant: `tenant-${tenant + 1}`, kind });
      });
    },
  };
}

/** Index of a random tenant by size, 0 = the largest. */
function drawTenant(random: Random): number {
  const share = random.next();
  return SHARE_UP_TO.findIndex((upTo) => share < upTo);
}

function cumulated(weights: readonly number[]): number[] {
  const whole = weights.reduce((sum, weight) => sum + weight, 0);
  const shares: number[] = [];
  let sum = 0;
  for (const weight of weights) {
    sum += weight;
    shares.push(sum / whole);
  }
  // Rounding must leave no gap after the last share.
  shares[shares.length - 1] = 1;
  return shares;
}
