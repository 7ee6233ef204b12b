import type { Random } from "../../../base/clock/random.ts";
import { presetNamed } from "../batching/config.ts";
import { poissonArrivals } from "./arrivals.ts";
import { drawTokens, type TokenLengths } from "./draws.ts";
import { joined, randomText } from "./prompt-text.ts";
import { leadMs, type WarmUp, type Workload, type WorkloadDefinition, type WorkloadSettings } from "./workload.ts";

const PRESET = "llama-3-8b-h100";
/** The range of document lengths, with a uniform distribution. */
const LEAST_DOCUMENT = 10_000;
const MOST_DOCUMENT = 50_000;
const QUESTION: TokenLengths = { mean: 300, sigma: 0.5, least: 16, most: 4000 };
const ANSWER: TokenLengths = { mean: 200, sigma: 0.67, least: 1, most: 1000 };

/** 360 requests: at `0.5x` and `1x` nearly every document gets at least one question. */
const WARM_UP: WarmUp = { rate: 6, durationMs: 60_000, restMs: 30_000 };

/** Tokens of all documents as a multiple of the capacity of all caches. */
const SETS = [
  { times: 0.5, rates: [10, 20] },
  { times: 1, rates: [5, 10, 15] },
  { times: 4, rates: [4, 8] },
];

/**
 * Questions about documents, with about equal frequency for each document. Up to `1x` the caches of the pool hold every
 * document once, if all questions about a document go to one server. At `4x` at least three of four documents are computed
 * again, 30,000 tokens each.
 */
export const WORKING_SETS: readonly WorkloadDefinition[] = SETS.map(({ times, rates }) => ({
  name: `working-set-${times}x`,
  about:
    "questions about documents of 10,000 to 50,000 tokens, all documents together " +
    `${times} times what the caches of the pool hold: shows which policy divides documents among servers`,
  rates,
  rateUnit: "requests/s",
  servers: 8,
  preset: PRESET,
  durationMs: 60_000,
  warmUp: WARM_UP,
  make: (settings) => questions(times, settings),
}));

function questions(times: number, { rate, durationMs, servers, warmUp }: WorkloadSettings): Workload {
  return {
    start(port) {
      const { random } = port;
      const { kvBlocks, blockSize } = presetNamed(PRESET)!.config;
      const documents = documentsOf(random, times * servers * kvBlocks * blockSize);
      const arrive = (): void => {
        const document = documents[random.below(documents.length)]!;
        const prompt = joined(document, randomText(random, drawTokens(random, QUESTION)));
        port.send({ prompt, outputTokens: drawTokens(random, ANSWER) });
      };
      const begin = leadMs(warmUp);
      if (warmUp !== undefined) poissonArrivals(port, warmUp.rate, warmUp.durationMs, arrive);
      port.clock.after(begin, () => poissonArrivals(port, rate, begin + durationMs, arrive));
    },
  };
}

/** Documents with `tokens` tokens together, the last one whole: 56 MB of text at `4x` on eight servers. */
function documentsOf(random: Random, tokens: number): Uint8Array[] {
  const documents: Uint8Array[] = [];
  for (let left = tokens; left > 0; ) {
    const length = LEAST_DOCUMENT + random.below(MOST_DOCUMENT - LEAST_DOCUMENT + 1);
    documents.push(randomText(random, length));
    left -= length;
  }
  return documents;
}
