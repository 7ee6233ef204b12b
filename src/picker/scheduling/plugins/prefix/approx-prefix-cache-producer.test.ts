import { describe, expect, it } from "vitest";
import {
  columnsOf,
  endpointOf,
  instanceOf,
  produceContextOf,
  requestOf,
} from "../../../../../test/support/scheduling/fakes.cases.ts";
import type { CacheReport } from "../../../../base/inference/cache-report.ts";
import type { Endpoint } from "../../../../base/inference/endpoint.ts";
import type { InferenceRequest } from "../../../../base/inference/request.ts";
import { PREFIX_BLOCK_TOKENS, PREFIX_MATCHED_BLOCKS, PREFIX_TOTAL_BLOCKS } from "../../../../base/plugin/keys.ts";
import type { Producer } from "../../../../base/plugin/kinds.ts";
import type { SharedBlocks, SharedPrefixes } from "../../../../base/plugin/shared-prefixes.ts";
import { approxPrefixCacheProducer } from "./approx-prefix-cache-producer.ts";

const KEYS = approxPrefixCacheProducer.produces.map((key) => [key, []] as const);
const made = (parameters: object = {}): Producer => instanceOf(approxPrefixCacheProducer, parameters);
const pool = [endpointOf(0), endpointOf(1), endpointOf(2)];

/** Bytes of text in which no two blocks are alike. */
function text(length: number, seed = 0): string {
  let out = "";
  for (let i = seed; out.length < length; i++) out += `${i} `;
  return out.slice(0, length);
}

function produce(producer: Producer, request: InferenceRequest, endpoints: readonly Endpoint[] = pool) {
  const candidates = columnsOf(endpoints, KEYS);
  producer.produce(produceContextOf(candidates, request));
  return {
    matched: [...candidates.column(PREFIX_MATCHED_BLOCKS).slice(0, endpoints.length)],
    total: candidates.column(PREFIX_TOTAL_BLOCKS)[0]!,
    blockTokens: candidates.column(PREFIX_BLOCK_TOKENS)[0]!,
  };
}

function route(
  producer: Producer,
  request: InferenceRequest,
  to: Endpoint,
  others: ReadonlyMap<string, Endpoint> = new Map(),
): void {
  produce(producer, request, [to]);
  producer.routed?.(request, to, others);
}

