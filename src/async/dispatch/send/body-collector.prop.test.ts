import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BodyCollector } from "./answer-body.ts";

describe("BodyCollector", () => {
  it("puts the pieces together, whatever length was announced", () => {
    fc.assert(
      fc.property(
        fc.array(fc.uint8Array({ maxLength: 40_000 }), { maxLength: 12 }),
        fc.constantFrom("unknown", "right", "less", "more", "huge"),
        (pieces, announcement) => {
          const whole = Buffer.concat(pieces);
          const announced = { unknown: Number.NaN, right: whole.length, less: 3, more: whole.length + 9, huge: 1e12 };
          const body = new BodyCollector();
          for (const piece of pieces) body.add(piece, announced[announcement]);
          expect(body.size).toBe(whole.length);
          expect(whole.equals(body.bytes())).toBe(true);
        },
      ),
    );
  });

  it("keeps a single piece as it is and leaves pieces alone", () => {
    const [first, second] = [Buffer.from("first"), Buffer.from("second")];
    const body = new BodyCollector();
    body.add(first, Number.NaN);
    expect(body.bytes()).toBe(first);
    body.add(second, Number.NaN);
    expect(Buffer.from(body.bytes()).toString()).toBe("firstsecond");
    expect([first.toString(), second.toString()]).toEqual(["first", "second"]);
  });

  it("a million single bytes take the memory of a megabyte", () => {
    const body = new BodyCollector();
    const byte = Buffer.from("x");
    for (let i = 0; i < 1_000_000; i++) body.add(byte, Number.NaN);
    expect(body.bytes().buffer.byteLength).toBeLessThan(2_200_000);
  });

  it("an announcement alone takes no memory", () => {
    const body = new BodyCollector();
    for (const piece of ["a", "b"]) body.add(Buffer.from(piece), 64 * 1024 * 1024);
    expect(body.bytes().buffer.byteLength).toBeLessThan(100_000);
  });
});
