import { describe, expect, it } from "vitest";
import { z } from "zod";
import type { Endpoint } from "../../../../base/inference/endpoint.ts";
import { feedSettings, MOST_PAIRS, preciseNotes, preciseParameters, preciseSettings } from "./precise-parameters.ts";

const schema = z.strictObject(preciseParameters);
const withSelector = (podLabelSelector: string) =>
  schema.safeParse({ kvEventsConfig: { podDiscoveryConfig: { podLabelSelector, podNamespace: "llm" } } });

describe("the size of the index with a small memory limit", () => {
  const ROOM = 40_000;
  const parsed = (kvBlockIndexConfig: object) => schema.parse({ indexerConfig: { kvBlockIndexConfig } });

  it.each([
    ["the default shrinks", {}, ROOM / 40],
    ["the default of an empty inMemoryConfig shrinks", { inMemoryConfig: {} }, ROOM / 40],
    ["a size is kept", { inMemoryConfig: { size: 5000 } }, 5000],
    ["a size that equals the default is kept", { inMemoryConfig: { size: 1e8 } }, MOST_PAIRS],
    ["a size in bytes is kept", { costAwareMemoryConfig: { size: "1MiB" } }, 26_214],
  ])("%s", (_, config, pairs) => {
    expect(preciseSettings(parsed(config), ROOM).maxPairs).toBe(pairs);
    // Companions parse parameters once more.
    expect(preciseSettings(schema.parse(parsed(config)), ROOM).maxPairs).toBe(pairs);
  });

  it("only a size that the configuration gives is noted as too large", () => {
    expect(preciseNotes(parsed({ inMemoryConfig: { size: 1e8 } }))).toEqual([
      "inMemoryConfig.size 100000000 counts as 16777216",
    ]);
    expect(preciseNotes(parsed({ inMemoryConfig: {} }))).toEqual([]);
  });
});

describe("podLabelSelector (scheduling 3.14)", () => {
  it.each([
    ["", true],
    ["app=vllm, tier!=iron", true],
    ["app in (sglang, vllm),!gone", true],
    ["app==sglang", false],
  ])("%j selects an endpoint of its namespace: %s", (selector, expected) => {
    const { selects } = feedSettings(withSelector(selector).data!).perEndpoint!;
    const inNamespace = (namespace: string) =>
      ({ labels: { app: "vllm", tier: "gold" }, namespace }) satisfies Partial<Endpoint> as unknown as Endpoint;
    expect(selects(inNamespace("llm"))).toBe(expected);
    expect(selects(inNamespace("other"))).toBe(false);
  });

  it("is refused with the requirement that is wrong", () => {
    expect(withSelector("app=vllm,a b").error!.issues[0]).toMatchObject({
      path: ["kvEventsConfig", "podDiscoveryConfig", "podLabelSelector"],
      message: expect.stringContaining('"a b" is not one of key=value'),
    });
  });
});
