import { encode } from "@msgpack/msgpack";
import { describe, expect, it } from "vitest";
import { pluginContextOf } from "../../../../../test/support/plugin-context.ts";
import {
  columnsOf,
  endpointOf,
  produceContextOf,
  requestOf,
} from "../../../../../test/support/scheduling/fakes.cases.ts";
import { VirtualClock } from "../../../../base/clock/virtual.ts";
import { PREFIX_CACHED_BLOCKS, PREFIX_UNCONFIRMED_BLOCKS, TOKENIZED_PROMPT } from "../../../../base/plugin/keys.ts";
import type { SubscriptionEvents } from "../../../kv-events/sockets.ts";
import { renderedTokens } from "../../tokens/render.ts";
import { PrecisePrefixCache } from "./precise-cache.ts";
import { precisePrefixCacheProducer } from "./precise-prefix-cache.ts";

/** Blocks of the endpoint: more than one sweep frees. */
const BLOCKS = 5_000;

/** A cache that has heard one endpoint announce its blocks. */
function heard(parameters: object = {}) {
  const clock = new VirtualClock();
  const publishers: SubscriptionEvents[] = [];
  const cache = new PrecisePrefixCache(
    precisePrefixCacheProducer.parameters.parse(parameters) as never,
    pluginContextOf("exact", { clock }),
    {
      subscribe(_address, _topic, _bind, events) {
        publishers.push(events);
        return { close() {} };
      },
      replay: () => ({ close() {} }),
    },
  );
  const endpoint = endpointOf(0);
  cache.endpointAdded(endpoint);
  const send = (sequence: number, ...events: unknown[]) =>
    void publishers[0]!.message({ topic: "kv@a@m", sequence, payload: Buffer.from(encode([1.5, events])) });
  const hashes = Array.from({ length: BLOCKS }, (_, i) => i + 1);
  send(0, ["BlockStored", hashes, null, hashes, 1]);
  expect(cache.index.size).toBe(BLOCKS);
  return { clock, cache, endpoint, send };
}

describe("the memory of blocks that are forgotten", () => {
  it("is freed a little at a time when the endpoint leaves", () => {
    const { clock, cache, endpoint } = heard();
    cache.endpointRemoved(endpoint);
    expect(cache.index.size).toBeGreaterThan(0);
    clock.advance(1_000);
    expect(cache.index.size).toBe(0);
  });

  it("is freed when the engine clears its cache", () => {
    const { clock, cache, send } = heard();
    send(1, ["AllBlocksCleared"]);
    expect(cache.index.size).toBeGreaterThan(0);
    clock.advance(1_000);
    expect(cache.index.size).toBe(0);
  });
});

describe("a prompt with images", () => {
  it("matches what an engine announced of the same images, and of no others, as often as it is asked", () => {
    const { cache, endpoint, send } = heard({ tokenProcessorConfig: { blockSizeTokens: 2 } });
    // The engine's tokens: 9 stands for an image. It names the hash of each image that a block overlaps.
    const event = { block_hashes: [70, 71, 72, 73], parent_block_hash: null, token_ids: [1, 9, 9, 2, 3, 9, 4, 5] };
    const extras = [["one"], ["one"], ["two"], null];
    send(1, { type: "BlockStored", ...event, block_size: 2, extra_keys: extras });
    const keys = precisePrefixCacheProducer.produces.map((key) => [key, []] as const);
    const matched = (...hashes: string[]): number => {
      const features = {
        mm_hashes: { image: hashes },
        mm_placeholders: {
          image: [
            { offset: 1, length: 2 },
            { offset: 5, length: 1 },
          ],
        },
      };
      const tokenized = renderedTokens({ token_ids: [...event.token_ids], features })!;
      const columns = columnsOf([endpoint], [...keys, [TOKENIZED_PROMPT, tokenized]]);
      cache.produce(produceContextOf(columns, requestOf("abc", { targetModel: "m" })));
      return columns.column(PREFIX_CACHED_BLOCKS)[0]!;
    };
    expect([matched("one", "two"), matched("one", "two")]).toEqual([4, 4]);
    expect([matched("one", "other"), matched("other", "two"), matched("two", "one")]).toEqual([2, 0, 0]);
  });
});

describe("expected blocks", () => {
  it("are those of the request that was looked up last, at the endpoint that gets it and at the one that serves it", () => {
    const { cache } = heard({ speculativeIndexing: true, tokenProcessorConfig: { blockSizeTokens: 1 } });
    const pool = [0, 1, 2].map((slot) => endpointOf(slot));
    const bytes = new Uint8Array(Int32Array.from([7, 8, 9]).buffer);
    const tokenized = { tokens: bytes, prompts: [{ start: 0, end: bytes.length }], count: 3 };
    const keys = precisePrefixCacheProducer.produces.map((key) => [key, []] as const);
    const request = requestOf("abc");
    cache.produce(produceContextOf(columnsOf(pool, [...keys, [TOKENIZED_PROMPT, tokenized]]), request));
    expect(cache.follow(requestOf("another"))).toBeUndefined();
    const served = cache.follow(request);
    cache.routed(request, pool[1]!, new Map());
    expect([0, 1, 2].map((slot) => cache.index.blocksOf(slot))).toEqual([BLOCKS, 3, 0]);
    served!(pool[2]!);
    expect([0, 1, 2].map((slot) => cache.index.blocksOf(slot))).toEqual([BLOCKS, 3, 3]);
    cache.routed(request, pool[2]!, new Map());
    expect(cache.follow(request)).toBeUndefined();
    expect([0, 1, 2].map((slot) => cache.index.blocksOf(slot))).toEqual([BLOCKS, 3, 3]);
  });

  it("count as cached, and as unconfirmed until the engine announces them, at each size of its blocks", () => {
    const { cache, endpoint, send } = heard({
      speculativeIndexing: true,
      tokenProcessorConfig: { blockSizeTokens: 2 },
    });
    const other = endpointOf(1);
    const token_ids = [11, 12, 13, 14, 15, 16];
    const tokenized = renderedTokens({ token_ids, features: null })!;
    const request = requestOf("abc", { targetModel: "m" });
    const keys = precisePrefixCacheProducer.produces.map((key) => [key, []] as const);
    const found = (): number[][] => {
      const columns = columnsOf([endpoint, other], [...keys, [TOKENIZED_PROMPT, tokenized]]);
      cache.produce(produceContextOf(columns, request));
      return [PREFIX_CACHED_BLOCKS, PREFIX_UNCONFIRMED_BLOCKS].map((key) => [...columns.column(key).subarray(0, 2)]);
    };
    const store = (sequence: number, hash: number, parent: number | null, ids: number[]) =>
      send(sequence, ["BlockStored", [hash], parent, ids, 2]);
    expect(found()).toEqual([
      [0, 0],
      [0, 0],
    ]);
    cache.routed(request, endpoint, new Map());
    expect(found()).toEqual([
      [3, 0],
      [3, 0],
    ]);
    store(1, 9001, null, [11, 12]);
    store(2, 9002, 9001, [13, 14]);
    expect(found()).toEqual([
      [3, 0],
      [1, 0],
    ]);
    store(3, 9003, 9002, [15, 16]);
    expect(found()).toEqual([
      [3, 0],
      [0, 0],
    ]);
  });
});
