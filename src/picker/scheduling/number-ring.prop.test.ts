import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { NumberRing } from "./number-ring.ts";

const steps = fc.array(
  fc.oneof(
    fc.record({ kind: fc.constant("add" as const), count: fc.oneof(fc.nat(20), fc.nat(900)) }),
    fc.record({ kind: fc.constant("drop" as const), runs: fc.nat(30) }),
  ),
  { maxLength: 200 },
);

describe("a ring of numbers", () => {
  it("gives each run until it is dropped, however the array grows and turns", () => {
    fc.assert(
      fc.property(steps, (all) => {
        const ring = new NumberRing();
        const kept: { position: number; numbers: number[] }[] = [];
        const dropped: number[] = [];
        let value = 0;
        for (const step of all) {
          if (step.kind === "add") {
            const numbers = Array.from({ length: step.count }, () => value++ / 3);
            const position = ring.next;
            ring.reserve(step.count);
            ring.push(Float64Array.of(...numbers, 0.5), numbers.length);
            if (step.count > 0) kept.push({ position, numbers });
          } else
            for (const { position, numbers } of kept.splice(0, step.runs)) {
              ring.dropBefore(position + numbers.length);
              dropped.push(position);
            }
          for (const { position, numbers } of kept) expect(ring.read(position, numbers.length)).toEqual(numbers);
          for (const position of dropped) expect(ring.read(position, 1)).toBeUndefined();
        }
      }),
      { numRuns: 60 },
    );
  });

  it("takes no more than twice what it keeps, however many numbers pass", () => {
    const ring = new NumberRing();
    for (let run = 0; run < 10_000; run++) {
      ring.reserve(100);
      for (let i = 0; i < 100; i++) ring.push(Float64Array.of(i), 1);
      ring.dropBefore(ring.next - 900);
    }
    expect(ring.bytes).toBe(8 * 1024);
  });
});
