import type { Endpoint } from "../../../src/base/inference/endpoint.ts";
import type { InferenceRequest } from "../../../src/base/inference/request.ts";
import type { SlowParameters } from "./slow-config.cases.ts";

// What the slow scheduler remembers from one request to the next, out of texts, arrays and maps.

/** What one producer of prefix matches says about one request (scheduling 3.10.4, "publish"). */
export interface SlowMatch {
  readonly matched: ReadonlyMap<string, number>;
  readonly total: number;
  readonly blockTokens: number;
  /** Per prompt its blocks, each as the text of everything up to its end. */
  readonly blocks: readonly (readonly string[])[];
}

/** The prompts of a request as texts: every range of one prompt, joined. */
export function promptsOf({ body, prompts }: InferenceRequest): string[] {
  const text = new TextDecoder("latin1").decode(body);
  return prompts.map((ranges) => ranges.map(({ start, end }) => text.slice(start, end)).join(""));
}

/**
 * Pseudo tokens of a request: four bytes are one (scheduling 3.11). House rule: of all prompts together, where the reference counts
 * each by itself, so that it may come to one token more per prompt.
 */
export function inputTokensOf(request: InferenceRequest): number {
  return Math.ceil(promptsOf(request).join("").length / 4);
}

/** `approx-prefix-cache-producer` (scheduling 3.10), with the reference's defects mended as scheduling 3.10.4 proposes. */
export class SlowPrefixes {
  readonly #parameters: SlowParameters;
  /** By endpoint: blocks and the tokens that each stood for when it was last used, longest ago first. */
  readonly #held = new Map<string, readonly (readonly [block: string, tokens: number])[]>();

  constructor(parameters: SlowParameters) {
    this.#parameters = parameters;
  }

  match(request: InferenceRequest, candidates: readonly Endpoint[]): SlowMatch {
    const blockTokens = this.#blockTokens(candidates);
    const blocks = this.#blocksOf(request, blockTokens);
    const matched = new Map<string, number>();
    for (const { id } of candidates) {
      let sum = 0;
      for (const prompt of blocks)
        for (const block of prompt) {
          if (!this.#held.get(id)?.some(([held]) => held === block)) break;
          sum++;
        }
      matched.set(id, sum);
    }
    return { matched, total: blocks.flat().length, blockTokens, blocks };
  }

  /** The request was routed: the head of a prompt counts as used last, so that its tail is forgotten first. */
  add({ blocks, blockTokens }: SlowMatch, endpoint: Endpoint): void {
    const used = blocks.flat().reverse();
    if (used.length === 0) return;
    const others = (this.#held.get(endpoint.id) ?? []).filter(([block]) => !used.includes(block));
    const distinct = used.filter((block, at) => used.lastIndexOf(block) === at);
    const all = [...others, ...distinct.map((block) => [block, blockTokens] as const)];
    const { blocks: room, tokens } = this.#capacityOf(endpoint);
    const fits = (from: number) => all.slice(from).reduce((sum, [, size]) => sum + size, 0) <= tokens;
    let from = Math.max(0, all.length - room);
    while (from < all.length - 1 && !fits(from)) from++;
    this.#held.set(endpoint.id, all.slice(from));
  }

  forget(id: string): void {
    this.#held.delete(id);
  }

  /** House rule: the first candidate that knows its block size decides, not the first of all. */
  #blockTokens(candidates: readonly Endpoint[]): number {
    const { autoTune = true, blockSizeTokens = 16, blockSize } = this.#parameters;
    const configured = blockSizeTokens === 16 ? (blockSize ?? 16) : blockSizeTokens;
    const reported = autoTune ? candidates.map(({ metrics }) => metrics.blockSize).find((size) => size > 0) : undefined;
    return Math.max(64, reported ?? configured);
  }

  #blocksOf(request: InferenceRequest, blockTokens: number): string[][] {
    const { maxPrefixTokensToMatch = 131_072, maxPrefixBlocksToMatch = 2048 } = this.#parameters;
    let left =
      maxPrefixTokensToMatch > 0
        ? Math.floor(maxPrefixTokensToMatch / blockTokens)
        : maxPrefixBlocksToMatch === 0
          ? Number.POSITIVE_INFINITY
          : maxPrefixBlocksToMatch;
    // House rule: a block is what it ends on and its own length, however long those before it were (docs/adr/0004).
    return promptsOf(request).map((prompt) => {
      const blocks: string[] = [];
      for (let at = 0; at < prompt.length && left > 0; at += blockTokens * 4, left--) {
        const upTo = prompt.slice(0, at + blockTokens * 4);
        blocks.push(JSON.stringify([request.targetModel, request.cacheSalt, upTo, upTo.length - at]));
      }
      return blocks;
    });
  }

