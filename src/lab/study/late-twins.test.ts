import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { SharedBlocks } from "../../base/plugin/shared-prefixes.ts";
import { EndpointRegistry } from "../../pool/endpoints/registry.ts";
import { LateTwins } from "./late-twins.ts";

function pickers(count: number, delayMs: number) {
  const clock = new VirtualClock();
  const twins = new LateTwins(clock, delayMs);
  return {
    clock,
    all: Array.from({ length: count }, () => {
      const pool = new EndpointRegistry({ clock, random: new SeededRandom(1) });
      const spec = { namespace: "sim", name: "s0", address: "10.0.0.1", port: 8000, rank: 0, labels: {} };
      const endpoint = pool.upsert(spec)!;
      const twin = twins.join(pool);
      const open = (tokens: number) => twin.opened(pool.inFlight.open(endpoint, tokens), endpoint, tokens);
      return { twin, endpoint, open };
    }),
  };
}

describe("pickers that learn of the decisions of the others late", () => {
  it("count an own request at once and those of the others exactly after the delay, from its first byte to its end", () => {
    const { clock, all } = pickers(3, 20);
    const loads = () => all.map(({ endpoint: { inFlight } }) => [inFlight.requests, inFlight.tokens]);
    const ticket = all[1]!.open(70);
    expect(loads()).toEqual([
      [0, 0],
      [1, 70],
      [0, 0],
    ]);
    clock.advance(19);
    expect(loads()[0]).toEqual([0, 0]);
    clock.advance(1);
    expect(loads()).toEqual([
      [1, 70],
      [1, 70],
      [1, 70],
    ]);
    ticket.firstResponseByte();
    expect(loads()[1]).toEqual([1, 0]);
    expect(loads()[0]).toEqual([1, 70]);
    clock.advance(20);
    expect(loads()[0]).toEqual([1, 0]);
    ticket.release();
    expect(loads()[2]).toEqual([1, 0]);
    clock.advance(20);
    expect(loads()).toEqual([
      [0, 0],
      [0, 0],
      [0, 0],
    ]);
  });

  it("know at once with no delay, and count nothing of a request that has ended when they hear of it", () => {
    const { clock, all } = pickers(2, 0);
    all[0]!.open(5);
    expect(all[1]!.endpoint.inFlight.requests).toBe(1);
    const late = pickers(2, 20);
    late.all[0]!.open(5).release();
    late.clock.advance(20);
    expect(late.all[1]!.endpoint.inFlight.requests).toBe(0);
    clock.advance(20);
  });

  it("get copies of the blocks of the others at their own endpoint, and none after they have closed", () => {
    const { clock, all } = pickers(3, 20);
    const got: [number, string, SharedBlocks][] = [];
    const channels = all.map(({ twin, endpoint }, i) =>
      twin.prefixes.open("blocks", (at, blocks) => got.push([i, String(at === endpoint), blocks])),
    );
    const low = Int32Array.of(1, 2, 3);
    const high = Int32Array.of(4, 5, 6);
    channels[0]!.placed(all[0]!.endpoint, { low, high, from: 1, count: 2, blockTokens: 64 });
    channels[2]!.close();
    low.fill(0);
    expect(got).toEqual([]);
    clock.advance(20);
    const blocks = { low: Int32Array.of(2, 3), high: Int32Array.of(5, 6), from: 0, count: 2, blockTokens: 64 };
    expect(got).toEqual([[1, "true", blocks]]);
  });
});
