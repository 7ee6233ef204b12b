import { describe, expect, it } from "vitest";
import {
  columnsOf,
  endpointOf,
  instanceOf,
  produceContextOf,
  requestOf,
} from "../../../../../test/support/scheduling/fakes.cases.ts";
import type { Endpoint } from "../../../../base/inference/endpoint.ts";
import { PREFIX_BLOCK_TOKENS, PREFIX_MATCHED_BLOCKS } from "../../../../base/plugin/keys.ts";
import { p2pSourceProducer } from "./p2p-source-producer.ts";

const HEADER = "x-kv-cache-source-host-port";

/**
 * The changes of headers of a request whose prompt endpoints hold in `blocks` of 64 tokens.
 * @param computing slot of the endpoint that answers, and that of the prefill profile
 */
function headers(
  blocks: readonly number[],
  computing: { readonly primary: number; readonly prefill?: number },
  { parameters = {}, waiting = [] as readonly number[], id = "r", profile = "prefill" } = {},
): Record<string, string | null> {
  const endpoints = blocks.map((_, slot) => endpointOf(slot, { metrics: { waiting: waiting[slot] ?? 0 } }));
  const columns = columnsOf(endpoints, [
    [PREFIX_MATCHED_BLOCKS, blocks],
    [PREFIX_BLOCK_TOKENS, blocks.map(() => 64)],
  ]);
  const producer = instanceOf(p2pSourceProducer, parameters);
  const request = requestOf("prompt", { id });
  producer.produce(produceContextOf(columns, request));
  const changes: Record<string, string | null> = {};
  const { primary, prefill } = computing;
  producer.preRequest!({
    request,
    endpoints: [endpoints[primary]!],
    profiles: new Map<string, readonly Endpoint[]>([
      ["decode", [endpoints[primary]!]],
      ...(prefill === undefined ? [] : [[profile, [endpoints[prefill]!]] as const]),
    ]),
    setHeader(name, value) {
      changes[name] = value;
    },
    removeHeader(name) {
      changes[name] = null;
    },
    setMetadata() {},
  });
  return changes;
}

describe("p2p-source-producer (scheduling 3.10.5)", () => {
  it("names the endpoint that holds more of the prompt than the one that computes it", () => {
    expect(headers([0, 4, 9], { primary: 0 })).toEqual({ [HEADER]: "10.0.0.2:8000" });
    expect(headers([0, 4, 9], { primary: 1 })).toEqual({ [HEADER]: "10.0.0.2:8000" });
  });

  it("names none where the computing endpoint holds as much, and removes what a client sent", () => {
    for (const primary of [0, 1, 2]) expect(headers([0, 0, 0], { primary })).toEqual({ [HEADER]: null });
    expect(headers([0, 4, 9], { primary: 2 })).toEqual({ [HEADER]: null });
    expect(headers([9, 9], { primary: 0 }, { id: "x" })).toEqual({ [HEADER]: null });
  });

  it("counts for the prefill endpoint where there is one, by the name of its profile", () => {
    expect(headers([9, 0, 4], { primary: 0, prefill: 1 })).toEqual({ [HEADER]: "10.0.0.0:8000" });
    expect(headers([0, 9], { primary: 0, prefill: 1 })).toEqual({ [HEADER]: null });
    const other = { parameters: { prefillProfileName: "first" }, profile: "first" };
    expect(headers([0, 9], { primary: 0, prefill: 1 }, other)).toEqual({ [HEADER]: null });
    expect(headers([0, 9], { primary: 0, prefill: 1 }, { profile: "first" })).toEqual({ [HEADER]: "10.0.0.1:8000" });
  });

  it("wants minCachedTokenDelta tokens more", () => {
    const with_ = (minCachedTokenDelta: number) =>
      headers([2, 6], { primary: 0 }, { parameters: { minCachedTokenDelta } });
    expect(with_(256)).toEqual({ [HEADER]: "10.0.0.1:8000" });
    expect(with_(257)).toEqual({ [HEADER]: null });
    expect(p2pSourceProducer.parameters.safeParse({ minCachedTokenDelta: 0 }).success).toBe(false);
  });

  it("spreads the copies over those within one block of the most, the fewer the more requests wait there", () => {
    const counts = new Map<string, number>();
    for (let i = 0; i < 2000; i++) {
      const source = headers([0, 9, 8, 7], { primary: 0 }, { id: `request-${i}`, waiting: [0, 0, 3, 0] })[HEADER]!;
      counts.set(source, (counts.get(source) ?? 0) + 1);
    }
    // Weights 1 and 1/4; 7 blocks are two less than the most.
    expect([...counts.keys()].sort()).toEqual(["10.0.0.1:8000", "10.0.0.2:8000"]);
    expect(counts.get("10.0.0.1:8000")! / 2000).toBeCloseTo(0.8, 1);
    // The same request chooses the same source again.
    expect(headers([0, 9, 9], { primary: 0 }, { id: "a" })).toEqual(headers([0, 9, 9], { primary: 0 }, { id: "a" }));
  });

  it("forgets a refused request, and sets nothing for another one", () => {
    const endpoints = [endpointOf(0), endpointOf(1)];
    const columns = columnsOf(endpoints, [
      [PREFIX_MATCHED_BLOCKS, [0, 5]],
      [PREFIX_BLOCK_TOKENS, [64, 64]],
    ]);
    const producer = instanceOf(p2pSourceProducer);
    const set: string[] = [];
    const tell = (request = requestOf("other")) =>
      producer.preRequest!({
        ...{ request, endpoints, profiles: new Map() },
        ...{ setHeader: (name: string) => void set.push(name), removeHeader() {}, setMetadata() {} },
      });
    const request = requestOf("prompt");
    producer.produce(produceContextOf(columns, request));
    tell();
    tell(request);
    producer.produce(produceContextOf(columns, request));
    producer.refused!(request);
    tell(request);
    expect(set).toEqual([]);
  });
});
