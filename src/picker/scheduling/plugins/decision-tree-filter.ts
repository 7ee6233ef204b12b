import { z } from "zod";
import type { Random } from "../../../base/clock/random.ts";
import { defineFilter } from "../../../base/plugin/define.ts";
import type { Candidates, Filter, FilterContext } from "../../../base/plugin/kinds.ts";

/** The constants of v0.3's tree (scheduling 2.1). */
const DEFAULTS = {
  kvCacheThreshold: 0.8,
  queueThresholdCritical: 5,
  queuingThresholdLoRA: 128,
  loraAffinityThreshold: 0.999,
};

const parameters = z.strictObject({
  kvCacheThreshold: z
    .number()
    .min(0)
    .optional()
    .describe(
      "The highest KV-cache utilisation at which an endpoint takes requests that are not critical; default 0.8.",
    ),
  queueThresholdCritical: z
    .int()
    .min(0)
    .optional()
    .describe("The most waiting requests with which an endpoint takes requests that are not critical; default 5."),
  queuingThresholdLoRA: z
    .int()
    .min(0)
    .optional()
    .describe("Waiting requests below which a queue counts as short for critical requests; default 128."),
  loraAffinityThreshold: z
    .number()
    .min(0)
    .max(1)
    .optional()
    .describe(
      "Probability that only endpoints with the adapter stay, when other endpoints have room to load it; default 0.999.",
    ),
});

export type DecisionTreeParameters = z.output<typeof parameters>;

/**
 * scheduling 2.2, 2.3. With `random-picker` after it, this filter is the whole scheduler of v0.3. A missing parameter comes
 * from v0.3's environment variables where the command finds them, else from `DEFAULTS`.
 */
export const decisionTreeFilter = defineFilter({
  type: "decision-tree-filter",
  describe:
    "Keeps the endpoints that the decision tree of v0.3 keeps: by queue, LoRA adapter and KV cache; critical = priority above 0.",
  parameters,
  create: (given) => new DecisionTree({ ...DEFAULTS, ...defined(given) }),
});

/**
 * The tree as steps that narrow one set. Only the two predicates at the top and the one for LoRA can fail. When they leave no
 * candidate, the set stays as before: this is the on-failure branch of the tree.
 */
class DecisionTree implements Filter {
  readonly refusal = "the request was dropped because backend resources are limited";
  readonly #settings: typeof DEFAULTS;
  /** Indices of the remaining candidates, ascending; only the first `#size` count. */
  #set = new Uint32Array(16);
  #size = 0;
  /** By candidate; as long as `#set`. */
  #waiting = new Float64Array(16);
  #kvUsage = new Float64Array(16);
  #affinity = new Uint8Array(16);

  constructor(settings: typeof DEFAULTS) {
    this.#settings = settings;
  }

