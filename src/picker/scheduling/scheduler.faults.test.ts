import { describe, expect, it } from "vitest";
import { endpointOf, requestOf } from "../../../test/support/scheduling/fakes.cases.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { SchedulingResult } from "../../base/inference/decision-record.ts";
import { messageOf } from "../../base/inference/errors.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import {
  defineAdmitter,
  defineFilter,
  definePicker,
  defineProducer,
  defineProfileHandler,
  defineScorer,
  defineScreener,
} from "../../base/plugin/define.ts";
import { PluginInstances } from "../../base/plugin/instances.ts";
import type {
  Admitter,
  Filter,
  PickContext,
  Picker,
  Producer,
  ProfileHandler,
  Scorer,
  Screener,
} from "../../base/plugin/kinds.ts";
import { PluginRegistry } from "../../base/plugin/registry.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { explain } from "../decisions/explain.ts";
import { buildPlan, described, type MemberDescription, planOfOne } from "./build.ts";
import { SCHEDULING_PLUGINS } from "./plugins/index.ts";
import { queueScorer } from "./plugins/load/load-scorers.ts";
import type { SchedulingPlan } from "./profile.ts";
import { Scheduler, type SchedulerOptions } from "./scheduler.ts";

/** Plugins as people write them whose editor checks no types. */
const clock = new VirtualClock();
const registry = new PluginRegistry(SCHEDULING_PLUGINS);
const pool = [0, 1, 2, 3].map((slot) => endpointOf(slot, { metrics: { waiting: slot } }));

const loosely = <P>(plugin: unknown): P => plugin as P;
const filter = (filter: unknown) =>
  described(defineFilter({ type: "mine", describe: "", create: () => loosely<Filter>({ filter }) }));
const scorer = (score: unknown) =>
  described(defineScorer({ type: "mine", describe: "", create: () => loosely<Scorer>({ score }) }));
const picker = (pick: unknown) =>
  described(
    definePicker({ type: "mine", describe: "", create: () => loosely<Picker>({ maxNumOfEndpoints: 2, pick }) }),
  );
const producer = (plugin: unknown) =>
  described(defineProducer({ type: "mine", describe: "", create: () => loosely<Producer>(plugin) }));
const screener = (screen: unknown) =>
  described(defineScreener({ type: "mine", describe: "", create: () => loosely<Screener>({ screen }) }));
const admitter = (admit: unknown) =>
  described(defineAdmitter({ type: "mine", describe: "", create: () => loosely<Admitter>({ admit }) }));
const handler = (plugin: unknown) =>
  described(defineProfileHandler({ type: "mine", describe: "", create: () => loosely<ProfileHandler>(plugin) }));

const planWith = (...plugins: MemberDescription[]): SchedulingPlan =>
  planOfOne({ plugins: [...plugins, described(queueScorer)], registry, clock, random: new SeededRandom(2) });

function planOfTwo(own: ReturnType<typeof handler>): SchedulingPlan {
  const instances = new PluginInstances({ clock, random: new SeededRandom(2), log: silentLogger });
  const profiles = ["a", "b"].map((name) => ({ name, plugins: [described(queueScorer)] }));
  return buildPlan({ profiles, handler: own, registry, instances });
}

/** What a scheduler makes of a request, and which of its plugins it says have failed. */
function decided(plan: SchedulingPlan, options: Partial<SchedulerOptions> = {}) {
  const failed: string[] = [];
  const hooks = {
    pluginFailed: (point: string, _: unknown, error: unknown) => failed.push(`${point}: ${messageOf(error)}`),
  };
  const scheduler = new Scheduler({ plan, clock, random: new SeededRandom(1), hooks, ...options });
  return { scheduler, failed, outcome: scheduler.schedule(requestOf("p"), pool, 0) };
}

const best = { endpoints: [{ slot: 0 }, { slot: 1 }, { slot: 2 }, { slot: 3 }] };

// What nobody takes care of fails the whole run.
const late = () => Promise.reject(new Error("too late"));

