import { describe, expect, it } from "vitest";
import { SluiceError } from "../../base/inference/errors.ts";
import { PRESETS } from "../simulator/batching/config.ts";
import type { WorkloadDefinition } from "../simulator/workloads/workload.ts";
import type { Policy } from "./policies.ts";
import { type PlanSize, planSize, type SimulateFlags, simulateSettings } from "./simulate-settings.ts";
import type { StudyPlan } from "./study.ts";

function workload(name: string, more: Partial<WorkloadDefinition> = {}): WorkloadDefinition {
  return {
    ...{ name, about: `about ${name}`, rates: [3, 10, 20, 40, 60], rateUnit: "requests/s", servers: 8 },
    ...{ preset: "qwen3-32b-2xh100", durationMs: 45_000, make: () => ({ start() {} }) },
    ...more,
  };
}

const names = ["round-robin", "least-active", "scraped-queue", "random", "default", "sticky-until-saturated"];
const CATALOGUE = {
  workloads: [
    workload("b2b-saas"),
    workload("stale", { scrapeIntervalMs: 200, metricsLagMs: 1000, preset: "llama-3-8b-h100", rates: [5] }),
    workload("bursts"),
    workload("neighbour", { policies: ["default", "random"] }),
    workload("mixed", { policies: ["random", "least-active"] }),
  ],
  policies: names.map((name): Policy => ({ name, about: `about ${name}` })),
  presets: PRESETS,
  filePolicy: (file: string, experimental: boolean): Policy => ({
    ...{ name: file.split("/").at(-1)!, about: file },
    source: { configFile: file, allowExperimental: experimental },
  }),
};

function settings(workloads: readonly string[] = [], flags: SimulateFlags = {}): StudyPlan {
  return simulateSettings(workloads, flags, CATALOGUE);
}

function sizeOf(workloads: readonly string[], flags: SimulateFlags): PlanSize {
  return planSize(simulateSettings(workloads, flags, CATALOGUE));
}

function refusal(workloads: readonly string[], flags: SimulateFlags = {}): string {
  try {
    planSize(settings(workloads, flags));
  } catch (error) {
    if (error instanceof SluiceError) return `${error.code}: ${error.message}`;
    throw error;
  }
  return "accepted";
}

const policiesOf = (flags: SimulateFlags): string[] => settings([], flags).policies.map(({ name }) => name);

