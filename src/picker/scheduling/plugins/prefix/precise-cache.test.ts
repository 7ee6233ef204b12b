import { encode } from "@msgpack/msgpack";
import { describe, expect, it } from "vitest";
import { pluginContextOf } from "../../../../../test/support/plugin-context.ts";
import { endpointOf } from "../../../../../test/support/scheduling/fakes.cases.ts";
import { VirtualClock } from "../../../../base/clock/virtual.ts";
import type { SubscriptionEvents } from "../../../kv-events/sockets.ts";
import { PrecisePrefixCache } from "./precise-cache.ts";
import { precisePrefixCacheProducer } from "./precise-prefix-cache.ts";

/** Blocks of the endpoint: more than one sweep frees. */
const BLOCKS = 5_000;

/** A cache that has heard one endpoint announce its blocks. */
function heard() {
  const clock = new VirtualClock();
  const publishers: SubscriptionEvents[] = [];
  const cache = new PrecisePrefixCache(
    precisePrefixCacheProducer.parameters.parse({}) as never,
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