describe("a plugin that is asynchronous all the same", () => {
  it.each([
    ["Filter", planWith(filter(late))],
    ["Scorer", planWith(scorer(late))],
    ["DataProducer", planWith(producer({ produce: late }))],
    ["PreRequest", planWith(producer({ produce() {}, routed: late }))],
    ["PreRequest", planWith(producer({ produce() {}, follow: late }))],
    ["Screener", planWith(screener(late))],
    ["Admission", planWith(admitter(late))],
  ] as const)("is reported and left out: %s", (point, plan) => {
    const { failed, outcome } = decided(plan, { retries: true });
    expect(outcome).toMatchObject(best);
    expect(failed).toEqual([expect.stringMatching(`^${point}: .*a decision does not wait`)]);
  });

  it.each([
    ["Picker", planWith(picker(late))],
    ["ProfilePicker", planOfTwo(handler({ pick: late, processResults: () => "a" }))],
    ["ProfilePicker", planOfTwo(handler({ pick: once, processResults: late }))],
  ] as const)("is reported where there is no doing without it: %s", (point, plan) => {
    const { failed, outcome } = decided(plan);
    expect(outcome).toMatchObject({ reason: "internal" });
    expect(failed).toEqual([expect.stringMatching(`^${point}: .*a decision does not wait`)]);
  });

  it("is reported for what it is told later", () => {
    const plan = planWith(producer({ produce() {}, follow: () => late, endpointRemoved: late }));
    const { scheduler, failed, outcome } = decided(plan, { retries: true });
    (outcome as SchedulingResult).moved?.(pool[1]!);
    scheduler.endpointRemoved(pool[1]!);
    expect(failed).toEqual([
      expect.stringMatching("^PreRequest: .*a decision does not wait"),
      expect.stringMatching("^DataProducer: .*a decision does not wait"),
    ]);
  });
});

/** Runs both profiles, all at once. */
function once({ profiles, results }: Parameters<ProfileHandler["pick"]>[0]): readonly string[] {
  return results.size === 0 ? profiles : [];
}

describe("the record of a decision", () => {
  const broken = () => {
    throw new Error("boom");
  };

  it.each([planWith(producer({ produce: broken })), planWith(filter(broken)), planWith(scorer(broken))])(
    "names the plugins that failed in it, and explain does",
    (plan) => {
      const { scheduler } = decided(plan);
      expect(scheduler.records.newest).toMatchObject({ failed: ["mine"] });
      expect(explain(scheduler.records.newest!).notes).toEqual([
        "mine failed in this decision and did not count. The log has the error.",
      ]);
    },
  );

  it("names none that failed in another one", () => {
    let fails = true;
    const once = scorer(() => {
      if (fails) throw new Error("boom");
    });
    const { scheduler } = decided(planWith(once));
    fails = false;
    scheduler.schedule(requestOf("p"), pool, 0);
    expect(scheduler.records.newest).toMatchObject({ sequence: 2, failed: [] });
  });
});

