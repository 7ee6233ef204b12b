import { z } from "zod";
import type { Endpoint } from "../../../../base/inference/endpoint.ts";
import type { InferenceRequest } from "../../../../base/inference/request.ts";
import { defineProducer } from "../../../../base/plugin/define.ts";
import { PREFIX_BLOCK_TOKENS, PREFIX_MATCHED_BLOCKS } from "../../../../base/plugin/keys.ts";
import type { PreRequestContext, ProduceContext, Producer } from "../../../../base/plugin/kinds.ts";
import { PREFILL_PROFILE } from "./approx-prefix-cache-producer.ts";

/** The header that names the endpoint to copy from (scheduling 3.10.5). */
const SOURCE = "x-kv-cache-source-host-port";

const parameters = z.strictObject({
  prefixMatchInfoProducerName: z
    .string()
    .default("")
    .describe("Instance name of the producer of prefix matches; empty = the only producer."),
  minCachedTokenDelta: z
    .int()
    .min(1, { error: "must be at least 1" })
    .default(1)
    .describe(
      "The source endpoint must hold at least this many prompt tokens more than the endpoint that computes the prompt.",
    ),
  prefillProfileName: z
    .string()
    .default(PREFILL_PROFILE)
    .transform((name) => name || PREFILL_PROFILE)
    .describe(
      "Name of the profile whose endpoint computes the prompt. If the profile does not run, the primary endpoint computes the prompt.",
    ),
});

/** scheduling 3.10.5 */
export const p2pSourceProducer = defineProducer({
  type: "p2p-source-producer",
  describe:
    "Names in `x-kv-cache-source-host-port` a source endpoint that holds more of the prompt than the endpoint that computes it. A sidecar copies the KV cache from the source. Removes this header from client requests.",
  parameters,
  requires: [PREFIX_MATCHED_BLOCKS, PREFIX_BLOCK_TOKENS],
  create: ({ minCachedTokenDelta, prefillProfileName }) => new P2pSource(minCachedTokenDelta, prefillProfileName),
});

/** What is known of the request between its decision and its headers. */
interface Found {
  readonly request: InferenceRequest;
  readonly source: Endpoint;
  /** Prompt tokens that it holds. */
  readonly tokens: number;
  /** The same for every candidate. */
  readonly cached: ReadonlyMap<Endpoint, number>;
}

class P2pSource implements Producer {
  readonly #delta: number;
  readonly #prefill: string;
  #found: Found | undefined;

  constructor(delta: number, prefill: string) {
    this.#delta = delta;
    this.#prefill = prefill;
  }

  /**
   * Chooses the source among the candidates that hold at most one block less than the most. The chance of each is
   * proportional to 1 / (1 + waiting requests): were it always the first or the idlest one, one endpoint would serve all
   * copies. The id of the request takes the place of chance, so that a decision can be made again.
   */
  produce({ request, candidates }: ProduceContext): void {
    this.#found = undefined;
    const { endpoints, count, waiting } = candidates;
    const matched = candidates.column(PREFIX_MATCHED_BLOCKS);
    const blockTokens = candidates.column(PREFIX_BLOCK_TOKENS);
    let most = 0;
    for (let i = 0; i < count; i++) most = Math.max(most, matched[i]! * blockTokens[i]!);
    if (most === 0) return;
    const cached = new Map<Endpoint, number>();
    const able: { readonly at: number; readonly weight: number }[] = [];
    let total = 0;
    for (let i = 0; i < count; i++) {
      const tokens = matched[i]! * blockTokens[i]!;
      cached.set(endpoints[i]!, tokens);
      if (tokens === 0 || tokens + blockTokens[i]! < most) continue;
      const weight = 1 / (1 + (waiting[i]! > 0 ? waiting[i]! : 0));
      able.push({ at: i, weight });
      total += weight;
    }
    const point = shareOf(request.id) * total;
    let sum = 0;
    const chosen = able.find(({ weight }) => {
      sum += weight;
      return sum > point;
    });
    const source = endpoints[(chosen ?? able.at(-1)!).at]!;
    this.#found = { request, source, tokens: cached.get(source)!, cached };
  }

  preRequest({ request, endpoints, profiles, setHeader, removeHeader }: PreRequestContext): void {
    removeHeader(SOURCE);
    const found = this.#found;
    this.#found = undefined;
    if (found === undefined || found.request !== request) return;
    const computing = profiles.get(this.#prefill)?.[0] ?? endpoints[0]!;
    if (found.source === computing) return;
    if (found.tokens - (found.cached.get(computing) ?? 0) >= this.#delta) setHeader(SOURCE, found.source.hostPort);
  }

  refused(): void {
    this.#found = undefined;
  }
}

/** A number in [0, 1) that depends on a text: FNV-1a of 32 bits (Fowler, Noll, Vo). */
function shareOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ (text.charCodeAt(i) & 0xff), 0x01000193);
  return (hash >>> 0) / 2 ** 32;
}