describe("simulateSettings", () => {
  it("compares five policies on b2b-saas with three seeds by default", () => {
    const { workloads, policies, seeds, samples } = settings();
    expect(workloads).toEqual([
      {
        ...{ definition: CATALOGUE.workloads[0], rates: [3, 10, 40, 60], durationMs: 45_000, servers: 8 },
        ...{ preset: PRESETS[0], scrapeIntervalMs: 50, metricsLagMs: 0 },
      },
    ]);
    expect(policies.map(({ name }) => name)).toEqual([
      ...["round-robin", "least-active", "scraped-queue", "default", "sticky-until-saturated"],
    ]);
    expect(seeds).toEqual([1, 2, 3]);
    expect(samples).toBe(false);
  });

  it("takes workloads by name, each once, and all of them at a word", () => {
    const chosen = (...words: string[]): string[] => settings(words).workloads.map(({ definition }) => definition.name);
    expect(chosen("bursts", "stale", "bursts")).toEqual(["bursts", "stale"]);
    expect(chosen("bursts,b2b-saas")).toEqual(["bursts", "b2b-saas"]);
    expect(chosen("all")).toEqual(["b2b-saas", "stale", "bursts", "neighbour", "mixed"]);
  });

  it("lets a workload say its engine, its scrapes and its lag, and flags overrule it", () => {
    expect(settings(["stale"]).workloads[0]).toMatchObject({
      ...{ rates: [5], preset: PRESETS[1], scrapeIntervalMs: 200, metricsLagMs: 1000 },
    });
    const flags = {
      ...{ rate: ["40", "2.5,10", "10"], duration: "1m30s", servers: "4", engine: "qwen3-32b-2xh100" },
      ...{ scrapeInterval: "1s", metricsLag: "0", seeds: "2", seed: "7" },
    };
    const plan = settings(["stale"], flags);
    expect(plan.workloads[0]).toMatchObject({
      ...{ rates: [2.5, 10, 40], durationMs: 90_000, servers: 4, preset: PRESETS[0] },
      ...{ scrapeIntervalMs: 1000, metricsLagMs: 0 },
    });
    expect(plan.seeds).toEqual([7, 8]);
  });

  it("gives prompts the bytes per token of the flag", () => {
    expect(settings(["stale"], { bytesPerToken: "5.5" }).workloads[0]).toMatchObject({ bytesPerToken: 5.5 });
    expect(settings(["stale"]).workloads[0]).not.toHaveProperty("bytesPerToken");
    for (const text of ["0.9", "16.1", "x", "", "1e1", "-4"])
      expect(refusal([], { bytesPerToken: text })).toBe(
        `FLAG_VALUE: --bytes-per-token is ${JSON.stringify(text)}; give a number from 1 to 16, for example 5.5`,
      );
  });

  it("keeps the warm-up of a workload, unless it is to begin cold", () => {
    const warmUp = { rate: 15, durationMs: 50_000 };
    const catalogue = { ...CATALOGUE, workloads: [workload("warm", { warmUp }), workload("b2b-saas")] };
    const plan = (flags: SimulateFlags): StudyPlan => simulateSettings(["all"], { rate: ["4"], ...flags }, catalogue);
    const warmUps = (flags: SimulateFlags) => plan(flags).workloads.map(({ definition }) => definition.warmUp);
    expect(warmUps({})).toEqual([warmUp, undefined]);
    expect(warmUps({ cold: true })).toEqual([undefined, undefined]);
    expect(warmUps({ servers: "2" })).toEqual([{ rate: 3.75, durationMs: 200_000 }, undefined]);
    expect(warmUps({ servers: "2", cold: true })).toEqual([undefined, undefined]);
    const short = { duration: "2s", policy: ["random"], seeds: "1" };
    expect(planSize(plan(short)).requests).toBe(750 + 8 + 8);
    expect(planSize(plan({ ...short, cold: true })).requests).toBe(8 + 8);
  });

  it("takes four rates of a ladder, both ends included, unless --rate all asks for every rate", () => {
    const ladder = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
    const catalogue = { ...CATALOGUE, workloads: [workload("long", { rates: ladder })] };
    const rates = (flags: SimulateFlags): readonly number[] =>
      simulateSettings(["long"], flags, catalogue).workloads[0]!.rates;
    expect(rates({})).toEqual([1, 4, 7, 10]);
    expect(rates({ quick: true })).toEqual([1, 6, 10]);
    expect(rates({ rate: ["all"] })).toEqual(ladder);
    expect(rates({ rate: ["all"], quick: true })).toEqual(ladder);
  });

  it("takes the least, the middle and the most of the rates and one seed to be quick, unless told otherwise", () => {
    const quick = settings(["b2b-saas", "stale"], { quick: true });
    expect(quick.workloads.map(({ rates }) => rates)).toEqual([[3, 20, 60], [5]]);
    expect(quick.seeds).toEqual([1]);
    const told = settings([], { quick: true, seeds: "4", rate: ["1", "2", "3", "4"] });
    expect([told.workloads[0]!.rates, told.seeds.length]).toEqual([[1, 2, 3, 4], 4]);
  });

  it("compares the policies that the workloads name, if all name some and none is given", () => {
    const of = (workloads: readonly string[], flags: SimulateFlags = {}): string[] =>
      settings(workloads, flags).policies.map(({ name }) => name);
    expect(of(["neighbour"])).toEqual(["default", "random"]);
    expect(of(["neighbour", "mixed"])).toEqual(["default", "random", "least-active"]);
    expect(of(["neighbour"], { configFile: ["mine.yaml"] })).toEqual(["default", "random", "mine.yaml"]);
    expect(of(["neighbour", "bursts"])).toEqual(of([]));
    expect(of(["neighbour"], { policy: ["round-robin"] })).toEqual(["round-robin"]);
  });

  it("takes policies in the order they are given, each once", () => {
    expect(policiesOf({ policy: ["random,default", "round-robin", "random"] })).toEqual([
      ...["random", "default", "round-robin"],
    ]);
    expect(policiesOf({ policy: ["all"] })).toEqual(names);
  });

  it("puts configuration files behind the policies, by their names or, where two share one, their paths", () => {
    const flags = { policy: ["default"], configFile: ["a/mine.yaml", "b/mine.yaml", "a/mine.yaml"] };
    expect(policiesOf(flags)).toEqual(["default", "mine.yaml", "b/mine.yaml"]);
    expect(policiesOf({ policy: ["default"], configFile: ["x/mine", "./mine"] })).toEqual([
      "default",
      "mine",
      "./mine",
    ]);
    expect(policiesOf({ configFile: ["mine.yaml"] })).toHaveLength(6);
    const plan = settings([], { configFile: ["x.yaml"], allowExperimentalPlugins: true });
    expect(plan.policies.at(-1)!.source).toEqual({ configFile: "x.yaml", allowExperimental: true });
  });

  it.each<[string, readonly string[], SimulateFlags, string]>([
    ["a workload", ["b2b-sass"], {}, 'FLAG_VALUE: "b2b-sass" is not a known workload; did you mean `b2b-saas`?'],
    ["a workload like none", ["x"], {}, 'FLAG_VALUE: "x" is not a known workload; there are b2b-saas, stale, bursts'],
    [
      ...(["a policy", [], { policy: ["round-robbin"] }] as const),
      'FLAG_VALUE: --policy "round-robbin" is not a known policy; did you mean `round-robin`?',
    ],
    [
      ...(["a workload taken for a policy", [], { policy: ["default", "bursts"] }] as const),
      "FLAG_VALUE: --policy took the workload bursts for one of its values; name workloads before the options: sluice simulate bursts --policy ...",
    ],
    [
      ...(["a workload taken for a rate", [], { rate: ["10", "bursts"] }] as const),
      "FLAG_VALUE: --rate took the workload bursts for one of its values; name workloads before the options: sluice simulate bursts --rate ...",
    ],
    [
      ...(["a workload taken for a file", [], { configFile: ["bursts"] }] as const),
      "FLAG_VALUE: --config-file took the workload bursts for one of its values; name workloads before the options: sluice simulate bursts --config-file ...",
    ],
    [
      ...(["a file by a name that is taken", [], { policy: ["default"], configFile: ["x/mine", "mine"] }] as const),
      "FLAG_CONFLICT: --config-file mine has the name of another policy; write its path in another way, for example ./mine",
    ],
    [
      ...(["an engine", [], { engine: "llama-3-8b-h10" }] as const),
      'FLAG_VALUE: --engine "llama-3-8b-h10" is not a known engine preset; did you mean `llama-3-8b-h100`?',
    ],
    [
      ...(["a rate", [], { rate: ["10", "fast"] }] as const),
      'FLAG_VALUE: --rate is "fast"; give numbers from 0.01 to 10000, for example --rate 10 20 40',
    ],
    ["a rate of nothing", [], { rate: ["0"] }, 'FLAG_VALUE: --rate is "0"; give numbers from 0.01 to 10000'],
    ["a rate beyond", [], { rate: ["10001"] }, 'FLAG_VALUE: --rate is "10001"; give numbers from 0.01 to 10000'],
    ["no rate", [], { rate: [","] }, "FLAG_VALUE: --rate is empty; give numbers, for example --rate 10 20 40"],
    [
      ...(["many rates", [], { rate: Array.from({ length: 17 }, (_, i) => `${i + 1}`) }] as const),
      "FLAG_VALUE: --rate has 17 rates; give at most 16",
    ],
    [
      ...(["many policies", [], { configFile: Array.from({ length: 12 }, (_, i) => `${i}.yaml`) }] as const),
      "FLAG_VALUE: 17 policies are too many to compare; give at most 16",
    ],
    [
      "a duration",
      [],
      { duration: "45" },
      'FLAG_VALUE: --duration is "45"; give a time from 1s to 1h, for example 45s',
    ],
    ["a short duration", [], { duration: "999ms" }, 'FLAG_VALUE: --duration is "999ms"; give a time from 1s to 1h'],
    ["a long duration", [], { duration: "61m" }, 'FLAG_VALUE: --duration is "61m"; give a time from 1s to 1h'],
    ["servers", [], { servers: "0" }, 'FLAG_VALUE: --servers is "0"; give a whole number from 1 to 512'],
    ["too many servers", [], { servers: "513" }, 'FLAG_VALUE: --servers is "513"; give a whole number from 1 to 512'],
    ["seeds", [], { seeds: "1.5" }, 'FLAG_VALUE: --seeds is "1.5"; give a whole number from 1 to 100'],
    ["a seed", [], { seed: "-1" }, 'FLAG_VALUE: --seed is "-1"; give a whole number from 0 to 4294967293'],
    [
      ...(["a scrape interval", [], { scrapeInterval: "0" }] as const),
      'FLAG_VALUE: --scrape-interval is "0"; give a time from 1ms to 1m, for example 50ms',
    ],
    [
      ...(["a lag", [], { metricsLag: "-1s" }] as const),
      'FLAG_VALUE: --metrics-lag is "-1s"; give a time from 0 to 10m, for example 5s',
    ],
    [
      ...(["more than a study bears", [], { rate: ["10000"], duration: "1h" }] as const),
      "FLAG_VALUE: this study has about 540,000,000 requests; the limit is 10,000,000. Lower --rate, --seeds or --duration, or give fewer --policy flags",
    ],
  ])("says what is wrong with %s", (_, workloads, flags, told) => {
    expect(refusal(workloads, flags)).toContain(told);
  });
});

