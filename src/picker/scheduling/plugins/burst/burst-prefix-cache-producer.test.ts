import { describe, expect, it } from "vitest";
import { load } from "../../../../../test/support/config/real.cases.ts";
import {
  columnsOf,
  endpointOf,
  instanceOf,
  produceContextOf,
  requestOf,
} from "../../../../../test/support/scheduling/fakes.cases.ts";
import { VirtualClock } from "../../../../base/clock/virtual.ts";
import type { InferenceRequest } from "../../../../base/inference/request.ts";
import { PREFIX_BLOCK_TOKENS, PREFIX_MATCHED_BLOCKS, PREFIX_TOTAL_BLOCKS } from "../../../../base/plugin/keys.ts";
import { burstPrefixCacheProducer } from "./burst-prefix-cache-producer.ts";

const ENDPOINTS = [endpointOf(0), endpointOf(1)];
const A = "all work and no play makes jack a dull boy ".repeat(20);
const B = "the quick brown fox jumps over the lazy dog ".repeat(20);

function burst(parameters: object = {}) {
  const clock = new VirtualClock();
  const producer = instanceOf(burstPrefixCacheProducer, parameters, { clock });
  const waiting: { request: InferenceRequest; prepared: unknown; aborter: AbortController }[] = [];
  const ask = (prompt: string): (typeof waiting)[number] => {
    const one = { request: requestOf(prompt), prepared: undefined as unknown, aborter: new AbortController() };
    producer.prepare!(one.request, one.aborter.signal).then((value) => {
      one.prepared = value;
    });
    waiting.push(one);
    return one;
  };
  /** Matched blocks of each endpoint, and the blocks of the prompt. */
  const decide = ({ request, prepared }: (typeof waiting)[number], endpoints = ENDPOINTS) => {
    const keys = [PREFIX_MATCHED_BLOCKS, PREFIX_TOTAL_BLOCKS, PREFIX_BLOCK_TOKENS];
    const columns = columnsOf(
      endpoints,
      keys.map((key) => [key, []] as const),
    );
    producer.produce(produceContextOf(columns, request, prepared));
    const [matched, total, tokens] = keys.map((key) => [...columns.column(key).slice(0, endpoints.length)]);
    return { matched: matched!, total: total![0], tokens: tokens![0] };
  };
  return { clock, producer, ask, decide };
}

describe("burst-prefix-cache-producer (scheduling 3.10.5)", () => {
  it("lets requests wait for the end of the window, and not longer", async () => {
    const { clock, producer, ask } = burst({ windowDurationMs: 200 });
    const first = ask(A);
    await clock.advanceAsync(150);
    const second = ask(A);
    await clock.advanceAsync(49);
    expect([first.prepared, second.prepared]).toEqual([undefined, undefined]);
    await clock.advanceAsync(1);
    expect(first.prepared).toBeDefined();
    expect(second.prepared).toBeDefined();
    expect(producer.prepareBudget).toBe(500);
    // The next one opens a window of its own.
    const third = ask(A);
    await clock.advanceAsync(199);
    expect(third.prepared).toBeUndefined();
    await clock.advanceAsync(1);
    expect(third.prepared).toBeDefined();
  });

  it("matches a whole prompt where its group goes, and nothing elsewhere", async () => {
    const { clock, ask, decide } = burst();
    const asked = [ask(A), ask(B), ask(A), ask(B), ask("short and alone")];
    await clock.advanceAsync(100);
    const [a, b, c, d, alone] = asked.map((one) => decide(one));
    const blocks = Math.ceil(A.length / 256);
    expect(a).toEqual({ matched: [blocks, 0], total: blocks, tokens: 64 });
    expect(c).toEqual(a);
    expect(b!.matched).toEqual([0, Math.ceil(B.length / 256)]);
    expect(d).toEqual(b);
    expect(alone).toEqual({ matched: [0, 0], total: 1, tokens: 64 });
  });

  it("has blocks of the size, and prompts of the length, that it is told", async () => {
    const { clock, ask, decide } = burst({ blockSizeTokens: 16, maxPrefixTokensToMatch: 40 });
    // They differ only after the 32 tokens that count.
    const [one, other] = [ask(`${A.slice(0, 128)}x`), ask(`${A.slice(0, 128)}y`)];
    await clock.advanceAsync(100);
    expect([decide(one), decide(other)]).toEqual(Array(2).fill({ matched: [2, 0], total: 2, tokens: 16 }));
  });

  it("places no request that is over, and tolerates an endpoint that left", async () => {
    const { clock, ask, decide } = burst();
    const [gone, left] = [ask(A), ask(A)];
    gone.aborter.abort();
    await clock.advanceAsync(100);
    // Alone it is no group.
    expect(decide(left).matched).toEqual([0, 0]);
    const again = [ask(A), ask(A)];
    await clock.advanceAsync(100);
    expect(decide(again[0]!).matched[0]).toBeGreaterThan(0);
    expect(decide(again[1]!, [ENDPOINTS[1]!]).matched).toEqual([0]);
  });

  it("has a bound for a window, and leaves those above it alone", async () => {
    const { producer, decide, ask } = burst({ maxBatchSize: 2 });
    ask(A);
    ask(A);
    const third = requestOf(A);
    expect(() => producer.prepare!(third, new AbortController().signal)).toThrow(
      "2 requests already wait in this window",
    );
    expect(decide({ request: third, prepared: undefined, aborter: new AbortController() }).matched).toEqual([0, 0]);
  });

  it("lets those that wait go on when its configuration is replaced", async () => {
    const { clock, producer, ask } = burst();
    const one = ask(A);
    (producer as { close?: () => void }).close!();
    await clock.advanceAsync(0);
    expect(one.prepared).toBeDefined();
  });

  it("is read only by plugins that name it: it does not say what is cached", () => {
    const file = (scorer: string) =>
      `apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins: [{type: burst-prefix-cache-producer}, {type: prefix-cache-scorer, parameters: {${scorer}}}, {type: token-load-scorer}]\n`;
    expect(load(file("prefixMatchInfoProducerName: burst-prefix-cache-producer")).warnings).toEqual([]);
    expect(load(file("")).warnings.join()).toContain("no plugin reads the producer burst-prefix-cache-producer");
  });

  it("refuses parameters that mean nothing", () => {
    const accepts = (parameters: object) => burstPrefixCacheProducer.parameters.safeParse(parameters).success;
    for (const wrong of [
      { windowDurationMs: 0 },
      { windowDurationMs: 10_001 },
      { maxPerReplica: 0 },
      { maxBatchSize: 0 },
      { blockSizeTokens: 0 },
      { maxPrefixTokensToMatch: 63 },
      { minColocateBlocks: -1 },
      { balanceBy: "load" },
    ])
      expect(accepts(wrong)).toBe(false);
    expect(accepts({ maxPerReplica: -1, maxBatchSize: -1, balanceBy: "" })).toBe(true);
  });
});