describe("a plugin that answers with something else", () => {
  it.each([true, false, 0, "no", {}, []])("a screener with %j has not refused the request", (answer) => {
    const { failed, outcome } = decided(planWith(screener(() => answer)));
    expect(outcome).toMatchObject(best);
    expect(failed).toEqual([expect.stringContaining("Screener: ")]);
  });

  it.each([true, false, 7, {}, ["no"], Object.create(null)])("nor has an admitter with %j", (answer) => {
    const { failed, outcome } = decided(planWith(admitter(() => answer)));
    expect(outcome).toMatchObject(best);
    expect(failed).toEqual([expect.stringContaining("Admission: ")]);
  });

  it("null is nothing", () => {
    const nothing = () => null;
    expect(decided(planWith(screener(nothing), { ...admitter(nothing), name: "other" }))).toMatchObject({
      outcome: best,
      failed: [],
    });
  });

  it.each([undefined, "", "a", new Set(), new Set(["a"]), new Map(), 5, [5], {}])(
    "a handler that chooses %o ends the decision, and the process goes on",
    (chosen) => {
      const { failed, outcome } = decided(planOfTwo(handler({ pick: () => chosen, processResults: () => "a" })));
      expect(outcome).toMatchObject({ reason: "internal" });
      expect(failed).toEqual([expect.stringContaining("ProfilePicker: ")]);
    },
  );

  it("a handler cannot run for ever by taking back what ran, nor change what the next one is told", () => {
    const seen: string[] = [];
    const forgetful = handler({
      pick({ profiles, results }: { profiles: string[]; results: Map<string, unknown> }) {
        seen.push(profiles.join());
        results.clear();
        return [profiles[0]];
      },
      processResults: () => "a",
    });
    expect(decided(planOfTwo(forgetful)).outcome).toMatchObject({ reason: "internal" });
    const greedy = handler({
      pick: ({ profiles }: { profiles: string[] }) => (profiles.length > 0 ? profiles.splice(0) : []),
      processResults: () => "b",
    });
    const { scheduler, outcome } = decided(planOfTwo(greedy));
    expect(scheduler.schedule(requestOf("p"), pool, 0)).toMatchObject({ reason: (outcome as Rejection).reason });
  });

  it.each([5, null, undefined, {}, [], "c", "__proto__", "constructor"])(
    "a handler that makes %j the primary profile is answered with 500",
    (primary) => {
      const { failed, outcome } = decided(planOfTwo(handler({ pick: once, processResults: () => primary })));
      expect(outcome).toMatchObject({ reason: "internal" });
      expect(failed).toEqual([expect.stringContaining("ProfilePicker: ")]);
    },
  );

  it.each([Number.NaN, -1, 0, 1.5, 99, "many", undefined])(
    "a picker that says %j share the first place: one",
    (tied) => {
      expect(decided(planWith(picker(() => tied))).outcome).toMatchObject({ ...best, record: { tied: 1 } });
    },
  );

  it.each([undefined, null, Symbol("odd"), Object.create(null), { toString: null }, 5])(
    "may throw anything: %o",
    (odd) => {
      const throwing = () => {
        throw odd;
      };
      const left = [filter, scorer, screener, admitter].map((make, at) => ({ ...make(throwing), name: `mine-${at}` }));
      const { failed, outcome } = decided(planWith(...left, producer({ produce: throwing, routed: throwing })));
      expect(outcome).toMatchObject(best);
      expect(failed).toHaveLength(6);
      expect(decided(planWith(picker(throwing))).outcome).toMatchObject({ reason: "internal" });
      const broken = planOfTwo(handler({ pick: throwing, processResults: () => "a" }));
      expect(decided(broken).outcome).toMatchObject({ reason: "internal" });
    },
  );
});

describe("a plugin that puts arrays of its own in place of those it is given", () => {
  it("has changed nothing, for nobody and no later decision", () => {
    const own = (context: Record<string, unknown>) => {
      for (const name of ["keep", "out", "totals", "order"]) context[name] = new Uint8Array(1);
    };
    const plan = planWith(
      { ...filter(own), name: "own" },
      { ...scorer(own), name: "own scores" },
      filter(({ candidates, keep }: Parameters<Filter["filter"]>[0]) => {
        for (let i = 0; i < candidates.count; i++) if (candidates.endpoints[i]!.slot === 0) keep[i] = 0;
      }),
      {
        ...picker((context: PickContext) => {
          const { order, totals } = context;
          order.subarray(0, context.candidates.count).sort((a, b) => totals[b]! - totals[a]!);
          own(context as unknown as Record<string, unknown>);
          return 1;
        }),
        name: "own order",
      },
    );
    const { scheduler, outcome } = decided(plan);
    const expected = { endpoints: [{ slot: 1 }, { slot: 2 }, { slot: 3 }], record: { scorers: [{}, {}] } };
    expect(outcome).toMatchObject(expected);
    expect(scheduler.schedule(requestOf("p"), pool, 0)).toMatchObject(expected);
  });
});

describe("a rejection of a plugin", () => {
  it.each([
    ["forbidden", "not you"],
    ["__proto__", "not you"],
    ["denied", undefined],
    ["denied", 5],
  ])("must be one that can be answered with: %j, %j", (reason, detail) => {
    const refusing = () => new Rejection(reason as "denied", detail as string);
    const { failed, outcome } = decided(planWith(admitter(refusing)));
    expect(outcome).toMatchObject(best);
    expect(failed).toEqual([expect.stringContaining("Admission: ")]);
  });
});

describe("prefer", () => {
  it("S-45: counts wherever it stands among several headers of that name (RFC 7240)", () => {
    const scheduler = new Scheduler({ plan: planWith(), clock, random: new SeededRandom(1) });
    for (const values of [
      ["if-available", "wait=10"],
      ["wait=10", "respond-async, if-available"],
    ]) {
      const headers = HeaderList.of(values.map((value) => ["prefer", value] as const));
      expect(scheduler.schedule(requestOf("p", { headers }), pool, 0, { full: true })).toMatchObject({ status: 412 });
      expect(scheduler.records.newest?.full?.request.headers).toEqual(values.map((value) => ["prefer", value]));
    }
  });
});
