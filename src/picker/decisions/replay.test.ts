import { describe, expect, it } from "vitest";
import { endpointOf, requestOf } from "../../../test/support/scheduling/fakes.cases.ts";
import { fixedLimit } from "../../../test/support/slowness.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { DecisionRecord } from "../../base/inference/decision-record.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import { defineAdmitter, defineFilter, defineProducer, defineScreener } from "../../base/plugin/define.ts";
import { type PluginDescription, PluginInstances } from "../../base/plugin/instances.ts";
import type { PluginDefinition, PluginKind } from "../../base/plugin/kinds.ts";
import { PluginRegistry } from "../../base/plugin/registry.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { buildPlan, type MemberDescription, type PlanOptions } from "../scheduling/build.ts";
import { SCHEDULING_PLUGINS } from "../scheduling/plugins/index.ts";
import type { SchedulingPlan } from "../scheduling/profile.ts";
import { Scheduler } from "../scheduling/scheduler.ts";
import { replay } from "./replay.ts";

/** Decisions that are replayed, by 20 of one plan. */
const DECISIONS = 10_000;
const PER_PLAN = 20;

const coin = defineFilter({
  type: "coin",
  describe: "Drops each candidate but the first with probability 0.2.",
  create: () => ({
    filter({ candidates, keep, random }) {
      for (let i = 1; i < candidates.count; i++) if (random.next() < 0.2) keep[i] = 0;
    },
  }),
});
const dice = defineAdmitter({
  type: "dice",
  describe: "Refuses one request in ten.",
  create: () => ({ admit: ({ random }) => (random.below(10) === 0 ? "bad luck" : undefined) }),
});
const even = defineScreener({
  type: "even",
  describe: "Keeps endpoints of even slots, and the last.",
  create: () => ({
    screen({ endpoints, keep }) {
      for (let i = 0; i < endpoints.length - 1; i++) if (endpoints[i]!.slot % 2 === 1) keep[i] = 0;
      return undefined;
    },
  }),
});
const PLUGINS = [...SCHEDULING_PLUGINS, coin, dice, even];
const registry = new PluginRegistry(PLUGINS);

/** Parameters to choose from, where the defaults are not all there is, or not enough. */
const PARAMETERS: Readonly<Record<string, readonly object[]>> = {
  "label-selector-filter": [{ matchLabels: { tier: "gold" } }],
  "by-label-selector": [{ matchLabels: { tier: "gold" } }],
  "by-label": [{ label: "tier", validValues: ["gold"], allowsNoLabel: true }],
  "utilization-filter": [
    { conditions: [{ metric: "waiting-queue", maxValue: 5 }], fallbackOnEmpty: true },
    { conditions: [{ metric: "kv-cache-utilization", maxValue: 0.5 }] },
  ],
  "prefix-cache-affinity-filter": [{}, { affinityThreshold: 0.3, explorationProbability: 0.3 }],
  "prefix-cache-scorer": [{}, { matchLengthWeight: 0.5 }],
  "active-request-scorer": [{}, { idleThreshold: 2, maxBusyScore: 0.5 }],
  "endpoint-attribute-filter": [
    {
      ...{ attribute: "heat", producer: "test" },
      algorithm: { type: "threshold", threshold: { operator: "LessThan", value: 0.8 } },
    },
  ],
  "endpoint-attribute-scorer": [
    { attributeKey: "heat", producer: "test", algorithm: { type: "linear_lower_is_better" } },
    { attributeKey: "depth", algorithm: { type: "linear_higher_is_better" } },
  ],
  "header-label-affinity-scorer": [{ headerName: "x-tier", labelKey: "tier" }],
};

/** Chance of the test itself. */
const draw = new SeededRandom(20_261_121);

function oneOf<T>(from: readonly T[]): T {
  return from[draw.below(from.length)]!;
}

function someOf(kind: PluginKind, most: number): MemberDescription[] {
  const known = PLUGINS.filter((definition) => definition.kind === kind && !UNSUITED.has(definition.type));
  const chosen = new Set(Array.from({ length: draw.below(most + 1) }, () => oneOf(known)));
  return [...chosen].map((definition) => ({ ...configured(definition), weight: draw.below(40) / 8 }));
}

/** The first leaves nobody without a header of tests; the second stands where it belongs. */
const UNSUITED = new Set(["header-based-testing-filter", "decode-filter"]);

function configured<K extends PluginKind>(definition: PluginDefinition<K>): PluginDescription<K> {
  const { type } = definition;
  const parameters = definition.parameters.parse(oneOf(PARAMETERS[type] ?? [{}]));
  return { definition, name: `my-${type}`, parameters };
}

function ofType<K extends PluginKind>(type: string, kind: K, parameters: object = {}): PluginDescription<K> {
  const definition = registry.get(type) as PluginDefinition<K>;
  expect(definition.kind).toBe(kind);
  return { definition, name: type, parameters: definition.parameters.parse(parameters) };
}

