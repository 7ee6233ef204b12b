import { describe, expect, it } from "vitest";
import {
  fullStudy,
  quantiles,
  refused,
  runResult,
  studyOf,
  tenants,
  WORKLOAD,
} from "../../../../test/support/study/report/report.cases.ts";
import type { KindResult, RunResult } from "../result.ts";
import { formatted, type Unit } from "./figures.ts";
import { StudyIndex } from "./study-index.ts";
import { glanceTable, groupingsOf, groupTable, rateTable } from "./tables.ts";

const KINDS = { name: "kind", of: ({ kinds }: RunResult) => kinds };

/** The cells of a table: rows by the text of their heads, in order; groups are rows, too. */
function rowsOf(
  html: string,
): { head: string; cells: { text: string; best: boolean; range: string; against: string }[] }[] {
  return [...html.matchAll(/<tr[^>]*><th scope="row(?:group)?">(.*?)<\/th>(.*?)<\/tr>/gs)].map(([, head, cells]) => ({
    head: head!,
    cells: [...cells!.matchAll(/<td>(.*?)<\/td>/gs)].map(([, cell]) => ({
      text: /<b>(.*?)<\/b>/.exec(cell!)?.[1] ?? "",
      best: cell!.includes("<em>best</em>"),
      range: /<small>(.*?)<\/small>/.exec(cell!)?.[1] ?? "",
      against: /<i>(.*?)<\/i>/.exec(cell!)?.[1] ?? "",
    })),
  }));
}

/** Least, middle and most by another way than the code's: three seeds are sorted, no number last. */
function three(values: readonly number[]): [number, number, number] {
  const order = values.map((value) => (Number.isNaN(value) ? Number.MAX_VALUE : value)).sort((a, b) => a - b);
  const [min, median, max] = order.map((value) => (value === Number.MAX_VALUE ? Number.NaN : value));
  return [min!, median!, max!];
}

const FIGURES: readonly (readonly [string, Unit, (run: RunResult) => number])[] = [
  ["TTFT p50", "ms", (run) => run.ttft.p50],
  ["TTFT p90", "ms", (run) => run.ttft.p90],
  ["TTFT p99", "ms", (run) => run.ttft.p99],
  ["TTFT mean", "ms", (run) => run.ttft.mean],
  ["e2e p90", "ms", (run) => run.e2e.p90],
  ["TPOT p50", "ms", (run) => run.tpot.p50],
  ["Output tokens/s", "tokens/s", (run) => run.outputTokensPerSecond],
  ["Cache hit rate", "share", (run) => run.hitRate],
  ["Max/mean load", "ratio", (run) => run.maxToMeanLoad],
  ["Rejected", "count", (run) => run.rejected],
  ["Preemptions", "count", (run) => run.preemptions],
  ["Adapter loads", "count", (run) => run.adapterLoads],
];

