import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BodyAssembler } from "./body-assembler.ts";

describe("BodyAssembler", () => {
  it("gives back the concatenation of any pieces, whatever length was declared", () => {
    fc.assert(
      fc.property(
        fc.array(fc.uint8Array({ maxLength: 40_000 }), { minLength: 1, maxLength: 8 }),
        fc.integer({ min: -5, max: 1e9 }),
        (pieces, declared) => {
          const assembler = new BodyAssembler();
          assembler.expect(declared);
          for (const piece of pieces.slice(0, -1)) assembler.add(piece);
          const whole = assembler.finish(pieces.at(-1)!);
          expect(Buffer.compare(whole, Buffer.concat(pieces))).toBe(0);
          expect(assembler.length).toBe(0);
        },
      ),
      { numRuns: 100 },
    );
  });

  it("does not copy a body in one piece", () => {
    const piece = new Uint8Array([1, 2, 3]);
    expect(new BodyAssembler().finish(piece)).toBe(piece);
  });

  it("keeps its own copy of earlier pieces", () => {
    const assembler = new BodyAssembler();
    const piece = new Uint8Array([1, 2]);
    assembler.add(piece);
    piece.fill(9);
    expect([...assembler.finish(new Uint8Array([3]))]).toEqual([1, 2, 3]);
  });
});
