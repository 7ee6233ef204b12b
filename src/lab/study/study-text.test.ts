import { describe, expect, it } from "vitest";
import { kindOf, NO_TIMES, quantiles, runOf, studyOf, workloadOf } from "../../../test/support/study/study.cases.ts";
import { PRESETS } from "../simulator/batching/config.ts";
import type { RunResult } from "./result.ts";
import { planText, studyText } from "./study-text.ts";

const POLICIES: Readonly<Record<string, number>> = {
  ...{ "round-robin": 40_000, default: 130, "sticky-until-saturated": 150 },
};

function runs(more: Partial<RunResult> = {}, rates = [10, 60], seeds = [1, 2, 3]): RunResult[] {
  return rates.flatMap((rate) =>
    Object.entries(POLICIES).flatMap(([policy, p90]) =>
      seeds.map((seed) => runOf(policy, rate, seed, (p90 * rate * (10 + seed)) / 720, more)),
    ),
  );
}

const text = (given: readonly RunResult[], width?: number): string =>
  studyText(studyOf(given), { width, planned: given.length });

/** The lines from the one that begins so, up to the next empty one. */
function block(told: string, start: string): string[] {
  const lines = told.split("\n");
  const from = lines.findIndex((line) => line.startsWith(start));
  return from < 0 ? [] : lines.slice(from, lines.indexOf("", from));
}