describe("a table of figures", () => {
  it("holds the least, the median and the most of every figure of every policy, workload and rate", () => {
    const study = fullStudy();
    const index = new StudyIndex(study);
    let traced = 0;
    for (const workload of study.workloads)
      for (const rate of workload.rates) {
        const rows = rowsOf(rateTable(index, workload, rate).html);
        const loads = workload.name === "overload";
        expect(rows.map(({ head }) => head)).toEqual(FIGURES.slice(0, loads ? 12 : 11).map(([name]) => name));
        for (const [i, { cells }] of rows.entries()) {
          const [, unit, of] = FIGURES[i]!;
          expect(cells.length).toBe(study.policies.length);
          for (const [column, { text, range }] of cells.entries()) {
            const { name } = study.policies[column]!;
            const runs = study.runs.filter(
              (run) => run.workload === workload.name && run.rate === rate && run.policy === name,
            );
            const [min, median, max] = three(runs.map(of)).map((value) => formatted(value, unit));
            expect(text).toBe(median);
            expect(range).toBe(min === max ? "" : `${min} to ${max}`);
            traced++;
          }
        }
      }
    expect(traced).toBe((14 * 11 + 12) * 4);
  });

  it("marks the best median and every one that prints the same, and none if all print the same", () => {
    const at = (policy: string, given: Partial<RunResult>) =>
      runResult({ workload: "b2b-saas", rate: 60, policy, seed: 1, ...given });
    const study = studyOf(
      [
        at("a", { ttft: quantiles(900), hitRate: 0.2, rejected: 7 }),
        at("b", { ttft: quantiles(300.04), hitRate: 0.8, rejected: 7 }),
        at("c", { ttft: quantiles(300.01), hitRate: 0.7, rejected: 7 }),
      ],
      ["a", "b", "c"],
    );
    const rows = rowsOf(rateTable(new StudyIndex(study), study.workloads[0]!, 60).html);
    const marks = (name: string) => rows.find(({ head }) => head === name)!.cells.map(({ best }) => best);
    expect(marks("TTFT p90")).toEqual([false, true, true]);
    expect(marks("Cache hit rate")).toEqual([false, true, false]);
    expect(marks("Rejected")).toEqual([false, false, false]);
  });

  it("says how each policy stands to the first", () => {
    const at = (policy: string, p90: number, given: Partial<RunResult> = {}) =>
      runResult({ workload: "b2b-saas", rate: 60, policy, seed: 1, ttft: quantiles(p90), ...given });
    const study = studyOf(
      [at("a", 1000), at("b", 100, { hitRate: 0.3 }), at("c", 1100), at("d", 1001)],
      ["a", "b", "c", "d"],
    );
    const rows = rowsOf(rateTable(new StudyIndex(study), study.workloads[0]!, 60).html);
    const against = (name: string) => rows.find(({ head }) => head === name)!.cells.map((cell) => cell.against);
    expect(against("TTFT p90")).toEqual(["", "10x better", "10 % worse", "same"]);
    expect(against("Cache hit rate")).toEqual(["", "2.0x worse", "same", "same"]);
    expect(against("Preemptions")).toEqual(["", "", "", ""]);
  });

  it("lets a policy that finished nothing win nothing", () => {
    const key = { workload: "b2b-saas", rate: 60, seed: 1 };
    const study = studyOf(
      [
        refused({ ...key, policy: "a" }),
        runResult({ ...key, policy: "b", preemptions: 9, maxToMeanLoad: 2 }),
        runResult({ ...key, policy: "c", preemptions: 3 }),
      ],
      ["a", "b", "c"],
    );
    const rows = rowsOf(rateTable(new StudyIndex(study), study.workloads[0]!, 60).html);
    const row = (name: string) => rows.find(({ head }) => head === name)!.cells;
    expect(row("Preemptions").map(({ best }) => best)).toEqual([false, false, true]);
    expect(row("TTFT p90").map(({ text }) => text)).toEqual(["–", "500 ms", "500 ms"]);
    expect(rows.flatMap(({ cells }) => cells.map(({ against }) => against)).join("")).toBe("");
  });
});

describe("the table at a glance", () => {
  it("has the TTFT p90 of every workload at its top rate", () => {
    const study = fullStudy();
    const rows = rowsOf(glanceTable(new StudyIndex(study)).html);
    expect(rows.map(({ head }) => head)).toEqual([
      "b2b-saas at 60 requests/s",
      "low-prefix-share at 40 requests/s",
      "overload at 90 requests/s",
    ]);
    const [, , , ours] = rows[1]!.cells;
    const values = study.runs.filter(
      ({ workload, rate, policy }) => workload === "low-prefix-share" && rate === 40 && policy === "default",
    );
    expect(ours!.text).toBe(formatted(three(values.map((run) => run.ttft.p90))[1], "ms"));
  });
});

