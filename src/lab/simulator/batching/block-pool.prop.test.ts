import fc from "fast-check";
import { expect, it } from "vitest";
import { BlockPool, NO_BLOCK } from "./block-pool.ts";

interface ModelBlock {
  holders: number;
  contents: number | undefined;
  since: number;
}

/** Contents by number; all of them fall into one or two buckets, so that chains get long. */
const wordsOf = (contents: number): [first: number, second: number] => [contents % 2 ? 2 ** 31 : 0, contents];

const action = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("take" as const), count: fc.integer({ min: 1, max: 4 }) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("fill" as const), who: fc.nat(5), contents: fc.nat(7) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("share" as const), contents: fc.nat(7) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("release" as const), who: fc.nat(5) }) },
);

it("takes, finds, shares and lets go as a list of blocks does, none twice and none lost", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 9 }), fc.array(action, { maxLength: 80 }), (capacity, actions) => {
      const pool = new BlockPool(capacity);
      const blocks = Array.from(
        { length: capacity },
        (): ModelBlock => ({ holders: 0, contents: undefined, since: 0 }),
      );
      const queue = blocks.map((_, i) => i);
      const tables: number[][] = [];
      let count = 0;
      for (const step of actions) {
        const before = pool.changes;
        if (step.kind === "take") {
          const table: number[] = [];
          for (let i = 0; i < step.count && pool.available > 0; i++) {
            const expected = queue.shift()!;
            expect(pool.take()).toBe(expected);
            Object.assign(blocks[expected]!, { holders: 1, contents: undefined });
            table.push(expected);
          }
          if (table.length > 0) tables.push(table);
        } else if (step.kind === "fill") {
          const empty = tables[step.who]?.find((block) => blocks[block]!.contents === undefined);
          if (empty !== undefined) {
            pool.remember(empty, ...wordsOf(step.contents));
            Object.assign(blocks[empty]!, { contents: step.contents, since: ++count });
            expect(pool.changes).toBeGreaterThan(before);
          }
        } else if (step.kind === "share") {
          const found = pool.find(...wordsOf(step.contents));
          if (found !== NO_BLOCK) {
            pool.pin(found);
            if (blocks[found]!.holders++ === 0) queue.splice(queue.indexOf(found), 1);
            tables.push([found]);
          }
        } else {
          const [table] = tables.splice(step.who, 1);
          if (table) {
            for (const block of table.toReversed()) if (--blocks[block]!.holders === 0) queue.push(block);
            pool.release(table);
            expect(table).toEqual([]);
            expect(pool.changes).toBeGreaterThan(before);
          }
        }
        for (let contents = 0; contents < 8; contents++) {
          const same = blocks.flatMap((block, i) => (block.contents === contents ? [i] : []));
          const oldest = same.toSorted((a, b) => blocks[a]!.since - blocks[b]!.since)[0] ?? NO_BLOCK;
          expect(pool.find(...wordsOf(contents))).toBe(oldest);
        }
        const idle = queue.filter((block) => blocks[block]!.contents !== undefined).length;
        const empty = queue.length - idle;
        expect([pool.available, pool.idle]).toEqual([queue.length, idle]);
        expect(pool.pinned + pool.idle + empty).toBe(capacity);
        blocks.forEach(({ holders }, i) => {
          expect(pool.held(i)).toBe(holders > 0);
        });
      }
    }),
    { numRuns: 300 },
  );
});

it("the loss of contents that are there twice counts as a change, any other does not", () => {
  const pool = new BlockPool(3);
  const [a, b, c] = [pool.take(), pool.take(), pool.take()];
  pool.remember(a, 1, 1);
  pool.remember(b, 1, 1);
  pool.remember(c, 2, 2);
  pool.release([a, b, c].toReversed());
  const before = pool.changes;
  expect(pool.take()).toBe(a);
  expect([pool.changes, pool.find(1, 1)]).toEqual([before + 1, b]);
  pool.take();
  pool.take();
  expect(pool.changes).toBe(before + 1);
});
