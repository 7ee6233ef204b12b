import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BodyAssembler } from "./request-body.ts";

describe("BodyAssembler", () => {
  it("gives back the concatenation of any pieces, whatever length was declared", () => {
    fc.assert(
      fc.property(
        fc.array(fc.uint8Array({ maxLength: 40_000, size: "max" }), { minLength: 1, maxLength: 8 }),
        fc.oneof(fc.constant(0), fc.integer({ min: -5, max: 1e9 })),
        (pieces, declared) => {
          const assembler = new BodyAssembler();
          assembler.expect(declared);
          for (const piece of pieces.slice(0, -1)) assembler.add(piece);
          const whole = assembler.finish(pieces.at(-1)!);
          expect(Buffer.compare(whole, Buffer.concat(pieces))).toBe(0);
          expect(assembler.length).toBe(0);
        },
      ),
      { numRuns: 30, endOnFailure: true },
    );
  });

  it("does not copy a body in one piece", () => {
    const piece = new Uint8Array([1, 2, 3]);
    expect(new BodyAssembler().finish(piece)).toBe(piece);
  });

  it("trusts a declared length up to a mebibyte: a client that announces more and sends little takes no more", () => {
    const assembler = new BodyAssembler();
    assembler.expect(1e9);
    assembler.add(new Uint8Array(1));
    const whole = assembler.finish(new Uint8Array(1));
    expect([whole.length, whole.buffer.byteLength]).toEqual([2, 1024 * 1024]);
  });

  it("forgets a body that it gave away: the next one does not overwrite it", () => {
    const assembler = new BodyAssembler();
    assembler.add(new Uint8Array([1, 2]));
    const whole = assembler.finish(new Uint8Array([3]));
    assembler.add(new Uint8Array([9, 9, 9]));
    expect([...whole]).toEqual([1, 2, 3]);
  });

  it("keeps its own copy of earlier pieces", () => {
    const assembler = new BodyAssembler();
    const piece = new Uint8Array([1, 2]);
    assembler.add(piece);
    piece.fill(9);
    expect([...assembler.finish(new Uint8Array([3]))]).toEqual([1, 2, 3]);
  });
});