type Choice = Omit<PlanOptions, "instances" | "registry">;

function randomChoice(): Choice {
  const profile = (name: string, ...first: MemberDescription[]) => ({
    name,
    plugins: [...first, ...someOf("filter", 2), ...someOf("scorer", 4), configured(oneOf(PICKERS))],
  });
  const before = {
    screeners: draw.below(4) === 0 ? [configured(even)] : [],
    admitters: draw.below(4) === 0 ? [configured(dice)] : [],
  };
  const kind = draw.below(4);
  if (kind > 1) return { ...before, profiles: [profile("only")] };
  if (kind === 1) {
    const handler = ofType("header-profile-handler", "profile-handler", { defaultProfile: "a" });
    return { ...before, profiles: [profile("a"), profile("b")], handler };
  }
  const decider = ofType("prefix-based-pd-decider", "decider", { nonCachedTokens: 100 });
  return {
    ...before,
    profiles: [profile("decode", configured(registry.get("decode-filter")!)), profile("prefill")],
    handler: ofType("disagg-profile-handler", "profile-handler", { deciders: { prefill: decider.name } }),
    referable: [decider],
  };
}

const PICKERS = PLUGINS.filter((definition) => definition.kind === "picker");

/** A screener and a producer that draw, from the chance of the process as plugins are given it. */
function drawingOf(random: SeededRandom): Choice {
  const draws = () => void random.next();
  const screens = defineScreener({ type: "draws", describe: "", create: () => ({ screen: draws as () => undefined }) });
  const produces = defineProducer({ type: "draws-too", describe: "", create: () => ({ produce: draws }) });
  return {
    profiles: [{ name: "p", plugins: [] }],
    screeners: [{ definition: screens, name: "draws", parameters: {} }],
    producers: [{ definition: produces, name: "draws-too", parameters: {} }],
  };
}

/** A plan with plugins of its own. */
function made(choice: Choice): SchedulingPlan {
  const clock = new VirtualClock();
  const instances = new PluginInstances({
    ...{ clock, random: new SeededRandom(5), log: silentLogger },
    configured: choice.referable ?? [],
  });
  return buildPlan({ ...choice, registry, instances });
}

function randomPool(now: number): Endpoint[] {
  return Array.from({ length: 1 + draw.below(14) }, (_, slot) =>
    endpointOf(slot, {
      labels: { ...(draw.below(2) ? { tier: oneOf(["gold", "iron"]) } : {}), ...(draw.below(3) ? {} : ROLE) },
      metrics: {
        waiting: oneOf([0, 1, 2, 7, 200, Number.NaN]),
        running: draw.below(9),
        kvUsage: oneOf([0, 0.1, 0.35, 0.99, Number.NaN]),
        maxLora: draw.below(4),
        loraRunning: new Set(draw.below(2) ? ["m"] : []),
        loraWaiting: new Set(draw.below(2) ? ["n"] : []),
        ...(draw.below(2) ? { attributes: new Map([["depth/core-metrics-extractor", draw.below(5)]]) } : {}),
        scrapedAt: now - oneOf([0, 60, 199, 201, 5000, Number.POSITIVE_INFINITY]),
      },
      ...(draw.below(2) ? { attributes: new Map([["heat/test", draw.below(11) / 10]]) } : {}),
      ...(draw.below(2) ? { node: oneOf(["n1", "n2"]) } : {}),
      inFlight: { requests: draw.below(6), tokens: draw.below(3) * 10_000 },
    }),
  );
}

const ROLE = { "llm-d.ai/role": "prefill" };
const PROMPTS = ["", "short", "a".repeat(900), `${"a".repeat(900)}${"b".repeat(700)}`, "c".repeat(5000)];
const HEADERS = [
  [],
  [["epp-profile", "b"]],
  [["prefer", "if-available"]],
  [["x-tier", "gold"]],
  [["x-session-token", "ZGVmYXVsdC9wb2QtMQ=="]],
] as const;

function randomRequest(): InferenceRequest {
  return requestOf(oneOf(PROMPTS), {
    targetModel: oneOf(["m", "n"]),
    priority: draw.below(3) - 1,
    headers: HeaderList.of(oneOf(HEADERS)),
    maxTokens: oneOf([Number.NaN, 16, 4000]),
  });
}

/** As it comes back from a file: nothing of the decision's own objects is left in it. */
function apart(record: DecisionRecord): DecisionRecord {
  const { top, full } = record;
  return structuredClone({ ...record, top, full });
}

