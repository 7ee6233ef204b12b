import { z } from "zod";
import type { InferenceRequest } from "../../../base/inference/request.ts";
import { defineFairnessPolicy } from "../../../base/plugin/define.ts";
import type { FlowChoice, QueuedFlow, QueuedRequest, ServedTokens } from "../../../base/plugin/flow-kinds.ts";
import { IndexedHeap } from "../indexed-heap.ts";
import { FlowShares } from "./flow-shares.ts";

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
      "Weight by fairness ID: a flow of weight 2 gets twice the tokens of a flow of weight 1. Any other flow has the weight of its InferenceObjectives or InferenceModels, 1 by default.",
    ),
  reserve: z
    .number("the reserve must be a number")
    .min(0, "the reserve must be at least 0")
    .max(0.9, "the reserve must be at most 0.9")
    .default(0)
    .describe(
      "Part of the room of the band, 0 to 0.9, that flows above their share leave free. A flow is above its share if it has more than its part of the tokens that fit in flight. All flows of the last minute share the room.",
    ),
});

/** Not a type of the reference: the fair share of tokens that the InferenceModel API promises (api-resources 2). */
export const tokenDeficitFairnessPolicy = defineFairnessPolicy({
  type: "token-deficit-fairness-policy",
  describe:
    "Flows with queued requests get equal shares of tokens, or shares by weight. A request costs its prompt tokens and the expected tokens of its answer. After the answer, the reported usage counts instead.",
  parameters,
  create: ({ weights, reserve }) => {
    const expected = new ExpectedAnswer();
    const byId = new Map(Object.entries(weights));
    const weightOf: WeightOf = ({ fairnessId, fairnessWeight }) => byId.get(fairnessId) ?? fairnessWeight ?? 1;
    return { choice: () => new TokenDeficit(weightOf, expected, new FlowShares(reserve)) };
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
  /** The heap that it is in while it has queued requests. */
  heap: IndexedHeap<Tag>;
}

/** The most flows whose figures are kept; those of idle flows go first. */
const MAX_TAGS = 4096;
/** Places that become free at a time, if as many flows are idle: so a new flow rarely has to look for one. */
const FREED = 256;

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
  /** The one that was looked up last: a request that leaves looks its flow up three times in a row. */
  #last: Tag | undefined;
  /** Those of flows without queued requests, in the order in which they became idle. */
  readonly #idle = new Set<Tag>();
  readonly #queued = new IndexedHeap<Tag>();
  /** Flows above their share, since it was looked at last: they leave only while the reserve is free. */
  readonly #above = new IndexedHeap<Tag>();
  readonly #shares: FlowShares;
  #time = 0;
  #joins = 0;

  constructor(weightOf: WeightOf, expected: ExpectedAnswer, shares: FlowShares) {
    this.#weightOf = weightOf;
    this.#expected = expected;
    this.#shares = shares;
  }

  joined(flow: QueuedFlow): void {
    const tag = this.#tagOf(flow.fairnessId);
    this.#idle.delete(tag);
    tag.at = Math.max(tag.at, this.#time);
    tag.order = this.#joins++;
    tag.flow = flow;
    this.#put(tag, this.#queued);
    this.#shares.seen(flow.fairnessId, tag.weight, flow.head.enqueuedAt);
  }

  left({ fairnessId }: QueuedFlow): void {
    const tag = this.#find(fairnessId);
    if (tag === undefined) return;
    tag.heap.remove(tag);
    tag.flow = undefined;
    this.#idle.add(tag);
  }

  next(_now: number, fill: number): QueuedFlow | null {
    let first = this.#queued.first;
    if (!this.#shares.isReserved(fill)) {
      const above = this.#above.first;
      return (first === undefined || (above !== undefined && isBefore(above, first)) ? above! : first).flow!;
    }
    for (; first !== undefined; first = this.#queued.first) {
      if (!this.#shares.isAbove(first.fairnessId, fill)) return first.flow!;
      this.#put(first, this.#above);
    }
    return null;
  }

  holds(fairnessId: string, fill: number): boolean {
    return this.#shares.isReserved(fill) && this.#shares.isAbove(fairnessId, fill);
  }

  served(): void {
    // `dispatched` follows with the request.
  }

  dispatched({ request, enqueuedAt, tokens }: QueuedRequest): number {
    const charged = tokens + this.#expected.of(request.maxTokens);
    const tag = this.#tagOf(request.fairnessId);
    tag.weight = this.#weightOf(request);
    const start = tag.flow === undefined ? Math.max(this.#time, tag.at) : tag.at;
    // Virtual time does not go back.
    this.#time = Math.max(this.#time, start);
    this.#move(tag, start + charged / tag.weight);
    this.#shares.seen(tag.fairnessId, tag.weight, enqueuedAt);
    this.#shares.add(tag.fairnessId, charged);
    return charged;
  }

  ended(fairnessId: string, { promptTokens: prompt, completionTokens }: ServedTokens, charged: number): void {
    const tokens = prompt + completionTokens;
    const tag = this.#find(fairnessId);
    this.#shares.add(fairnessId, -charged);
    // It may be back within its share.
    if (tag?.flow !== undefined && tag.heap === this.#above) this.#put(tag, this.#queued);
    if (Number.isNaN(tokens)) return;
    this.#expected.learn(completionTokens);
    if (tag !== undefined) this.#move(tag, tag.at + (tokens - charged) / tag.weight);
  }

  #move(tag: Tag, at: number): void {
    tag.at = at;
    if (tag.flow !== undefined) tag.heap.moved(tag, at);
  }

  #put(tag: Tag, heap: IndexedHeap<Tag>): void {
    tag.heap.remove(tag);
    tag.heap = heap;
    heap.add(tag, tag.at, tag.order);
  }

  #find(fairnessId: string): Tag | undefined {
    if (this.#last?.fairnessId !== fairnessId) this.#last = this.#tags.get(fairnessId);
    return this.#last;
  }

  #tagOf(fairnessId: string): Tag {
    const known = this.#find(fairnessId);
    if (known !== undefined) return known;
    if (this.#tags.size >= MAX_TAGS) this.#forget();
    const tag: Tag = {
      fairnessId,
      at: this.#time,
      weight: 1,
      flow: undefined,
      order: 0,
      place: -1,
      heap: this.#queued,
    };
    this.#tags.set(fairnessId, tag);
    this.#idle.add(tag);
    return tag;
  }

  /** Forgets idle flows: first those that owe nothing, then those that are idle for longest. Flows with queued requests stay. */
  #forget(): void {
    for (const tag of this.#idle) if (tag.at <= this.#time) this.#drop(tag);
    for (const tag of this.#idle) {
      if (this.#tags.size <= MAX_TAGS - FREED) return;
      this.#drop(tag);
    }
  }

  #drop(tag: Tag): void {
    this.#idle.delete(tag);
    this.#tags.delete(tag.fairnessId);
    if (this.#last === tag) this.#last = undefined;
  }
}

/** Of two flows with queued requests: whether the first one is served before the other. */
function isBefore(a: Tag, b: Tag): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order);
}
