import { describe, expect, it } from "vitest";
import { columnsOf, endpointOf, unscraped } from "../../../test/support/scheduling/fakes.cases.ts";
import { attributeKey, columnKey } from "../../base/plugin/keys.ts";
import { CandidateColumns } from "./candidates.ts";

const head = (column: ArrayLike<number>, count: number): number[] =>
  Array.from({ length: count }, (_, i) => column[i]!);

describe("candidate columns", () => {
  it("replaces missing and stale values by the worst known value of their column", () => {
    const columns = new CandidateColumns(0, 0);
    columns.fill(
      [
        endpointOf(0, { metrics: { waiting: 3, running: 7, kvUsage: 0.2, scrapedAt: 1000 } }),
        endpointOf(1, { metrics: { waiting: 99, running: 99, kvUsage: 0.99, scrapedAt: 0 } }),
        endpointOf(2, { metrics: { waiting: 5, running: Number.NaN, kvUsage: Number.NaN, scrapedAt: 1000 } }),
        unscraped(3),
      ],
      1000,
    );
    expect(head(columns.fresh, 4)).toEqual([1, 0, 1, 0]);
    expect(head(columns.waiting, 4)).toEqual([3, 5, 5, 5]);
    expect(head(columns.running, 4)).toEqual([7, 7, 7, 7]);
    expect(head(columns.kvUsage, 4)).toEqual([0.2, 0.2, 0.2, 0.2]);
  });

  it("holds NaN for all candidates if no value is known", () => {
    const columns = new CandidateColumns(0, 0);
    columns.fill([unscraped(0), endpointOf(1, { metrics: { kvUsage: Number.NaN } })], 0);
    expect(head(columns.kvUsage, 2)).toEqual([Number.NaN, Number.NaN]);
    expect(head(columns.waiting, 2)).toEqual([0, 0]);
  });

  it("believes an idle endpoint that is scraped rarely, and an old value up to the threshold", () => {
    const age = (columns: CandidateColumns, now: number, scrapeInterval: number): number => {
      columns.fill([endpointOf(0, { scrapeInterval })], now);
      return columns.fresh[0]!;
    };
    const columns = new CandidateColumns(0, 0);
    expect([age(columns, 200, 50), age(columns, 201, 50)]).toEqual([1, 0]);
    expect([age(columns, 2500, 1000), age(columns, 2501, 1000)]).toEqual([1, 0]);
    expect(age(new CandidateColumns(0, 0, 2000), 1999, 50)).toBe(1);
  });

  it("grows with the pool, and starts producers' columns at zero for each decision", () => {
    const key = columnKey("k");
    const columns = columnsOf([], [[key, []]]);
    columns.fill([endpointOf(0)], 0);
    columns.column(key)[0] = 5;
    columns.fill(
      Array.from({ length: 1000 }, (_, slot) => endpointOf(slot, { metrics: { waiting: slot } })),
      0,
    );
    expect(columns.room).toBeGreaterThanOrEqual(1000);
    expect([columns.waiting[999], columns.column(key)[0], columns.column(key)[999]]).toEqual([999, 0, 0]);
  });

  it("drops candidates from every column and keeps the order of the others", () => {
    const key = columnKey("k");
    const columns = columnsOf([], [[key, []]]);
    const pool = [0, 1, 2, 3].map((slot) => endpointOf(slot, { metrics: { waiting: slot * 10 } }));
    columns.fill(pool, 0);
    columns.column(key).set([1, 2, 3, 4]);
    expect(columns.retain(Uint8Array.of(1, 0, 1, 1))).toBe(3);
    expect(columns.endpoints.map(({ slot }) => slot)).toEqual([0, 2, 3]);
    expect([head(columns.waiting, 3), head(columns.column(key), 3)]).toEqual([
      [0, 20, 30],
      [1, 3, 4],
    ]);
    expect(columns.retain(Uint8Array.of(0, 0, 0))).toBe(0);
    expect(pool).toHaveLength(4);
  });

  it("becomes a copy of others that stays as it is when they change, whatever their size", () => {
    const key = columnKey("k");
    const pool = Array.from({ length: 40 }, (_, slot) => endpointOf(slot, { metrics: { waiting: slot } }));
    const base = columnsOf(pool, [[key, pool.map(({ slot }) => slot * 2)]]);
    const work = columnsOf([], [[key, []]]);
    for (let i = 0; i < 2; i++) {
      work.copyFrom(base);
      expect(work.retain(Uint8Array.from(pool, (_, at) => at % 2))).toBe(20);
      expect([head(work.column(key), 2), head(work.waiting, 2)]).toEqual([
        [2, 6],
        [1, 3],
      ]);
    }
    expect([base.count, base.column(key)[39]]).toEqual([40, 78]);
  });

  it("refuses a key that a plugin does not declare, with another message than for a key that no producer writes", () => {
    const [mine, other] = [columnKey("mine"), columnKey("other")];
    const [said, unsaid] = [attributeKey<string>("said"), attributeKey<string>("unsaid")];
    const columns = new CandidateColumns(0, 0);
    columns.scope = { columns: new Map([[mine, -1]]), attributes: new Map([[said, -1]]), writes: new Map() };
    expect(columns.optionalColumn(mine)).toBeUndefined();
    expect(() => columns.column(mine)).toThrow(
      'no producer writes the column mine; list it in "requires", or read it with optionalColumn',
    );
    expect(() => columns.optionalColumn(other)).toThrow(
      'this plugin reads the column other without declaring it; list it in "requires" or "optional"',
    );
    expect(columns.attribute(said)).toBeUndefined();
    expect(() => columns.attribute(unsaid)).toThrow("this plugin reads the attribute unsaid without declaring it");
    expect(() => columns.setAttribute(said, "x")).toThrow(
      'this plugin writes the attribute said without declaring it; list it in "produces"',
    );
  });
});