describe("approx-prefix-cache-producer", () => {
  it("S-50, S-56: the second of two equal prompts matches whole where the first was routed, before any answer", () => {
    const producer = made();
    expect(produce(producer, requestOf(text(2000)))).toEqual({ matched: [0, 0, 0], total: 8, blockTokens: 64 });
    route(producer, requestOf(text(2000)), pool[1]!);
    expect(produce(producer, requestOf(text(2000)))).toEqual({ matched: [0, 8, 0], total: 8, blockTokens: 64 });
    expect(produce(producer, requestOf(text(5000))).matched).toEqual([0, 7, 0]);
  });

  it("remembers no more than the process gives it memory for", () => {
    const producer = instanceOf(approxPrefixCacheProducer, {}, { indexBytes: 600 });
    route(producer, requestOf(text(2000)), pool[1]!);
    expect(produce(producer, requestOf(text(2000))).matched).toEqual([0, 5, 0]);
  });

  it("remembers nothing of a request that was not routed", () => {
    const producer = made();
    const request = requestOf(text(2000));
    produce(producer, request);
    produce(producer, requestOf(text(2000, 9)));
    producer.routed?.(request, pool[0]!, new Map());
    expect(produce(producer, requestOf(text(2000))).matched).toEqual([0, 0, 0]);
    expect(produce(producer, requestOf(text(2000, 9))).matched).toEqual([0, 0, 0]);
  });

  it("S-51: another target model or cache salt matches nothing, another requested name of the same target does", () => {
    const producer = made();
    route(producer, requestOf(text(2000)), pool[0]!);
    expect(produce(producer, requestOf(text(2000), { targetModel: "other" })).matched).toEqual([0, 0, 0]);
    expect(produce(producer, requestOf(text(2000), { cacheSalt: "tenant" })).matched).toEqual([0, 0, 0]);
    expect(produce(producer, requestOf(text(2000), { model: "alias" })).matched).toEqual([8, 0, 0]);
  });

  it("S-52: blocks of 16 become 64; the engine's 128 counts; without autoTune the configured 256", () => {
    const request = requestOf(text(8192));
    const engine = (blockSize: number) => [endpointOf(0, { metrics: { blockSize } })];
    expect(produce(made({ blockSizeTokens: 16 }), request).blockTokens).toBe(64);
    expect(produce(made(), request, engine(16)).blockTokens).toBe(64);
    expect(produce(made(), request, engine(128))).toMatchObject({ blockTokens: 128, total: 16 });
    expect(produce(made({ autoTune: false, blockSizeTokens: 256 }), request, engine(128)).blockTokens).toBe(256);
    expect(produce(made({ blockSize: 100 }), request).blockTokens).toBe(100);
    expect(produce(made({ blockSize: 100, blockSizeTokens: 80 }), request).blockTokens).toBe(80);
  });

  it("takes the block size from the first endpoint that knows it, and survives absurd ones", () => {
    const request = requestOf(text(8192));
    const unknown = endpointOf(0);
    expect(produce(made(), request, [unknown, endpointOf(1, { metrics: { blockSize: 128 } })]).blockTokens).toBe(128);
    for (const blockSize of [0, -5, Number.POSITIVE_INFINITY])
      expect(produce(made(), request, [endpointOf(0, { metrics: { blockSize } })]).blockTokens).toBe(64);
    const huge = [endpointOf(0, { metrics: { blockSize: 1e15, blocks: 1e300 } })];
    expect(produce(made(), request, huge)).toMatchObject({ total: 0, matched: [0] });
  });

  it("S-53: counts a trailing partial block", () => {
    expect(produce(made(), requestOf(text(400))).total).toBe(2);
  });

  it("S-54: maxPrefixTokensToMatch 640 allows ten blocks of 64; 0 leaves it to maxPrefixBlocksToMatch", () => {
    const long = requestOf(text(100_000));
    expect(produce(made({ maxPrefixTokensToMatch: 640 }), long).total).toBe(10);
    expect(produce(made({ maxPrefixTokensToMatch: 0, maxPrefixBlocksToMatch: 7 }), long).total).toBe(7);
    expect(produce(made({ maxPrefixTokensToMatch: 0, maxPrefixBlocksToMatch: 0 }), long).total).toBe(391);
    expect(produce(made(), requestOf(text(1_000_000))).total).toBe(2048);
  });

  it("S-55: scales the capacity from the engine's blocks to its own, and follows a change", () => {
    const producer = made();
    // 16 engine blocks of 16 tokens hold four blocks of 64.
    const small = endpointOf(0, { metrics: { blockSize: 16, blocks: 16 } });
    route(producer, requestOf(text(5000)), small);
    expect(produce(producer, requestOf(text(5000)), [small]).matched).toEqual([4]);
    const larger = endpointOf(0, { metrics: { blockSize: 16, blocks: 40 } });
    route(producer, requestOf(text(5000)), larger);
    expect(produce(producer, requestOf(text(5000)), [larger]).matched).toEqual([10]);
    route(producer, requestOf(text(10, 7777)), small);
    expect(produce(producer, requestOf(text(5000)), [small]).matched).toEqual([3]);
  });

  describe("where a model's text has other than four bytes per token", () => {
    const small = endpointOf(0, { metrics: { blockSize: 16, blocks: 16 } });
    const of = (bytesPerToken: number, more: Partial<InferenceRequest> = {}): InferenceRequest =>
      requestOf(text(5120), { bytesPerToken, ...more });

    it.each([
      [2, 128, 2],
      [4, 64, 4],
      [8, 32, 8],
      [16, 16, 16],
    ])("with %d a block stands for %d tokens, and %d of them fill 256 tokens of cache", (bytes, blockTokens, held) => {
      const producer = made();
      route(producer, of(bytes), small);
      expect(produce(producer, of(bytes), [small])).toEqual({ matched: [held], total: 20, blockTokens });
    });

    it("finds what was hashed before more was known: blocks keep their bytes", () => {
      const producer = made();
      route(producer, of(4), pool[0]!);
      expect(produce(producer, of(8))).toEqual({ matched: [20, 0, 0], total: 20, blockTokens: 32 });
    });

    it("shares an engine's cache among models by their tokens", () => {
      const producer = made();
      const coarse = of(8, { targetModel: "coarse" });
      route(producer, coarse, small);
      // Two blocks of 64 tokens leave room for four of 32.
      route(producer, requestOf(text(512), { targetModel: "fine" }), small);
      expect(produce(producer, coarse, [small]).matched).toEqual([4]);
      expect(produce(producer, requestOf(text(512), { targetModel: "fine" }), [small]).matched).toEqual([2]);
    });

    it("counts escapes as what they stand for", () => {
      const producer = made();
      // Six bytes for each letter of two: a block has a third of the tokens.
      expect(produce(producer, of(4, { escapeBytes: 3413 })).blockTokens).toBeCloseTo(64 / 3, 1);
      expect(produce(producer, of(4, { escapeBytes: 5120 })).blockTokens).toBe(64);
      expect(produce(producer, of(4, { escapeBytes: 1e9 })).blockTokens).toBe(64);
    });

    it("leaves the configured number of blocks as it is", () => {
      for (const parameters of [{ lruCapacityPerServer: 5 }, { lruCapacityPerServer: 5, autoTune: false }]) {
        const producer = made(parameters);
        route(producer, of(8), endpointOf(0));
        expect(produce(producer, of(8), [endpointOf(0)]).matched).toEqual([5]);
      }
    });

    it("hashes up to maxPrefixTokensToMatch tokens, of at most 16 bytes each", () => {
      const limited = made({ maxPrefixTokensToMatch: 640 });
      const long = (bytesPerToken: number, escapeBytes = 0) =>
        produce(limited, requestOf(text(100_000), { bytesPerToken, escapeBytes })).total;
      expect([long(2), long(4), long(8), long(16), long(16, 80_000)]).toEqual([5, 10, 20, 40, 40]);
      const blocks = made({ maxPrefixTokensToMatch: 0, maxPrefixBlocksToMatch: 7 });
      expect(produce(blocks, requestOf(text(100_000), { bytesPerToken: 8 })).total).toBe(7);
    });

    it("tells who is told to follow by the same measure", () => {
      const producer = made();
      const request = of(8);
      produce(producer, request, [endpointOf(1)]);
      const follow = producer.follow!(request)!;
      producer.routed?.(request, endpointOf(1), new Map());
      produce(producer, of(4), [endpointOf(1)]);
      follow(small);
      expect(produce(producer, of(8), [small]).matched).toEqual([8]);
    });
  });

  it("uses lruCapacityPerServer where the engine does not say, or without autoTune", () => {
    for (const producer of [made({ lruCapacityPerServer: 5 }), made({ lruCapacityPerServer: 5, autoTune: false })]) {
      const endpoint = endpointOf(0, { metrics: { blockSize: 16 } });
      route(producer, requestOf(text(5000)), endpoint);
      expect(produce(producer, requestOf(text(5000)), [endpoint]).matched).toEqual([5]);
    }
  });

  it("S-57: forgets an endpoint at once when it leaves", () => {
    const producer = made();
    route(producer, requestOf(text(2000)), pool[0]!);
    producer.endpointRemoved?.(pool[0]!);
    expect(produce(producer, requestOf(text(2000))).matched).toEqual([0, 0, 0]);
  });

  it("S-50: what computes the prompt holds it, too: the endpoint of the profile named prefill, and of no other", () => {
    const producer = made();
    const others = new Map([
      ["prefill", pool[1]!],
      ["encode", pool[2]!],
    ]);
    route(producer, requestOf(text(2000)), pool[0]!, others);
    expect(produce(producer, requestOf(text(2000))).matched).toEqual([8, 8, 0]);
  });

  it("shows how many blocks each endpoint holds, most first, of at most 100 endpoints, and forgets who leaves", () => {
    const producer = made();
    expect(producer.debugState?.()).toEqual({ pods: [], totalPods: 0, maxPods: 100 });
    route(producer, requestOf(text(600)), pool[2]!);
    route(producer, requestOf(text(2000)), pool[1]!);
    route(producer, requestOf(text(600)), pool[0]!);
    route(producer, requestOf(""), endpointOf(7));
    expect(producer.debugState?.()).toEqual({
      pods: [
        { pod: "default/pod-1", blocks: 8 },
        { pod: "default/pod-0", blocks: 3 },
        { pod: "default/pod-2", blocks: 3 },
      ],
      totalPods: 3,
      maxPods: 100,
    });
    producer.endpointRemoved?.(pool[1]!);
    expect(producer.debugState?.()).toMatchObject({ totalPods: 2 });
    for (let slot = 3; slot < 120; slot++) route(producer, requestOf(text(300)), endpointOf(slot));
    const state = producer.debugState?.() as { pods: unknown[]; totalPods: number };
    expect([state.pods.length, state.totalPods]).toEqual([100, 119]);
  });

  describe("learns from answers", () => {
    const FULL = { promptTokens: 500, cachedTokens: 496 };
    const NONE = { promptTokens: 500, cachedTokens: 0 };
    /** A request with its answer, and what hears of it. */
    function ask(producer: Producer, seed: number, report: CacheReport | undefined, served = pool[0]!): void {
      const request = requestOf(text(2000, seed));
      produce(producer, request);
      const moved = producer.follow?.(request);
      const listener = producer.listen?.(request);
      producer.routed?.(request, pool[0]!, new Map());
      if (served !== pool[0]) moved?.(served);
      listener?.answered?.();
      listener?.ended?.(report);
    }
    const seeds = [1000, 2000, 3000];
    const held = (producer: Producer, at = 0): number[] =>
      seeds.map((seed) => produce(producer, requestOf(text(2000, seed))).matched[at]!);

    it("forgets what an endpoint no longer has, unless it is told not to learn", () => {
      for (const learnFromAnswers of [true, false]) {
        const producer = made({ learnFromAnswers });
        for (const seed of seeds) ask(producer, seed, NONE);
        ask(producer, 2000, NONE);
        ask(producer, 3000, NONE);
        expect(held(producer)).toEqual([learnFromAnswers ? 0 : 8, 8, 8]);
      }
    });

    it("of the endpoint that served, and of no other", () => {
      const producer = made();
      for (const seed of seeds) ask(producer, seed, FULL, pool[1]);
      ask(producer, 2000, NONE, pool[1]);
      ask(producer, 3000, NONE, pool[1]);
      expect(held(producer, 1)).toEqual([0, 8, 8]);
      expect(held(producer)).toEqual([8, 8, 8]);
    });

    it("from no answer that another endpoint has computed the prompt for, nor from one to several prompts or a part", () => {
      const two = (seed: number): InferenceRequest =>
        requestOf(text(2000, seed), {
          prompts: [[{ start: 0, end: 1000 }], [{ start: 1000, end: 2000 }]],
        });
      const listened = (producer: Producer, request: InferenceRequest): boolean => {
        produce(producer, request);
        return producer.listen?.(request) !== undefined;
      };
      expect(listened(made(), requestOf(text(2000)))).toBe(true);
      expect(listened(made(), two(1))).toBe(false);
      expect(listened(made(), requestOf(""))).toBe(false);
      expect(listened(made({ maxPrefixTokensToMatch: 256 }), requestOf(text(2000)))).toBe(false);
      const producer = made();
      for (const seed of seeds) ask(producer, seed, FULL);
      for (const seed of [2000, 3000]) {
        const request = requestOf(text(2000, seed));
        produce(producer, request);
        const listener = producer.listen?.(request);
        producer.routed?.(request, pool[0]!, new Map([["prefill", pool[1]!]]));
        listener?.ended?.(NONE);
      }
      expect(held(producer)).toEqual([8, 8, 8]);
    });
  });

  it("adds up the prompts of a completions request", () => {
    const producer = made();
    const one = text(1024);
    const two = text(600, 5000);
    const list = (first: string, second: string): InferenceRequest =>
      requestOf(first + second, {
        prompts: [[{ start: 0, end: first.length }], [{ start: first.length, end: first.length + second.length }]],
      });
    route(producer, list(one, two), pool[0]!);
    route(producer, requestOf(two), pool[1]!);
    expect(produce(producer, list(one, two))).toMatchObject({ matched: [7, 3, 0], total: 7 });
    expect(produce(producer, list(two, one)).matched).toEqual([7, 3, 0]);
  });

  describe("beside replicas", () => {
    /** Producers that hear each other at once; what they said is kept. */
    function replicas(count: number, lruCapacityPerServer = 31_250) {
      const said: SharedBlocks[] = [];
      const receivers: ((endpoint: Endpoint, blocks: SharedBlocks) => void)[] = [];
      const producers = Array.from({ length: count }, () => {
        const sharedPrefixes: SharedPrefixes = {
          hashKeys: [7, 8],
          open(_space, receive) {
            receivers.push(receive);
            return {
              placed(endpoint, blocks) {
                const { low, high, from, count } = blocks;
                said.push({
                  ...{ ...blocks, from: 0, count },
                  low: low.slice(from, from + count),
                  high: high.slice(from, from + count),
                });
                for (const other of receivers) if (other !== receive) other(endpoint, blocks);
              },
              close: () => void receivers.splice(receivers.indexOf(receive), 1),
            };
          },
        };
        return instanceOf(approxPrefixCacheProducer, { lruCapacityPerServer }, { sharedPrefixes });
      });
      return { producers: producers as [Producer, Producer], said };
    }

    it("matches what another replica placed, and tells which blocks only that one knew", () => {
      const { producers } = replicas(2);
      const [a, b] = producers;
      route(a, requestOf(text(2000)), pool[1]!);
      expect(produce(b, requestOf(text(2000))).matched).toEqual([0, 8, 0]);
      route(b, requestOf(text(2000)), pool[1]!);
      expect(b.peerBlocks).toBe(8);
      route(b, requestOf(text(2000)), pool[1]!);
      expect(b.peerBlocks).toBe(0);
      route(a, requestOf(text(2000)), pool[1]!);
      expect(a.peerBlocks).toBe(0);
    });

    it("tells only new blocks, and of each sixteenth decision all of them", () => {
      const { producers, said } = replicas(2);
      const [a] = producers;
      route(a, requestOf(text(2000)), pool[0]!);
      route(a, requestOf(text(2000)), pool[0]!);
      route(a, requestOf(text(4000)), pool[0]!);
      // The last block of the first prompt was not whole, so the longer one has another in its place.
      expect(said.map(({ count }) => count)).toEqual([8, 9]);
      for (let i = 0; i < 13; i++) route(a, requestOf(text(4000)), pool[0]!);
      expect(said.map(({ count }) => count)).toEqual([8, 9, 16]);
    });

    it("tells what it uses again where the endpoint has no room, so that all forget the same", () => {
      const { producers, said } = replicas(2, 16);
      const [a, b] = producers;
      const [one, two, three] = [2000, 2001, 2002].map((at) => requestOf(text(2000, at * 10)));
      route(a, one!, pool[0]!);
      route(a, two!, pool[0]!);
      route(a, one!, pool[0]!);
      expect(said.map(({ count }) => count)).toEqual([8, 8, 8]);
      route(b, three!, pool[0]!);
      for (const producer of [a, b])
        expect([one, two, three].map((request) => produce(producer, request!).matched[0])).toEqual([8, 0, 8]);
    });

    it("tells a use once in each part of the time for which an endpoint keeps blocks", () => {
      const { producers, said } = replicas(1, 200);
      const requests = Array.from({ length: 25 }, (_, n) => requestOf(text(2000, n * 5000)));
      for (const request of requests) route(producers[0], request, pool[0]!);
      said.length = 0;
      for (let i = 0; i < 4; i++) route(producers[0], requests[24]!, pool[0]!);
      expect(said.map(({ count }) => count)).toEqual([8, 8]);
    });

    it("tells at most sixteen known blocks for each decision", () => {
      const { producers, said } = replicas(1, 200);
      const requests = [1, 2].map((at) => requestOf(text(25_600, at * 100_000)));
      for (let i = 0; i < 200; i++) route(producers[0], requests[i % 2]!, pool[0]!);
      const [first, second, ...again] = said.map(({ count }) => count);
      expect([first, second]).toEqual([100, 100]);
      const known = again.reduce((sum, count) => sum + count, 0);
      expect(known).toBeGreaterThan(200 * 14);
      expect(known).toBeLessThanOrEqual(200 * 16);
    });

    it("hears nothing any more when it is closed", () => {
      const { producers } = replicas(2);
      const [a, b] = producers;
      (b as { close?(): void }).close?.();
      route(a, requestOf(text(2000)), pool[1]!);
      expect(produce(b, requestOf(text(2000))).matched).toEqual([0, 0, 0]);
    });

    it("without them has hashes that no other process knows, and tells nobody", () => {
      const { producers } = replicas(1);
      route(producers[0], requestOf(text(2000)), pool[1]!);
      expect(producers[0].peerBlocks).toBe(0);
    });
  });

  it.each([
    [{ autoTune: false, blockSizeTokens: 0 }, "blockSizeTokens must be greater than 0 when autoTune is false"],
    [{ maxPrefixTokensToMatch: -1 }, "maxPrefixTokensToMatch must not be negative"],
    [{ blockSizes: 1 }, "blockSizes"],
  ])("refuses %j", (parameters, message) => {
    const result = approxPrefixCacheProducer.parameters.safeParse(parameters);
    expect(result.error?.issues.map((issue) => issue.message).join()).toContain(message);
  });
});