  filter({ request, candidates, keep, random }: FilterContext): void {
    this.#load(candidates);
    if (request.priority > 0) this.#lowLatency(candidates, request.targetModel, random);
    else this.#sheddable(candidates, request.targetModel, random);
    keep.fill(0, 0, candidates.count);
    for (let i = 0; i < this.#size; i++) keep[this.#set[i]!] = 1;
  }

  /**
   * Loads every candidate with its last scraped values, of any age. v0.3 knew no stale values, and an endpoint never scraped
   * had zeros (scheduling 2.3(4)).
   */
  #load({ endpoints, count }: Candidates): void {
    if (count > this.#set.length) this.#grow(count);
    for (let i = 0; i < count; i++) {
      const { waiting, kvUsage } = endpoints[i]!.metrics;
      this.#set[i] = i;
      this.#waiting[i] = Number.isNaN(waiting) ? 0 : waiting;
      this.#kvUsage[i] = Number.isNaN(kvUsage) ? 0 : kvUsage;
    }
    this.#size = count;
  }

  #lowLatency(candidates: Candidates, model: string, random: Random): void {
    const { queuingThresholdLoRA } = this.#settings;
    const all = this.#size;
    let short = 0;
    for (let i = 0; i < all; i++) if (this.#waiting[i]! < queuingThresholdLoRA) this.#set[short++] = i;
    // When `short` is 0, the loop has written nothing: the set still has all candidates.
    if (short > 0) {
      this.#size = short;
      this.#loraAffinity(candidates, model, random);
      this.#least(this.#waiting);
    } else {
      this.#least(this.#waiting);
      this.#loraAffinity(candidates, model, random);
    }
    this.#least(this.#kvUsage);
  }

  #sheddable(candidates: Candidates, model: string, random: Random): void {
    const { queueThresholdCritical, kvCacheThreshold } = this.#settings;
    const all = this.#size;
    this.#size = 0;
    for (let i = 0; i < all; i++)
      if (this.#waiting[i]! <= queueThresholdCritical && this.#kvUsage[i]! <= kvCacheThreshold)
        this.#set[this.#size++] = i;
    if (this.#size === 0) return;
    this.#least(this.#waiting);
    this.#loraAffinity(candidates, model, random);
    this.#least(this.#kvUsage);
  }

  /**
   * Keeps the candidates in the lowest n-th of the range of values, with n candidates. The tree of v0.3 divides queues in whole
   * numbers, which gives the same result for whole values.
   */
  #least(values: Float64Array): void {
    let low = Number.POSITIVE_INFINITY;
    let high = 0;
    for (let i = 0; i < this.#size; i++) {
      const value = values[this.#set[i]!]!;
      if (value < low) low = value;
      if (value > high) high = value;
    }
    const bound = low + (high - low) / this.#size;
    let kept = 0;
    for (let i = 0; i < this.#size; i++) {
      const index = this.#set[i]!;
      if (values[index]! <= bound) this.#set[kept++] = index;
    }
    this.#size = kept;
  }

  /**
   * Keeps the candidates that have the adapter, or with some probability those with room for it. Keeps all when there are
   * neither.
   */
  #loraAffinity({ endpoints }: Candidates, model: string, random: Random): void {
    let having = 0;
    let roomy = 0;
    for (let i = 0; i < this.#size; i++) {
      const index = this.#set[i]!;
      const affinity = affinityOf(endpoints[index]!.metrics, model);
      this.#affinity[index] = affinity;
      if (affinity === HAS) having++;
      else if (affinity === ROOM) roomy++;
    }
    if (having === 0 && roomy === 0) return;
    const wanted =
      having === 0 ? ROOM : roomy === 0 || random.next() < this.#settings.loraAffinityThreshold ? HAS : ROOM;
    let kept = 0;
    for (let i = 0; i < this.#size; i++) {
      const index = this.#set[i]!;
      if (this.#affinity[index] === wanted) this.#set[kept++] = index;
    }
    this.#size = kept;
  }

  #grow(count: number): void {
    const room = 2 ** Math.ceil(Math.log2(count));
    this.#set = new Uint32Array(room);
    this.#waiting = new Float64Array(room);
    this.#kvUsage = new Float64Array(room);
    this.#affinity = new Uint8Array(room);
  }
}

const HAS = 1;
const ROOM = 2;
const NEITHER = 0;

/**
 * v0.3 counted waiting adapters as active too (scheduling 1.6). Without LoRA metrics an endpoint has no room (scheduling
 * 2.3(6)).
 */
function affinityOf(
  { loraRunning, loraWaiting, maxLora }: Candidates["endpoints"][number]["metrics"],
  model: string,
): number {
  if (loraRunning.has(model) || loraWaiting.has(model)) return HAS;
  let active = loraRunning.size;
  for (const name of loraWaiting) if (!loraRunning.has(name)) active++;
  return active < maxLora ? ROOM : NEITHER;
}

function defined(given: DecisionTreeParameters): Partial<typeof DEFAULTS> {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}
