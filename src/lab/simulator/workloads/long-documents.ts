import { poissonArrivals } from "./arrivals.ts";
import { drawTokens, type TokenLengths } from "./draws.ts";
import { joined, randomText } from "./prompt-text.ts";
import type { WorkloadDefinition } from "./workload.ts";

/** Assistants of the chats, each with its own system prompt. */
const ASSISTANTS = 40;
const SYSTEM_TOKENS = 2000;
const QUESTION: TokenLengths = { mean: 500, sigma: 0.7, least: 16, most: 8000 };
const ANSWER: TokenLengths = { mean: 250, sigma: 0.67, least: 1, most: 1000 };

const DOCUMENT_SHARE = 0.08;
/** The range of document lengths, with a uniform distribution. */
const LEAST_DOCUMENT = 20_000;
const MOST_DOCUMENT = 100_000;

/**
 * Chats with cached system prompts, and documents that no server has seen. A server computes a document in 0.5 to 2.3 s, and
 * every request that arrives there meanwhile waits. The documents are 8 % of the requests and 70 % of the prompt tokens. The KV
 * caches limit the rate before the prefill does: from 30 requests/s on, the documents in flight do not fit.
 */
export const LONG_DOCUMENTS: WorkloadDefinition = {
  name: "long-documents",
  about:
    "chats of 40 assistants, and among them 8 % new documents of 20,000 to 100,000 tokens: shows which policy lets chats queue behind documents",
  rates: [10, 15, 20, 25],
  rateUnit: "requests/s",
  servers: 8,
  preset: "llama-3-8b-h100",
  durationMs: 90_000,
  make: ({ rate, durationMs }) => ({
    start(port) {
      const { random } = port;
      const systems = Array.from({ length: ASSISTANTS }, () => randomText(random, SYSTEM_TOKENS));
      poissonArrivals(port, rate, durationMs, () => {
        const isDocument = random.next() < DOCUMENT_SHARE;
        const prompt = isDocument
          ? randomText(random, LEAST_DOCUMENT + random.below(MOST_DOCUMENT - LEAST_DOCUMENT + 1))
          : joined(systems[random.below(ASSISTANTS)]!, randomText(random, drawTokens(random, QUESTION)));
        port.send({ prompt, outputTokens: drawTokens(random, ANSWER), kind: isDocument ? "document" : "chat" });
      });
    },
  }),
};