describe("replay", () => {
  it(`${DECISIONS.toLocaleString("en")} random decisions replay bit by bit from their full records`, {
    timeout: fixedLimit(60_000),
  }, () => {
    const seen = { routed: 0, refused: 0, byChance: 0, several: 0 };
    let replayed = 0;
    while (replayed < DECISIONS) {
      const choice = randomChoice();
      const clock = new VirtualClock(1_700_000_000_000);
      clock.advance(10_000);
      const scheduler = new Scheduler({ plan: made(choice), clock, random: new SeededRandom(draw.below(2 ** 32)) });
      const plan = made(choice);
      for (let i = 0; i < PER_PLAN; i++) {
        scheduler.schedule(randomRequest(), randomPool(clock.now()), draw.below(2), { full: true });
        const record = apart(scheduler.records.newest!);
        const outcome = replay(record, plan);
        // The text of a record takes longer than its replay, so only a failure makes it.
        if (outcome?.differences.length !== 0 || outcome.missing.length !== 0)
          expect.fail(`${JSON.stringify(outcome)} of ${JSON.stringify(record)}`);
        expect(outcome.record.filters).toEqual(
          record.filters.filter(({ name }) => !choice.screeners?.some((screener) => screener.name === name)),
        );
        replayed++;
        if (record.refusal === undefined) seen.routed++;
        else seen.refused++;
        if (record.tied > 1 || record.pickerByChance) seen.byChance++;
        if (record.others.length > 0) seen.several++;
        clock.advance(37);
      }
    }
    // Otherwise the test has tried too little.
    for (const count of Object.values(seen)) expect(count).toBeGreaterThan(DECISIONS / 50);
  });

  it("says what another configuration would have picked, and what of its data the record lacks", () => {
    const clock = new VirtualClock();
    const waiting = (count: number, slot: number) => endpointOf(slot, { metrics: { waiting: count, kvUsage: 0 } });
    const profile = (...types: string[]) => ({
      profiles: [{ name: "p", plugins: types.map((type) => ofType(type, "scorer")) }],
    });
    const plan = made(profile("queue-scorer"));
    const scheduler = new Scheduler({ plan, clock, random: new SeededRandom(1) });
    const pool = [waiting(3, 0), { ...waiting(1, 1), inFlight: { requests: 9, tokens: 0 } }];
    scheduler.schedule(requestOf("p"), pool, 0, { full: true });
    const record = scheduler.records.newest!;
    expect(record.top[0]?.id).toBe("default/pod-1");
    const outcome = replay(record, made(profile("active-request-scorer")))!;
    expect(outcome.missing).toContain("inflight-load-producer/in-flight-requests");
    const tilted = { ...apart(record), full: { ...record.full!, columns: { [outcome.missing[0]!]: [0, 9] } } };
    const other = replay(tilted, made(profile("active-request-scorer")))!;
    expect(other.record.top[0]?.id).toBe("default/pod-0");
    expect(other.differences).toContain("the pick was default/pod-1, now it is default/pod-0");
    expect(other.differences).toContain("the total of default/pod-0 was 0, now it is 1");
  });

  it("begins where the producers and screeners have left chance", () => {
    const random = new SeededRandom(1);
    const drawing = drawingOf(random);
    const clock = new VirtualClock();
    const scheduler = new Scheduler({ plan: made(drawing), clock, random });
    const idle = Array.from({ length: 8 }, (_, slot) => endpointOf(slot));
    for (let i = 0; i < 50; i++) {
      scheduler.schedule(requestOf("p"), idle, 0, { full: true });
      expect(scheduler.records.newest).toMatchObject({ tied: 8 });
      expect(replay(apart(scheduler.records.newest!), made(drawing))?.differences).toEqual([]);
    }
  });

  it("gives back what a picker of any name remembered", () => {
    const named = (name: string) => ({
      profiles: [{ name: "p", plugins: [{ ...ofType("round-robin-picker", "picker"), name }] }],
    });
    for (const name of ["round", "__proto__", "constructor"]) {
      const scheduler = new Scheduler({
        plan: made(named(name)),
        clock: new VirtualClock(),
        random: new SeededRandom(1),
      });
      for (let i = 0; i < 3; i++) scheduler.schedule(requestOf("p"), [endpointOf(0), endpointOf(1)], 0, { full: true });
      expect(replay(apart(scheduler.records.newest!), made(named(name)))?.differences).toEqual([]);
    }
    const plain = made(named("constructor"));
    const scheduler = new Scheduler({
      plan: made(named("other")),
      clock: new VirtualClock(),
      random: new SeededRandom(1),
    });
    scheduler.schedule(requestOf("p"), [endpointOf(0), endpointOf(1)], 0, { full: true });
    replay(apart(scheduler.records.newest!), plain);
    expect(plain.profiles[0]?.picker.plugin.memory).toBe(0);
  });

  it("has nothing to replay without a full record, or when the request was refused before anything was computed", () => {
    const plan = made({ profiles: [{ name: "p", plugins: [] }] });
    const scheduler = new Scheduler({ plan, clock: new VirtualClock(), random: new SeededRandom(1) });
    scheduler.schedule(requestOf("p"), [endpointOf(0)], 0);
    expect(replay(scheduler.records.newest!, plan)).toBeUndefined();
    scheduler.schedule(requestOf("p"), [], 0, { full: true });
    expect(replay(scheduler.records.newest!, plan)).toBeUndefined();
  });
});