describe("a table of kinds", () => {
  it("holds every figure of every kind", () => {
    const study = fullStudy();
    const workload = study.workloads[1]!;
    const rows = rowsOf(groupTable(new StudyIndex(study), workload, 40, KINDS)!.html);
    const figures: readonly (readonly [string, Unit, (kind: KindResult) => number])[] = [
      ["TTFT p50", "ms", (kind) => kind.ttft.p50],
      ["TTFT p90", "ms", (kind) => kind.ttft.p90],
      ["TTFT p99", "ms", (kind) => kind.ttft.p99],
      ["e2e p90", "ms", (kind) => kind.e2e.p90],
      ["Finished", "count", (kind) => kind.finished],
      ["Rejected", "count", (kind) => kind.rejected],
      ["Output tokens", "tokens", (kind) => kind.outputTokens],
      ["Served tokens/s", "tokens/s", (kind) => kind.servedPerSecond],
    ];
    expect(rows.map(({ head }) => head)).toEqual(figures.flatMap(([name]) => [name, "realtime", "batch"]));
    for (const [i, [, unit, of]] of figures.entries())
      for (const [k, kind] of ["realtime", "batch"].entries())
        for (const [column, cell] of rows[i * 3 + 1 + k]!.cells.entries()) {
          const results = study.runs
            .filter(({ workload: name, rate }) => name === workload.name && rate === 40)
            .filter(({ policy }) => policy === study.policies[column]!.name)
            .map(({ kinds }) => kinds.find((one) => one.kind === kind)!);
          expect(cell.text).toBe(formatted(three(results.map(of))[1], unit));
        }
  });

  it("has tenants and priorities as well with flow control, where there are several", () => {
    const given = { workload: "b2b-saas", rate: 60, policy: "default", seed: 1 };
    const priorities = tenants(2).map((one, i) => ({ ...one, kind: String(-10 * i), wait: quantiles(50) }));
    const groups = { tenants: tenants(1), priorities, refusals: { ttl_expired: 7 } };
    const tables = (run: RunResult) => {
      const index = new StudyIndex(studyOf([run], ["default"]));
      return { index, names: groupingsOf(index, WORKLOAD).map(({ name }) => name) };
    };
    expect(tables(runResult({ ...given, ...groups })).names).toEqual(["kind"]);
    const run = runResult({ ...given, ...groups, wait: quantiles(50), jain: 0.5, wasted: 0.02 });
    const { index, names } = tables(run);
    expect(names).toEqual(["kind", "priority"]);
    const rows = rowsOf(groupTable(index, WORKLOAD, 60, groupingsOf(index, WORKLOAD)[1]!)!.html);
    expect(rows.find(({ head }) => head === "Queue wait p90")).toBeDefined();
    const figures = new Map(
      rowsOf(rateTable(index, WORKLOAD, 60).html).map(({ head, cells }) => [head, cells[0]!.text] as const),
    );
    expect(figures.get("Jain index of tenants")).toBe("0.50");
    expect(figures.get("Wasted tokens")).toBe("2 %");
    expect(figures.get("Backlog tokens/s")).toBe("100");
    expect(figures.get("Rejected: ttl expired")).toBe("7");
  });

  it("has the figures that matter most where kinds are many, and is not there without kinds", () => {
    const study = fullStudy();
    expect(groupTable(new StudyIndex(study), study.workloads[0]!, 60, KINDS)).toBeUndefined();
    const runs = [runResult({ workload: "b2b-saas", rate: 60, policy: "default", seed: 1, kinds: tenants(40) })];
    const rows = rowsOf(groupTable(new StudyIndex(studyOf(runs, ["default"])), WORKLOAD, 60, KINDS)!.html);
    const names = tenants(40).map(({ kind }) => kind);
    expect(rows.map(({ head }) => head)).toEqual(
      ["TTFT p90", "Finished", "Rejected"].flatMap((name) => [name, ...names]),
    );
    expect(rows[40]!.cells[0]!.text).toBe("139 ms");
  });
});
