import { describe, expect, it } from "vitest";
import { instanceOf, requestOf } from "../../../../../test/support/scheduling/fakes.cases.ts";
import { resultOf } from "../../../../../test/support/scheduling/plugins/profiles/handlers.cases.ts";
import { PREFIX_BLOCK_TOKENS, PREFIX_MATCHED_BLOCKS } from "../../../../base/plugin/keys.ts";
import type { Decider, ProfileResult } from "../../../../base/plugin/kinds.ts";
import { alwaysDisaggMultimodalDecider, alwaysDisaggPdDecider, prefixBasedPdDecider } from "./deciders.ts";

function ask(decider: Decider, inputTokens: number, result?: ProfileResult, request = requestOf("p")): boolean {
  return decider.decide({ request, result, inputTokens });
}

/** An endpoint believed to hold this many blocks of 64 tokens. */
function holding(blocks: number): ProfileResult {
  return resultOf(
    [0],
    new Map([
      [PREFIX_MATCHED_BLOCKS, blocks],
      [PREFIX_BLOCK_TOKENS, 64],
    ]),
  );
}

describe("prefix-based-pd-decider (scheduling 3.7.1)", () => {
  it.each([
    ["nonCachedTokens 0 says never", {}, 10_000, 0, false],
    ["fewer tokens than nonCachedTokens", { nonCachedTokens: 512 }, 511, 0, false],
    ["as many tokens, none cached", { nonCachedTokens: 512 }, 512, 0, true],
    ["one too many cached", { nonCachedTokens: 512 }, 575, 1, false],
    ["just enough left", { nonCachedTokens: 512 }, 576, 1, true],
    ["a long prompt, nearly all cached", { nonCachedTokens: 512 }, 64_500, 1000, false],
    ["fewer tokens than promptTokens", { nonCachedTokens: 10, promptTokens: 1000 }, 999, 0, false],
    ["as many tokens as promptTokens", { nonCachedTokens: 10, promptTokens: 1000 }, 1000, 0, true],
  ] as const)("%s", (_, parameters, inputTokens, blocks, expected) => {
    expect(ask(instanceOf(prefixBasedPdDecider, parameters), inputTokens, holding(blocks))).toBe(expected);
  });

  it("says no when the cached share is unknown, or no endpoint was chosen", () => {
    const decider = instanceOf(prefixBasedPdDecider, { nonCachedTokens: 1 });
    expect(ask(decider, 100, resultOf([0]))).toBe(false);
    expect(ask(decider, 100)).toBe(false);
    expect(ask(decider, 100, holding(0))).toBe(true);
  });

  it("refuses negative numbers and notes that it would always say no", () => {
    const { parameters, notes } = prefixBasedPdDecider;
    for (const wrong of [{ nonCachedTokens: -1 }, { promptTokens: -1 }, { nonCachedTokens: 1.5 }])
      expect(parameters.safeParse(wrong).success).toBe(false);
    expect(parameters.safeParse({ prefixMatchInfoProducerName: "mine" }).success).toBe(true);
    expect(notes!(parameters.parse({}))).toEqual([expect.stringContaining("nonCachedTokens")]);
    expect(notes!(parameters.parse({ nonCachedTokens: 1 }))).toEqual([]);
  });
});

describe("the deciders without parameters (scheduling 3.7.1)", () => {
  it("always-disagg-pd-decider says yes for every chosen endpoint", () => {
    expect(ask(instanceOf(alwaysDisaggPdDecider), 0)).toBe(true);
    expect(ask(instanceOf(alwaysDisaggPdDecider), 0, holding(100))).toBe(true);
  });

  it.each([
    [true, { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } }],
    [true, { type: "input_audio", input_audio: { data: "AAAA", format: "wav" } }],
    [true, { type: "video_url", video_url: { url: "https://a/b.mp4" } }],
    [true, { type: "image", source: { type: "url", url: "https://a/b.png" } }],
    [false, { type: "text", text: 'what does {"image_url": "https://a"} mean?' }],
    [false, { type: "text", text: "hm" }],
  ])("always-disagg-multimodal-decider says %s to %j", (expected, part) => {
    const messages = [{ role: "user", content: [part, { type: "text", text: "what is it?" }] }];
    const request = requestOf(JSON.stringify(messages));
    expect(ask(instanceOf(alwaysDisaggMultimodalDecider), 1, undefined, request)).toBe(expected);
  });
});