describe("studyText", () => {
  it("says what was simulated, which policy was best, and what the words mean", () => {
    const speed = { requestsPerSecond: 12_340, bareRequestsPerSecond: 24_000 };
    expect(studyText(studyOf(runs(), { speed }), { planned: 18 })).toBe(`\
b2b-saas: 150 customers with a system prompt each
8 servers of qwen3-32b-2xh100; 45 s of arrivals at 10, 60 requests/s; metrics read every 50 ms; seeds 1 to 3
actual: 450 to 2,700 requests per run, prompts of 7,200 tokens and answers of 250 on average

At 60 requests/s: medians of 3 seeds, below them the minimum and the maximum
policy                   TTFT p50   TTFT p90  faster   TTFT p99       tokens/s  more  hits  max/mean  rejected
round-robin                20.0 s     40.0 s    1.0x     44.0 s          1,250  1.0x  80 %      1.10         0
                        18.3-21.7  36.7-43.3          40.3-47.7    1,201-1,306
default                     65 ms     130 ms    308x     143 ms         21,926   18x  80 %      1.10         0
                            60-70    119-141            131-155  21,066-22,901
sticky-until-saturated      75 ms     150 ms    267x     165 ms         20,412   16x  80 %      1.10         0
                            69-81    138-163            151-179  19,612-21,320

Shortest TTFT p90: default with 130 ms, not distinct from sticky-until-saturated, against 40.0 s of round-robin. Most
output tokens/s: default with 21,926, not distinct from sticky-until-saturated, against 1,250 of round-robin.
At 60 requests/s round-robin does not keep up: its queues and TTFT grow as long as requests arrive. At this rate,
\`faster\` says little; compare the lower rates.

TTFT p90 over requests/s, medians
policy                      10      60
round-robin             6.67 s  40.0 s
default                  22 ms  130 ms
sticky-until-saturated   25 ms  150 ms

TTFT      time from a request's arrival to its first token; p90: 90 % are shorter
faster    how many times shorter the TTFT p90 is than round-robin's
tokens/s  output tokens of all servers; more: how many times those of round-robin
hits      share of the prompts' tokens that a cache held
max/mean  load of the busiest server, divided by the average; 1 = even
rejected  requests that were refused; --json and --html have the reasons

Speed of the simulation: 12,340 requests per second of real time with the scheduler, 24,000 without (0.51).
`);
  });

  it("has tables of flow control where a policy has it: waits, waste, refusals, tenants and priorities", () => {
    const group = (kind: string, p90: number) => kindOf(kind, p90, { wait: quantiles(p90 / 10), servedPerSecond: p90 });
    const given: Partial<RunResult> = {
      ...{ wait: quantiles(500), jain: 0.5, wasted: 0.0234, refusals: { ttl_expired: 7, evicted: 2 } },
      tenants: [group("noisy", 4000), group("quiet", 100)],
      priorities: [group("100", 100), group("-10", 1200)],
    };
    const told = text([...runs(given, [60], [1])]);
    const [head, first] = block(told, "Flow control at 60")
      .slice(1)
      .map((line) => line.split(/ {2,}/));
    expect(head).toEqual([
      ...["policy", "wait p50", "wait p90", "wait p99", "even", "wasted", "backlog tokens/s", "evicted", "ttl expired"],
    ]);
    expect(first).toEqual(["round-robin", "250 ms", "500 ms", "550 ms", "0.50", "2.3 %", "1,200", "2", "7"]);
    for (const sort of ["tenant", "priority"])
      for (const figure of ["TTFT p50", "TTFT p90", "TTFT p99", "wait p90", "served tokens/s"])
        expect(told).toContain(`\n${figure} by ${sort} at 60 requests/s\n`);
    expect(told).toMatch(/^wasted +share of the computed tokens/m);
    expect(text([...runs({ ...given, wait: NO_TIMES }, [60], [1])])).not.toMatch(/by tenant|Flow control|wasted/);
    expect(text([...runs({ ...given, tenants: [group("one", 5)] }, [60], [1])])).not.toContain("by tenant");
  });

  it("names the requests before the measurement as a warm-up", () => {
    const workloads = [workloadOf({ warmUp: { rate: 2.5, durationMs: 50_000 } })];
    const told = studyText(studyOf(runs(), { workloads }), { planned: 18 });
    expect(told.replace(/\n/g, " ")).toContain(
      "45 s of arrivals at 10, 60 requests/s; warm-up before: 50 s at 2.5 requests/s; metrics read every 50 ms;",
    );
  });

  it("keeps to the width of the terminal, from 60 to 120 characters, without leaving anything out", () => {
    const ladder = [5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60];
    const kinds = Array.from({ length: 9 }, (_, i) => kindOf(`tenant-${i}`, 10 ** i));
    const given = runs({ adapterLoads: 123, rejected: 1234, kinds }, ladder);
    for (const width of [undefined, 20, 60, 70, 80, 90, 100, 110, 120, 300]) {
      const told = text(given, width);
      const most = Math.min(120, Math.max(60, width ?? 120));
      expect(told.split("\n").filter((line) => line.length > most || line !== line.trimEnd())).toEqual([]);
      expect(told).not.toContain("\n\n\n");
      for (const word of ["TTFT p50", "faster", "tokens/s", "more", "rejected", "adapter loads", "tenant-8"])
        expect(told).toContain(word);
    }
  });

  it("aligns the columns of its tables", () => {
    const [head, ...rows] = block(text(runs()), "policy ");
    for (const word of ["TTFT p50", "TTFT p90", "TTFT p99", "tokens/s"]) {
      const end = head!.indexOf(word) + word.length;
      expect(rows.map((row) => row[end]).filter((character) => character !== " " && character !== undefined)).toEqual(
        [],
      );
      expect(rows.map((row) => row[end - 1])).not.toContain(" ");
    }
  });

  it("has one line for each policy, no ranges and no ladder with one seed and one rate", () => {
    const told = text(runs({}, [60], [7]));
    expect(told).toContain("; seed 7\n");
    expect(block(told, "At 60 requests/s, one seed")).toHaveLength(2 + Object.keys(POLICIES).length);
    expect(told).not.toContain("medians");
  });

  it("compares nothing where there is one policy", () => {
    const told = text([runOf("default", 60, 1, 130)]);
    expect(block(told, "policy ")[0]).toMatch(/^policy {3}TTFT p50 {2}TTFT p90 {2}TTFT p99 {2}tokens\/s {2}hits/);
    expect(told).not.toMatch(/faster|more:|Shortest/);
  });

  it("compares runs of the same seed alone", () => {
    const told = text([
      runOf("a", 60, 1, 1000),
      runOf("a", 60, 2, 4000),
      runOf("b", 60, 1, 100),
      runOf("b", 60, 2, 200),
    ]);
    const [, , , b, range] = block(told, "policy ");
    expect(b).toMatch(/^b +75 ms +150 ms +15x /);
    expect(range).toMatch(/ 10-20 /);
  });

  it("calls policies different if their ranges do not overlap, and with one seed if they differ by more than 5 %", () => {
    const three = (policy: string, p90s: readonly number[]) => p90s.map((p90, i) => runOf(policy, 60, i + 1, p90));
    const verdict = (given: readonly RunResult[]) => block(text(given), "Shortest").join(" ");
    const apart = verdict([...three("a", [100, 110, 120]), ...three("b", [90, 95, 99]), ...three("c", [92, 94, 98])]);
    expect(apart).toContain("Shortest TTFT p90: c with 94 ms, not distinct from b, against 110 ms of a.");
    expect(apart).not.toContain("One seed");
    const first = verdict([...three("a", [100, 110, 120]), ...three("b", [90, 95, 101])]);
    expect(first).toContain("Shortest TTFT p90: b with 95 ms, not distinct from a.");
    const one = verdict([runOf("a", 60, 1, 104), runOf("b", 60, 1, 100), runOf("c", 60, 1, 106)]);
    expect(one).toContain("Shortest TTFT p90: b with 100 ms, not distinct from a.");
    expect(one).toContain("One seed cannot show small differences; use --seeds 5.");
    expect(one).not.toContain("keep up");
  });

  it("shows - where there is nothing, never NaN", () => {
    const nothing = { p50: Number.NaN, p90: Number.NaN, p99: Number.NaN, mean: Number.NaN, max: Number.NaN };
    const refused = { finished: 0, rejected: 450, ttft: nothing, hitRate: Number.NaN, maxToMeanLoad: Number.NaN };
    const none = { outputTokensPerSecond: Number.NaN, promptTokens: Number.NaN, outputTokens: Number.NaN };
    const given = [1, 2].flatMap((seed) => [
      runOf("round-robin", 10, seed, 100, { ...refused, ...none }),
      runOf("default", 10, seed, 100, seed === 1 ? { ttft: nothing } : {}),
    ]);
    const told = text(given);
    expect(told).not.toMatch(/NaN|Infinity|undefined/);
    const [, roundRobin, byDefault, range] = block(told, "policy ");
    expect(roundRobin!.split(/\s+/)).toEqual(["round-robin", "-", "-", "-", "-", "-", "-", "-", "-", "450"]);
    expect([byDefault!.split(/\s+/).slice(0, 3), range!.trim().split(/\s+/)[0]]).toEqual([
      ["default", "-", "-"],
      "50-?",
    ]);
    const alone = text([runOf("default", 10, 1, 1, { ...refused, ...none })]);
    expect(alone).toContain("prompts of - tokens and answers of - on average");
  });

  it("breaks results down by kind, at the top rate, and what was rejected where anything was", () => {
    const kinds = (rejected: number) => [
      kindOf("realtime", 50),
      kindOf("batch", 90_000, { requests: 900, rejected }),
      kindOf("never", 1, { requests: 1, ttft: quantiles(Number.NaN) }),
    ];
    expect(block(text(runs({ kinds: kinds(0) })), "TTFT p90 by kind")).toEqual([
      "TTFT p90 by kind of request at 60 requests/s",
      "policy                   batch  realtime  never",
      "round-robin             90.0 s     50 ms      -",
      "default                 90.0 s     50 ms      -",
      "sticky-until-saturated  90.0 s     50 ms      -",
    ]);
    expect(text(runs({ kinds: kinds(0) }))).not.toContain("rejected, by kind");
    expect(block(text(runs({ kinds: kinds(1200) })), "rejected, by kind")[2]).toBe(
      "round-robin             1,200         0      0",
    );
  });

  it("shows the ten busiest kinds of many, and says so", () => {
    const kinds = Array.from({ length: 40 }, (_, i) => kindOf(`t${i}`, 50, { requests: 100 + i }));
    const lines = block(text(runs({ kinds })), "TTFT p90 by kind");
    expect(lines[0]).toBe("TTFT p90 by kind of request at 60 requests/s, the 10 busiest of 40");
    expect(lines[1]!.split(/\s+/)).toEqual(["policy", ...Array.from({ length: 10 }, (_, i) => `t${39 - i}`)]);
  });

  it("marks what was ended early, and shows the highest rate that every policy has been through", () => {
    const given = runs().slice(0, 12);
    const told = studyText(studyOf(given), { planned: 18 });
    expect(told).toContain("At 10 requests/s");
    expect(block(told, "TTFT p90 over")[4]).toBe("sticky-until-saturated   25 ms       -");
    expect(told).toMatch(/\n\nPARTIAL: 12 of 18 runs were complete when the study ended\.\n$/);
    expect(studyText(studyOf([], { policies: [{ name: "default", about: "" }], seeds: [1] }), { planned: 18 })).toBe(
      "No run was finished.\n\nPARTIAL: 0 of 18 runs were complete when the study ended.\n",
    );
    expect(studyText(studyOf(given.slice(0, 4)), { planned: 18 })).toContain("At 10 requests/s");
  });

  it("cuts long names at their beginning and obeys no control characters in them", () => {
    const told = text([runOf("/etc/somewhere/far/away/default.yaml", 10, 1, 1), runOf("\u001b[31mred", 10, 1, 1)]);
    expect(told).toContain("\n...ere/far/away/default.yaml ");
    expect(told).toContain("\n?[31mred ");
    expect(told).not.toContain("\u001b");
  });

  it("states the age of stale metrics in the units of the flag", () => {
    const study = studyOf(runs(), {
      workloads: [workloadOf({ scrapeIntervalMs: 1500, metricsLagMs: 0.5, servers: 1 })],
    });
    const told = studyText(study, { planned: 18 });
    expect(told).toContain("metrics read every 1.5 s, 0.5 ms old; seeds");
    expect(told).toContain("\n1 server of");
  });

  it("shows every workload that has results", () => {
    const names = ["one", "two", "three"];
    const given = runs().map((run, i) => ({ ...run, workload: names[i % 2]! }));
    const told = studyText(studyOf(given, { workloads: names.map((name) => workloadOf({ name })) }), { planned: 18 });
    expect(names.map((name) => told.includes(`${name}: 150 customers`))).toEqual([true, true, false]);
  });
});

describe("planText", () => {
  it("says in a line what is to come", () => {
    const workload = {
      ...{ definition: { ...workloadOf(), make: () => ({ start() {} }) }, rates: [10, 60], durationMs: 45_000 },
      ...{ servers: 8, preset: PRESETS[0]!, scrapeIntervalMs: 50, metricsLagMs: 0 },
    };
    const plan = { workloads: [workload], policies: [{ name: "a", about: "" }], seeds: [1, 2, 3], samples: false };
    expect(planText(plan, { runs: 6, requests: 9450 })).toMatch(
      /^b2b-saas, 1 policy, 3 seeds: 6 runs, about 9,450 requests, about \d+ s; Ctrl-C shows the finished runs$/,
    );
    const more = { ...plan, workloads: [workload, workload], policies: [...plan.policies, ...plan.policies] };
    expect(planText(more, { runs: 24, requests: 37_800.4 })).toMatch(
      /^2 workloads, 2 policies, 3 seeds: 24 runs, about 37,800 requests/,
    );
  });
});