describe("the size of a study", () => {
  const flags = { duration: "10s", policy: ["random", "default"], seeds: "2", rate: ["10", "30"] };

  it("is a run for each workload, rate, policy and seed, and what arrives in them", () => {
    expect(sizeOf(["stale", "bursts"], flags)).toEqual({ runs: 4 * 4, requests: 40 * 10 * 2 * 4 });
  });

  it("is tried out where a rate is one of something else than requests, as far as it takes", () => {
    let starts = 0;
    const waves = workload("waves", {
      rateUnit: "requests a wave",
      make: ({ rate, durationMs }) => ({
        start({ clock, send }) {
          starts++;
          const prompt = new Uint8Array(4);
          for (let at = 0; at < durationMs; at += 100)
            clock.after(at, () => {
              for (let i = 0; i < rate; i++) send({ prompt, outputTokens: 1 });
            });
        },
      }),
    });
    const catalogue = { ...CATALOGUE, workloads: [waves] };
    const size = (more: SimulateFlags): PlanSize =>
      planSize(simulateSettings(["waves"], { ...flags, ...more }, catalogue));
    expect(size({})).toEqual({ runs: 8, requests: (100 * 10 + 100 * 30) * 4 });
    expect(starts).toBe(1);
    // Of the first 20,000 follows the rest.
    expect(size({ rate: ["1000"], duration: "1m" }).requests / 4).toBeCloseTo(600_000, -5);
  });

  it("counts what follows answers, too", () => {
    const chain = workload("chain", {
      rateUnit: "sessions/s",
      make: ({ rate }) => ({
        start({ clock, send }) {
          const turn = (): void =>
            send({ prompt: new Uint8Array(4), outputTokens: 1 }, (how) => how === "finished" && turn());
          for (let i = 0; i < rate; i++) clock.after(0, turn);
        },
      }),
    });
    const catalogue = { ...CATALOGUE, workloads: [chain] };
    const plan = simulateSettings(["chain"], { ...flags, duration: "45s", rate: ["3"] }, catalogue);
    const { requests } = planSize(plan);
    expect(requests).toBe(3 * 5 * 4);
  });
});
