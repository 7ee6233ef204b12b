import { z } from "zod";
import type { Endpoint } from "../../../../base/inference/endpoint.ts";
import type { InferenceRequest } from "../../../../base/inference/request.ts";
import { defineProducer, defineScorer } from "../../../../base/plugin/define.ts";
import { COLD_USE_ORDER, PREFIX_MATCHED_BLOCKS } from "../../../../base/plugin/keys.ts";
import type { Candidates, ProduceContext, Producer } from "../../../../base/plugin/kinds.ts";
import { PREFILL_PROFILE } from "./approx-prefix-cache-producer.ts";

const DEFAULT_SIZE = 1024;
const MAX_SIZE = 65_536;
/** The most endpoints in the debug state. */
const MAX_SHOWN = 100;

/** The most endpoints in the memory. */
const lruSize = z
  .int()
  .default(DEFAULT_SIZE)
  .transform((value) => (value > 0 ? Math.min(value, MAX_SIZE) : DEFAULT_SIZE))
  .describe("Most endpoints whose last cold prompt Sluice remembers, at most 65536; 0 or less counts as 1024.");

/** The producer whose prefix matches show that a prompt is cold. The scorer and this producer must use the same one. */
const prefixMatchInfoProducerName = z
  .string()
  .default("")
  .describe("Instance name of the producer of prefix matches; empty = the only producer.");

/** Not a published type. The memory of `no-hit-lru-scorer`, apart from it so that the score depends only on columns. */
export const noHitLruProducer = defineProducer({
  type: "no-hit-lru-producer",
  describe:
    "Remembers in which order endpoints took prompts that no candidate held. Sluice adds it with no-hit-lru-scorer.",
  parameters: z.strictObject({ lruSize, prefixMatchInfoProducerName }),
  produces: [COLD_USE_ORDER],
  requires: [PREFIX_MATCHED_BLOCKS],
  create: (settings) => new ColdUses(settings.lruSize),
});

class ColdUses implements Producer {
  readonly #capacity: number;
  /** Slots of endpoints and their ids, the least recently used first. */
  readonly #used = new Map<number, string>();
  /** Place of each slot in `#used`, from 1 up; 0 = absent. */
  #places = new Uint32Array(16);
  /**
   * The current decision. With one profile, candidates and column hold what its filters left when `routed` is called. With
   * several profiles, each runs over its own candidates, and these hold all candidates.
   */
  #request: InferenceRequest | undefined;
  #candidates: Candidates | undefined;
  #matched: Float64Array = new Float64Array(0);

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  produce({ request, candidates }: ProduceContext): void {
    this.#request = request;
    this.#candidates = candidates;
    this.#matched = candidates.column(PREFIX_MATCHED_BLOCKS);
    const { endpoints, count } = candidates;
    const order = candidates.column(COLD_USE_ORDER);
    if (this.#used.size === 0) {
      order.fill(0, 0, count);
      return;
    }
    this.#places.fill(0);
    let place = 0;
    for (const slot of this.#used.keys()) this.#places[slot] = ++place;
    for (let i = 0; i < count; i++) order[i] = this.#places[endpoints[i]!.slot] ?? 0;
  }

  routed(request: InferenceRequest, endpoint: Endpoint, others: ReadonlyMap<string, Endpoint>): void {
    if (this.#isCold(request)) {
      this.#use(endpoint);
      const prefill = others.get(PREFILL_PROFILE);
      if (prefill !== undefined) this.#use(prefill);
    }
    this.refused();
  }

  refused(): void {
    this.#request = undefined;
    this.#candidates = undefined;
  }

  follow(request: InferenceRequest): ((served: Endpoint) => void) | undefined {
    return this.#isCold(request) ? (served) => this.#use(served) : undefined;
  }

  endpointRemoved({ slot }: Endpoint): void {
    this.#used.delete(slot);
  }

  /** Returns the endpoints in the order in which they next get cold prompts (scheduling 9.2). */
  debugState(): unknown {
    const endpoints = [...this.#used.values()];
    return { endpoints: endpoints.slice(0, MAX_SHOWN), totalEndpoints: endpoints.length, maxEndpoints: MAX_SHOWN };
  }

  /** Whether no scored candidate holds the beginning of the prompt. */
  #isCold(request: InferenceRequest): boolean {
    if (request !== this.#request || this.#candidates === undefined) return false;
    const { count } = this.#candidates;
    for (let i = 0; i < count; i++) if (this.#matched[i]! > 0) return false;
    return true;
  }

  #use({ slot, id }: Endpoint): void {
    this.#used.delete(slot);
    this.#used.set(slot, id);
    if (slot >= this.#places.length) this.#places = new Uint32Array(2 ** Math.ceil(Math.log2(slot + 1)));
    if (this.#used.size <= this.#capacity) return;
    const [oldest] = this.#used.keys();
    this.#used.delete(oldest!);
  }
}

const parameters = z.strictObject({ lruSize, prefixMatchInfoProducerName });

/** scheduling 3.9.3. Its memory is in `no-hit-lru-producer`. */
export const noHitLruScorer = defineScorer({
  type: "no-hit-lru-scorer",
  describe:
    "Spreads prompts that no candidate holds: prefers the endpoint that has had no such prompt for the longest time. If a candidate holds the prompt, all score 0.5.",
  parameters,
  requires: [COLD_USE_ORDER, PREFIX_MATCHED_BLOCKS],
  companions: (parameters) => [{ definition: noHitLruProducer, parameters }],
  create: () => ({
    score({ candidates, out }) {
      const { count } = candidates;
      const order = candidates.column(COLD_USE_ORDER);
      const matched = candidates.column(PREFIX_MATCHED_BLOCKS);
      let unused = 0;
      for (let i = 0; i < count; i++) {
        if (matched[i]! > 0) {
          out.fill(0.5, 0, count);
          return;
        }
        if (order[i] === 0) unused++;
      }
      if (count === 1) {
        out[0] = 1;
        return;
      }
      let rank = 0;
      for (let i = 0; i < count; i++) {
        const behind = order[i] === 0 ? rank++ : unused + order[i]! - 1;
        out[i] = Math.max(0, 1 - behind / (count - 1));
      }
    },
  }),
});
