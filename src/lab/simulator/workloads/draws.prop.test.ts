import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { quantile } from "../../../../test/support/simulator/workloads/workloads.cases.ts";
import { SeededRandom } from "../../../base/clock/random.ts";
import { type Quantile, QuantileFunction } from "./draws.ts";

/** Valid tables: 2 to 12 quantiles, values from 0.001 on that may stay the same. */
const tables = fc
  .tuple(
    fc.uniqueArray(fc.integer({ min: 1, max: 999 }), { maxLength: 10 }),
    fc.array(fc.double({ min: 1, max: 100, noNaN: true }), { minLength: 12, maxLength: 12 }),
  )
  .map(([inner, factors]): Quantile[] => {
    const shares = [0, ...inner.toSorted((a, b) => a - b).map((share) => share / 1000), 1];
    let value = 0.001;
    return shares.map((share, i) => {
      // Every third value is the one before it.
      if (i % 3 !== 2) value *= factors[i]!;
      return [share, value];
    });
  });

describe("a quantile function", () => {
  it("goes through its quantiles and never descends between them", () => {
    fc.assert(
      fc.property(
        tables,
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (table, x, y) => {
          const distribution = new QuantileFunction(table);
          for (const [share, value] of table) expect(distribution.at(share) / value).toBeCloseTo(1, 9);
          const [low, high] = [distribution.at(Math.min(x, y)), distribution.at(Math.max(x, y))];
          expect(high).toBeGreaterThanOrEqual(low * (1 - 1e-12));
          expect(low).toBeGreaterThanOrEqual(table[0]![1] * (1 - 1e-12));
          expect(high).toBeLessThanOrEqual(table.at(-1)![1] * (1 + 1e-12));
        },
      ),
    );
  });

  it("gives values back with the quantiles that it was made of", () => {
    const table: Quantile[] = [
      [0, 1],
      [0.5, 10],
      [0.9, 20],
      [1, 5000],
    ];
    const distribution = new QuantileFunction(table);
    const random = new SeededRandom(2);
    const values = Array.from({ length: 50_000 }, () => distribution.at(random.next()));
    for (const [share, value] of table.slice(0, 3))
      expect(Math.abs(quantile(values, share) / value - 1)).toBeLessThan(0.05);
    // Half of the way in shares is half of the way in logarithms.
    expect(distribution.at(0.95)).toBeCloseTo(Math.sqrt(20 * 5000), 6);
  });

  it.each<[string, Quantile[]]>([
    ["a single quantile", [[0, 1]]],
    [
      "no share 0",
      [
        [0.1, 1],
        [1, 2],
      ],
    ],
    [
      "no share 1",
      [
        [0, 1],
        [0.9, 2],
      ],
    ],
    [
      "shares that do not ascend",
      [
        [0, 1],
        [0.5, 2],
        [0.5, 3],
        [1, 4],
      ],
    ],
    [
      "values that descend",
      [
        [0, 2],
        [1, 1],
      ],
    ],
    [
      "a value of 0",
      [
        [0, 0],
        [1, 1],
      ],
    ],
    [
      "a value that is no number",
      [
        [0, 1],
        [1, Number.NaN],
      ],
    ],
    [
      "a value without end",
      [
        [0, 1],
        [1, Number.POSITIVE_INFINITY],
      ],
    ],
  ])("is not made of %s", (_, table) => {
    expect(() => new QuantileFunction(table)).toThrowError(expect.objectContaining({ code: "WORKLOAD_INVALID" }));
  });
});
