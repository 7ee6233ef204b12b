import fc from "fast-check";
import { expect, it } from "vitest";
import { blockHashes } from "./block-hashes.ts";
import { type BlockTable, KvCache } from "./kv-cache.ts";

/** The slow and obvious cache: lists of prefixes as text, most recently released last. */
class Model {
  readonly capacity: number;
  running: { blocks: string[]; private: number }[] = [];
  idle: string[] = [];

  constructor(capacity: number) {
    this.capacity = capacity;
  }

  pinnedNames(): Set<string> {
    return new Set(this.running.flatMap((table) => table.blocks));
  }

  pinned(): number {
    return this.pinnedNames().size + this.running.reduce((sum, table) => sum + table.private, 0);
  }

  acquire(names: string[], partial: boolean) {
    const table = { blocks: [] as string[], private: 0 };
    let at = 0;
    while (at < names.length && (this.pinnedNames().has(names[at]!) || this.idle.includes(names[at]!))) {
      table.blocks.push(names[at]!);
      at++;
    }
    this.idle = this.idle.filter((name) => !table.blocks.includes(name));
    this.running.push(table);
    const cached = at;
    for (; at < names.length && this.room(); at++) table.blocks.push(names[at]!);
    if (at === names.length && partial && this.room()) table.private++;
    return { table, cached };
  }

  /** Whether one more block can be pinned, evicting if need be. */
  room(): boolean {
    if (this.pinned() === this.capacity) return false;
    if (this.pinned() + this.idle.length === this.capacity) this.idle.shift();
    return true;
  }

  release(table: { blocks: string[]; private: number }): void {
    this.running.splice(this.running.indexOf(table), 1);
    const pinned = this.pinnedNames();
    for (const name of table.blocks.toReversed()) if (!pinned.has(name)) this.idle.push(name);
  }
}

const BLOCK = 4;
const action = fc.oneof(
  fc.record({ kind: fc.constant("acquire" as const), family: fc.nat(3), length: fc.integer({ min: 1, max: 30 }) }),
  fc.record({ kind: fc.constant("release" as const), which: fc.nat(5) }),
);

it("finds, pins and evicts as the obvious cache does (D-66)", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 10 }),
      fc.array(action, { minLength: 20, maxLength: 80 }),
      (capacity, actions) => {
        const cache = new KvCache(capacity, BLOCK);
        const model = new Model(capacity);
        const live: { table: BlockTable; twin: { blocks: string[]; private: number } }[] = [];
        for (const step of actions) {
          if (step.kind === "release") {
            const [entry] = live.splice(step.which, 1);
            if (entry) {
              cache.release(entry.table);
              model.release(entry.twin);
            }
          } else {
            // Families share their first six tokens: one full block in common.
            const tokens = Uint32Array.from({ length: step.length }, (_, i) => (i < 6 ? i : i + 1000 * step.family));
            const hashes = blockHashes(tokens, BLOCK, "m", capacity);
            const names = Array.from({ length: hashes.length / 2 }, (_, i) => tokens.slice(0, (i + 1) * BLOCK).join());
            const table = cache.acquire(hashes, Math.min(step.length, names.length * BLOCK + (step.length % BLOCK)));
            const { table: twin, cached } = model.acquire(names, step.length % BLOCK > 0);
            expect(table.cachedBlocks).toBe(cached);
            live.push({ table, twin });
          }
          expect([cache.pinned, cache.idle]).toEqual([model.pinned(), model.idle.length]);
        }
        for (const { table } of live) cache.release(table);
        expect(cache.pinned).toBe(0);
      },
    ),
    { numRuns: 500 },
  );
});

it("hashes depend on every token before them, on the key and on nothing else", () => {
  fc.assert(
    fc.property(fc.uint32Array({ minLength: 8, maxLength: 40 }), fc.nat(39), (tokens, at) => {
      const hashes = blockHashes(tokens, BLOCK, "k", 100);
      expect(blockHashes(Uint32Array.from([...tokens, 5]), BLOCK, "k", hashes.length / 2)).toEqual(hashes);
      expect(blockHashes(tokens, BLOCK, "l", 100)).not.toEqual(hashes);
      const changed = Uint32Array.from(tokens);
      const place = at % (hashes.length * 2);
      changed[place] = changed[place]! ^ 1;
      const block = Math.floor(place / BLOCK);
      const other = blockHashes(changed, BLOCK, "k", 100);
      expect(other.slice(0, 2 * block)).toEqual(hashes.slice(0, 2 * block));
      for (let i = block; i < hashes.length / 2; i++) {
        expect([other[2 * i], other[2 * i + 1]]).not.toEqual([hashes[2 * i], hashes[2 * i + 1]]);
      }
    }),
  );
});
