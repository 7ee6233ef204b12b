import { z } from "zod";
import { type InferenceRequest, promptTokens } from "../../../base/inference/request.ts";
import { defineFairnessPolicy } from "../../../base/plugin/define.ts";
import type { FlowChoice, QueuedFlow, QueuedRequest, ServedTokens } from "../../../base/plugin/flow-kinds.ts";
import { type HeapOrder, IndexedHeap } from "../indexed-heap.ts";

const parameters = z.strictObject({
  weights: z
    .record(
      z.string().min(1).max(256),
      z
        .number("a weight must be a number")
        .min(0.001, "a weight must be at least 0.001")
        .max(1_000_000, "a weight must be at most 1000000"),
    )
    .default({})
    .describe(
      "Weight by fairness ID: a flow of weight 2 gets twice the tokens of a flow of weight 1. A flow that is not named has the weight of its InferenceObjectives or InferenceModels, 1 by default.",
    ),
});

/** Not a type of the reference: the fair share of tokens that the InferenceModel API promises (api-resources 2). */
export const tokenDeficitFairnessPolicy = defineFairnessPolicy({
  type: "token-deficit-fairness-policy",
  describe:
    "Flows with queued requests get equal shares of tokens, or shares by weight. A request is charged with its prompt tokens and the expected length of its answer, and with what its answer reports in the end.",
  parameters,
  create: ({ weights }) => {
    const expected = new ExpectedAnswer();
    const byId = new Map(Object.entries(weights));
    const weightOf: WeightOf = ({ fairnessId, fairnessWeight }) => byId.get(fairnessId) ?? fairnessWeight ?? 1;
    return { choice: () => new TokenDeficit(weightOf, expected) };
  },
});

type WeightOf = (request: Pick<InferenceRequest, "fairnessId" | "fairnessWeight">) => number;

/** The mean length of an answer in tokens, smoothed. */
class ExpectedAnswer {
  #mean = 256;

  /** @param most tokens that the request allows; NaN = any number */
  of(most: number): number {
    return most < this.#mean ? most : this.#mean;
  }

  learn(completionTokens: number): void {
    this.#mean += (completionTokens - this.#mean) / 64;
  }
}

/** One flow in virtual time. */
interface Tag {
  readonly fairnessId: string;
  /** Charged tokens by weight: of the requests so far. The flow with the lowest figure is served next. */
  at: number;
  /** Of the last request: those of one flow may have different ones. The end of a request counts by it. */
  weight: number;
  /** Exists while the flow has queued requests. */
  flow: QueuedFlow | undefined;
  /** Arrival among the flows: breaks ties. */
  order: number;
  place: number;
}

const BY_TAG: HeapOrder<Tag> = {
  before: (a, b) => a.at < b.at || (a.at === b.at && a.order < b.order),
  place: (tag) => tag.place,
  setPlace: (tag, place) => {
    tag.place = place;
  },
};

/** The most flows whose figures are kept; those of idle flows go first. */
const MAX_TAGS = 4096;

/**
 * The flows of one band, by start-time fair queueing (Goyal, Vin, Cheng: SIGCOMM 1996). Virtual time is the figure of the flow
 * that was served last. A flow that begins to wait starts at virtual time or at its own figure, whichever is later: it has no
 * claim for time in which it sent nothing, and owes nothing for tokens that no other flow wanted. A flow that was charged too much
 * gets the rest back while it waits, also when its figure then is below virtual time.
 */
class TokenDeficit implements FlowChoice {
  readonly #weightOf: WeightOf;
  readonly #expected: ExpectedAnswer;
  readonly #tags = new Map<string, Tag>();
  readonly #queued = new IndexedHeap(BY_TAG);
  #time = 0;
  #joins = 0;

  constructor(weightOf: WeightOf, expected: ExpectedAnswer) {
    this.#weightOf = weightOf;
    this.#expected = expected;
  }

  joined(flow: QueuedFlow): void {
    const tag = this.#tagOf(flow.fairnessId);
    tag.at = Math.max(tag.at, this.#time);
    tag.order = this.#joins++;
    tag.flow = flow;
    this.#queued.add(tag);
  }

  left({ fairnessId }: QueuedFlow): void {
    const tag = this.#tags.get(fairnessId);
    if (tag === undefined) return;
    this.#queued.remove(tag);
    tag.flow = undefined;
  }

  next(): QueuedFlow {
    return this.#queued.first!.flow!;
  }

  served(): void {
    // `dispatched` follows with the request.
  }

  dispatched({ request }: QueuedRequest): number {
    const charged = promptTokens(request) + this.#expected.of(request.maxTokens);
    const tag = this.#tagOf(request.fairnessId);
    tag.weight = this.#weightOf(request);
    const start = tag.flow === undefined ? Math.max(this.#time, tag.at) : tag.at;
    // Virtual time does not go back.
    this.#time = Math.max(this.#time, start);
    this.#move(tag, start + charged / tag.weight);
    return charged;
  }

  ended(fairnessId: string, { promptTokens: prompt, completionTokens }: ServedTokens, charged: number): void {
    const tokens = prompt + completionTokens;
    if (Number.isNaN(tokens)) return;
    this.#expected.learn(completionTokens);
    const tag = this.#tags.get(fairnessId);
    if (tag !== undefined) this.#move(tag, tag.at + (tokens - charged) / tag.weight);
  }

  #move(tag: Tag, at: number): void {
    if (tag.flow === undefined) {
      tag.at = at;
      return;
    }
    this.#queued.remove(tag);
    tag.at = at;
    this.#queued.add(tag);
  }

  #tagOf(fairnessId: string): Tag {
    const known = this.#tags.get(fairnessId);
    if (known !== undefined) return known;
    if (this.#tags.size >= MAX_TAGS) this.#forget();
    const tag: Tag = { fairnessId, at: this.#time, weight: 1, flow: undefined, order: 0, place: -1 };
    this.#tags.set(fairnessId, tag);
    return tag;
  }

  /** Forgets idle flows: first those that owe nothing, then the oldest. Flows with queued requests stay. */
  #forget(): void {
    for (const { fairnessId, flow, at } of this.#tags.values())
      if (flow === undefined && at <= this.#time) this.#tags.delete(fairnessId);
    for (const { fairnessId, flow } of this.#tags.values()) {
      if (this.#tags.size < MAX_TAGS) return;
      if (flow === undefined) this.#tags.delete(fairnessId);
    }
  }
}
