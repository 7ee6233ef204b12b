import type { AnswerListener } from "../../base/inference/cache-report.ts";
import { isNotAfter, NEVER } from "./entry-lru.ts";
import type { PrefixIndex } from "./prefix-index.ts";

/** The most requests of an endpoint whose first byte is awaited. The oldest ones are forgotten first. */
const MAX_UNANSWERED = 1024;
/** The most parts of a chain, each of blocks that were used last in one turn. What lies behind them teaches nothing. */
const MAX_PARTS = 16;
/** Answers in a row that must contradict the index before it changes. */
const ENOUGH_MISSES = 2;
/** Blocks that one answer makes an endpoint lose: at most this share of its blocks, and at most this number. */
const MOST_SHARE = 0.5;
const MOST_BLOCKS = 8192;
/** A report contradicts the index where it has fewer than this share of the expected blocks. */
const FAR_FEWER = 0.75;
/** A report is too late when the endpoint has used so many blocks since, as a share of those that it holds. */
const LATE = 0.25;
/** Tokens are not spread evenly over the blocks of a prompt: so many more blocks than the report says may be there. */
const UNEVEN = 1.1;
/** Where the estimate of a prompt's tokens is wrong by more than this factor, the places of its blocks are unknown. */
const WORST_ESTIMATE = 2.5;

/** What is known of one endpoint from its answers. */
interface Evidence {
  readonly slot: number;
  /** Turns of requests whose first byte is awaited, in order. */
  readonly unanswered: Set<number>;
  /** Answers in a row that contradict the index, and the earliest turn of the blocks that they lack. */
  misses: number;
  horizon: number;
}

/** A request that was added to the index. */
export interface Placed {
  readonly slot: number;
  /** As `PrefixIndex.add` returns it. */
  readonly turn: number;
  /** As `PrefixIndex.add` writes it: the turn in which each block was used before. */
  readonly before: Int32Array;
  /** Blocks of the request, all of one prompt, and the tokens in them by estimate. */
  readonly blocks: number;
  readonly tokens: number;
}

/**
 * Corrects a prefix index by the answers of the endpoints, which say how many tokens of a prompt they had in their cache.
 *
 * The blocks of the request itself need no correction: by the time of its answer, the endpoint has computed them. The report says
 * how far back the memory of the endpoint goes. Engines drop the least recently used blocks first, so an endpoint that lacked a
 * block lacks all that it used no later. A restart is the same with a later turn: nothing from before it is there.
 *
 * Old news says nothing. An answer ends long after its prompt was looked up, and in between the endpoint has got back much of what
 * it lost. If the index forgot the rest then, requests for it would go to endpoints that have to compute it, too.
 *
 * One answer may mislead: some requests do not read the cache, and chance has a part in the order of eviction. So two answers in a
 * row must say so, and an endpoint that still has blocks of that age takes the first one back. One answer makes an endpoint lose
 * half of its blocks at most.
 */
export class AnswerLessons {
  readonly #index: PrefixIndex;
  /** By slot. */
  readonly #evidence = new Map<number, Evidence>();
  /** Times that the index was corrected, and the blocks that it lost by that. */
  corrections = 0;
  dropped = 0;

  constructor(index: PrefixIndex) {
    this.#index = index;
  }

  /** Begins to wait for the answer to a request. The caller may use `before` again. */
  open({ slot, turn, before, blocks, tokens }: Placed): Required<AnswerListener> {
    const evidence = this.#of(slot);
    const { unanswered } = evidence;
    // Blocks that a request brings are there when the first byte of its answer is.
    const settled: number = unanswered.values().next().value ?? turn;
    unanswered.add(turn);
    if (unanswered.size > MAX_UNANSWERED) unanswered.delete(settled);
    const parts = partsOf(before, blocks);
    const uses = this.#index.usesOf(slot);
    return {
      answered: () => {
        unanswered.delete(turn);
      },
      ended: (report) => {
        unanswered.delete(turn);
        if (report === undefined || this.#evidence.get(slot) !== evidence) return;
        const wrong = report.promptTokens / tokens;
        if (this.#index.usesOf(slot) - uses > LATE * this.#index.blocksOf(slot)) return;
        if (!(wrong <= WORST_ESTIMATE && wrong >= 1 / WORST_ESTIMATE)) return;
        this.#learn(evidence, parts, settled, (blocks * report.cachedTokens) / report.promptTokens);
      },
    };
  }

  /** Forgets an endpoint that has left the pool. */
  forget(slot: number): void {
    this.#evidence.delete(slot);
  }

  /** @param had blocks at the beginning of the prompt that the endpoint had by its report; not necessarily whole */
  #learn(evidence: Evidence, parts: Parts, settled: number, had: number): void {
    const expected = parts.at(-1)?.end ?? 0;
    const oldest = turnAt(parts, Math.min(Math.floor(had), expected) - 1);
    // The endpoint has blocks of that age, so it lacked none of a later one.
    if (oldest !== NEVER && evidence.misses > 0 && isNotAfter(oldest, evidence.horizon)) evidence.misses = 0;
    if (had >= FAR_FEWER * expected - 1) return;
    const missing = turnAt(parts, Math.ceil(UNEVEN * had) + 1);
    if (missing === NEVER || isNotAfter(settled, missing)) return;
    if (evidence.misses === 0 || isNotAfter(missing, evidence.horizon)) evidence.horizon = missing;
    if (++evidence.misses < ENOUGH_MISSES) return;
    evidence.misses = 0;
    const most = Math.min(MOST_BLOCKS, Math.ceil(MOST_SHARE * this.#index.blocksOf(evidence.slot)));
    const dropped = this.#index.dropOlder(evidence.slot, evidence.horizon, most);
    if (dropped > 0) this.corrections++;
    this.dropped += dropped;
  }

  #of(slot: number): Evidence {
    let evidence = this.#evidence.get(slot);
    if (evidence === undefined) {
      evidence = { slot, unanswered: new Set(), misses: 0, horizon: NEVER };
      this.#evidence.set(slot, evidence);
    }
    return evidence;
  }
}

/** Leading blocks that the endpoint was expected to have: the end of each part, and the turn of its last use. */
type Parts = readonly { readonly end: number; readonly turn: number }[];

function partsOf(before: Int32Array, blocks: number): Parts {
  const parts: { readonly end: number; readonly turn: number }[] = [];
  for (let start = 0; start < blocks && before[start] !== NEVER && parts.length < MAX_PARTS; ) {
    const turn = before[start]!;
    let end = start + 1;
    while (end < blocks && before[end] === turn) end++;
    parts.push({ end, turn });
    start = end;
  }
  return parts;
}

/** Returns the turn of a block; `NEVER` for one that is in no part. */
function turnAt(parts: Parts, block: number): number {
  if (block < 0) return NEVER;
  return parts.find(({ end }) => block < end)?.turn ?? NEVER;
}
