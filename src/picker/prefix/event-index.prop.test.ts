import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EventIndex } from "./event-index.ts";
import { EXPECTED } from "./lanes.ts";

const WEIGHTS = [1, 0.8, 0.25];
const SLOTS = 5;
const SOURCES = [EXPECTED, 0, 1];
const KEYS = 8;

interface Announcement {
  readonly slot: number;
  readonly source: number;
  readonly tier: number;
  readonly block: number;
  readonly key: number;
}
type Step =
  | ({ kind: "add" } & Announcement)
  | ({ kind: "remove" } & Announcement)
  | { kind: "clear"; slot: number; source: number | undefined }
  | { kind: "sweep"; most: number }
  | { kind: "match"; keys: number[] };

const place = { slot: fc.nat(SLOTS - 1), source: fc.constantFrom(...SOURCES) };
const announcement = {
  ...place,
  tier: fc.nat(5).map((n) => (n < 3 ? 0 : n - 3)),
  block: fc.nat(11),
  key: fc.nat(KEYS - 1),
};
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ kind: fc.constant("add" as const), ...announcement }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("remove" as const), ...announcement }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("clear" as const),
      slot: place.slot,
      source: fc.option(place.source, { nil: undefined }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("sweep" as const), most: fc.nat(3) }) },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant("match" as const), keys: fc.array(fc.nat(KEYS - 1), { maxLength: 6 }) }),
  },
);

/** What is said of the index, in maps: by slot and source, then tier and block. */
class Model {
  readonly #announced = new Map<string, Map<string, { key: number; count: number; tier: number }>>();

  add({ slot, source, tier, block, key }: Announcement): boolean {
    const name = `${slot}/${source}`;
    if (!this.#announced.has(name)) this.#announced.set(name, new Map());
    const blocks = this.#announced.get(name)!;
    const old = blocks.get(`${tier}/${block}`);
    blocks.set(`${tier}/${block}`, { key, tier, count: (old?.count ?? 0) + 1 });
    return old === undefined;
  }

  remove({ slot, source, tier, block }: Announcement): string {
    const blocks = this.#announced.get(`${slot}/${source}`);
    const old = blocks?.get(`${tier}/${block}`);
    if (old === undefined) return "unknown";
    if (--old.count > 0) return "kept";
    blocks!.delete(`${tier}/${block}`);
    return "removed";
  }

  clear(slot: number, source: number | undefined): void {
    for (const s of SOURCES) if (source === undefined || source === s) this.#announced.get(`${slot}/${s}`)?.clear();
  }

  match(keys: readonly number[], slot: number): { weighted: number; blocks: number; confirmed: number } {
    let weighted = 0;
    let blocks = 0;
    let confirmed = 0;
    for (const source of SOURCES) {
      const held = [...(this.#announced.get(`${slot}/${source}`)?.values() ?? [])];
      let sum = 0;
      let at = 0;
      for (; at < keys.length; at++) {
        const tiers = held.filter(({ key }) => key === keys[at]).map(({ tier }) => WEIGHTS[tier]!);
        if (tiers.length === 0) break;
        sum += Math.max(...tiers);
      }
      weighted = Math.max(weighted, sum);
      blocks = Math.max(blocks, at);
      if (source !== EXPECTED) confirmed = Math.max(confirmed, at);
    }
    return { weighted, blocks, confirmed };
  }

  /** Whether two announced blocks of one source and tier stand for one key. An engine never says so. */
  repeats({ slot, source, tier, block, key }: Announcement): boolean {
    const blocks = this.#announced.get(`${slot}/${source}`) ?? new Map();
    return [...blocks].some(
      ([name, other]) => name.startsWith(`${tier}/`) && name !== `${tier}/${block}` && other.key === key,
    );
  }

  get size(): number {
    return [...this.#announced.values()].reduce((sum, blocks) => sum + blocks.size, 0);
  }
}

/** A key of tokens, and the hash of an engine, as halves of 64 bits. */
const keyOf = (key: number): [number, number] => [
  Math.imul(key + 1, 0x9e3779b1) | 0,
  Math.imul(key + 7, 0x85ebca6b) | 0,
];
const hashOf = (block: number): [number, number] => [block, Math.imul(block, 3)];
const POOL = Array.from({ length: SLOTS }, (_, slot) => ({ slot }));

describe("EventIndex", () => {
  it("counts the leading blocks of each endpoint as a slow model does", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120 }), fc.integer(), fc.boolean(), (given, key, oneTier) => {
        // With one tier, lookups take another way.
        const steps = given.map((one) => (oneTier && "tier" in one ? { ...one, tier: 0 } : one));
        const index = new EventIndex({ weights: WEIGHTS, maxPairs: 1_000, key });
        const model = new Model();
        for (const step of steps) {
          if (step.kind === "match") {
            const low = Int32Array.from(step.keys, (of) => keyOf(of)[0]);
            const high = Int32Array.from(step.keys, (of) => keyOf(of)[1]);
            const weighted = new Float64Array(SLOTS);
            const blocks = new Float64Array(SLOTS);
            const confirmed = new Float64Array(SLOTS);
            index.begin(POOL, SLOTS);
            for (let i = 0; i < low.length && index.extend(low[i]!, high[i]!); i++) {}
            index.finish(POOL, SLOTS, { weighted, blocks, confirmed });
            for (const { slot } of POOL) {
              const expected = model.match(step.keys, slot);
              expect(blocks[slot]).toBe(expected.blocks);
              expect(confirmed[slot]).toBe(expected.confirmed);
              expect(weighted[slot]).toBeCloseTo(expected.weighted, 9);
            }
          } else if (step.kind === "add") {
            if (model.repeats(step)) continue;
            const [low, high] = hashOf(step.block);
            expect(index.add(step.slot, step.source, step.tier, low, high, ...keyOf(step.key))).toBe(model.add(step));
            expect(index.keyOf(step.slot, step.source, low, high)).toBe(true);
          } else if (step.kind === "remove") {
            expect(index.remove(step.slot, step.source, step.tier, ...hashOf(step.block))).toBe(model.remove(step));
          } else if (step.kind === "clear") {
            index.clear(step.slot, step.source);
            model.clear(step.slot, step.source);
          } else index.sweep(step.most);
        }
        while (index.sweep(5)) {}
        expect(index.size).toBe(model.size);
      }),
    );
  });
});
