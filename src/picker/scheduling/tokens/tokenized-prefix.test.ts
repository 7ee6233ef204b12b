import { describe, expect, it } from "vitest";
import {
  columnsOf,
  endpointOf,
  instanceOf,
  produceContextOf,
  requestOf,
} from "../../../../test/support/scheduling/fakes.cases.ts";
import type { InferenceRequest } from "../../../base/inference/request.ts";
import {
  PREFIX_MATCHED_BLOCKS,
  PREFIX_TOTAL_BLOCKS,
  TOKENIZED_PROMPT,
  type TokenizedPrompt,
} from "../../../base/plugin/keys.ts";
import { approxPrefixCacheProducer } from "../plugins/prefix/approx-prefix-cache-producer.ts";
import { tokenProducer } from "../plugins/token-producer.ts";
import { renderedTokens } from "./render.ts";

const KEYS = approxPrefixCacheProducer.produces.map((key) => [key, []] as const);
const pool = [endpointOf(0), endpointOf(1)];

/** `count` tokens that differ. */
const counting = (count: number, from = 1): number[] => Array.from({ length: count }, (_, i) => from + i);
const rendered = (...prompts: number[][]) => renderedTokens(prompts.map((token_ids) => ({ token_ids })));

/** A prefix cache, as requests come by it. */
function cache() {
  const producer = instanceOf(approxPrefixCacheProducer);
  const see = (tokens: TokenizedPrompt | undefined, request: InferenceRequest, takenBy?: number) => {
    const candidates = columnsOf(pool, [...KEYS, [TOKENIZED_PROMPT, tokens]]);
    producer.produce(produceContextOf(candidates, request));
    const seen = {
      matched: [...candidates.column(PREFIX_MATCHED_BLOCKS).slice(0, 2)],
      total: candidates.column(PREFIX_TOTAL_BLOCKS)[0],
    };
    if (takenBy !== undefined) producer.routed?.(request, pool[takenBy]!, new Map());
    return seen;
  };
  return see;
}

describe("prefixes of tokens", () => {
  it("S-50, S-53: count tokens, not bytes, a partial block included; the same tokens match whatever the text", () => {
    const see = cache();
    const tokens = counting(300);
    expect(see(rendered(tokens), requestOf("short"), 1)).toEqual({ matched: [0, 0], total: 5 });
    expect(see(rendered(tokens), requestOf("another  text"))).toEqual({ matched: [0, 5], total: 5 });
    expect(see(rendered([...tokens.slice(0, 128), ...counting(100, 9000)]), requestOf("short")).matched).toEqual([
      0, 2,
    ]);
    expect(see(rendered(counting(300, 5000)), requestOf("short")).matched).toEqual([0, 0]);
  });

  it("S-51: another model or cache salt matches nothing", () => {
    const see = cache();
    const tokens = rendered(counting(300));
    see(tokens, requestOf("p"), 1);
    expect(see(tokens, requestOf("p", { targetModel: "other" })).matched).toEqual([0, 0]);
    expect(see(tokens, requestOf("p", { cacheSalt: "tenant" })).matched).toEqual([0, 0]);
    expect(see(tokens, requestOf("p")).matched).toEqual([0, 5]);
  });

  it("are those of each prompt of a request, added up", () => {
    const see = cache();
    see(rendered(counting(100), counting(64, 5000)), requestOf("p"), 0);
    expect(see(rendered(counting(64, 5000), counting(200, 7000)), requestOf("p"))).toEqual({
      matched: [1, 0],
      total: 5,
    });
  });

  it("are not those of texts: a request whose tokens are not there matches nothing that was seen as tokens", () => {
    const see = cache();
    const request = requestOf("once upon a time ".repeat(40));
    see(rendered(counting(160)), request, 0);
    expect(see(undefined, request).matched).toEqual([0, 0]);
  });

  it("of a conversation that goes on with an image match what came before it as text", () => {
    const see = cache();
    const estimate = instanceOf(tokenProducer);
    const first = JSON.stringify([{ role: "user", content: "once upon a time ".repeat(40) }]);
    const image = { role: "user", content: [{ type: "image_url", image_url: { url: "https://a/1.png" } }] };
    const second = JSON.stringify([...JSON.parse(first), image]);
    const tokensOf = (request: InferenceRequest): TokenizedPrompt | undefined => {
      const columns = columnsOf(pool, [[TOKENIZED_PROMPT, undefined]]);
      estimate.produce(produceContextOf(columns, request));
      return columns.attribute(TOKENIZED_PROMPT);
    };
    const [one, two] = [requestOf(first), requestOf(second)];
    expect(tokensOf(one)).toBeUndefined();
    const { total } = see(tokensOf(one), one, 1);
    // The last block of the first request is partial.
    expect(see(tokensOf(two), two, 1).matched).toEqual([0, total! - 1]);
    const again = see(tokensOf(two), two);
    expect(again.matched).toEqual([0, again.total]);
  });
});
