import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DONE, LineIndex, OPEN } from "./line-index.ts";

describe("LineIndex", () => {
  it("finds every custom id again, and tells which came twice, as a map does", () => {
    fc.assert(
      fc.property(fc.array(fc.string({ maxLength: 3 }), { maxLength: 300 }), (ids) => {
        const index = new LineIndex((line) => ids[line - 1]);
        const map = new Map<string, number>();
        for (const [at, id] of ids.entries()) {
          index.add(at * 10, OPEN);
          expect(index.enter(id, at + 1)).toBe(map.get(id));
          if (!map.has(id)) map.set(id, at + 1);
        }
        for (const id of [...ids, "never there"]) expect(index.find(id)).toBe(map.get(id));
      }),
    );
  });

  it("grows, and keeps places and states", () => {
    const index = new LineIndex((line) => `id-${line}`);
    for (let line = 1; line <= 20_000; line++) {
      index.add(line * 7, OPEN);
      expect(index.enter(`id-${line}`, line)).toBeUndefined();
    }
    index.mark(12_345, DONE);
    expect(index.find("id-12345")).toBe(12_345);
    expect([index.start(12_345), index.state(12_345), index.state(12_346), index.count]).toEqual([
      ...[86_415, DONE, OPEN, 20_000],
    ]);
  });

  it("refuses more lines than it may hold", () => {
    const index = new LineIndex(() => undefined, 3);
    for (let line = 0; line < 3; line++) index.add(line, OPEN);
    expect(() => index.add(3, OPEN)).toThrow(expect.objectContaining({ code: "BATCH_TOO_LONG" }));
  });
});