  /** scheduling 3.10.4(4) and (5): as many tokens as the engine has room for now; one block stays, however large. */
  #capacityOf({ metrics: { blocks, blockSize } }: Endpoint): { blocks: number; tokens: number } {
    const { autoTune = true, lruCapacityPerServer = 31_250 } = this.#parameters;
    if (autoTune && blocks * blockSize > 0) return { blocks: Number.POSITIVE_INFINITY, tokens: blocks * blockSize };
    return { blocks: lruCapacityPerServer, tokens: Number.POSITIVE_INFINITY };
  }
}

/** Endpoints that took cold prompts, the one that was used longest ago first (scheduling 3.9.3). */
export class SlowColdUses {
  readonly #size: number;
  #used: string[] = [];

  constructor({ lruSize = 1024 }: SlowParameters) {
    this.#size = lruSize > 0 ? lruSize : 1024;
  }

  /** Rank of each candidate: 0 = best. */
  ranks(candidates: readonly Endpoint[]): Map<string, number> {
    const never = candidates.filter(({ id }) => !this.#used.includes(id));
    return new Map(
      candidates.map((candidate) => [
        candidate.id,
        never.includes(candidate) ? never.indexOf(candidate) : never.length + this.#used.indexOf(candidate.id),
      ]),
    );
  }

  use(id: string): void {
    this.#used = [...this.#used.filter((other) => other !== id), id].slice(-this.#size);
  }

  forget(id: string): void {
    this.#used = this.#used.filter((other) => other !== id);
  }
}

/** Sessions and the ids of their endpoints (scheduling 3.9.2). None of them is idle for long enough to be forgotten here. */
export class SlowSessions {
  readonly #parameters: SlowParameters;
  readonly #bound = new Map<string, string>();

  constructor(parameters: SlowParameters) {
    this.#parameters = parameters;
  }

  /** The id of the endpoint that the request's session is bound to. */
  boundTo({ headers }: InferenceRequest): string | undefined {
    if (this.#parameters.strategy === "session_id") return this.#bound.get(this.#sessionOf(headers) ?? "");
    const { header = "x-session-token" } = this.#parameters.encodedEndpointHeaderConfig ?? {};
    const token = headers.get(header.toLowerCase())?.trim();
    return token === undefined || !/^[A-Za-z0-9+/]+=*$/.test(token) ? undefined : atob(token);
  }

  /** The request was routed. @param wasCandidate whether the bound endpoint was among the candidates */
  routed(
    request: InferenceRequest,
    chosen: ReadonlyMap<string, Endpoint>,
    primary: string,
    candidates: readonly Endpoint[],
  ) {
    const session = this.#sessionOf(request.headers);
    const endpoint = chosen.get(this.#parameters.profileName || primary);
    if (this.#parameters.strategy !== "session_id" || session === undefined || endpoint === undefined) return;
    const bound = this.#bound.get(session);
    if (bound !== undefined && candidates.some(({ id }) => id === bound)) return;
    this.#bound.set(session, endpoint.id);
  }

  #sessionOf(headers: InferenceRequest["headers"]): string | undefined {
    const { sources = [{ header: "x-session-id" }] } = this.#parameters.sessionIdConfig ?? {};
    for (const { header } of sources) {
      const value = headers.get(header.toLowerCase())?.trim();
      if (value) return value;
    }
    return undefined;
  }
}
