import { describe, expect, it } from "vitest";
import { endpointOf, requestOf } from "../../../test/support/scheduling/fakes.cases.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { SchedulingResult } from "../../base/inference/decision-record.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import {
  defineAdmitter,
  defineFilter,
  defineProducer,
  defineProfileHandler,
  defineScorer,
  defineScreener,
} from "../../base/plugin/define.ts";
import { PluginInstances } from "../../base/plugin/instances.ts";
import { attributeKey, columnKey } from "../../base/plugin/keys.ts";
import type { Admitter, PluginDefinition, ProfileHandler, Screener } from "../../base/plugin/kinds.ts";
import { PluginRegistry } from "../../base/plugin/registry.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { buildPlan, described, type MemberDescription, type PlanOptions, planOfOne } from "./build.ts";
import type { SchedulerHooks } from "./plugin-calls.ts";
import { SCHEDULING_PLUGINS } from "./plugins/index.ts";
import { queueScorer } from "./plugins/load/load-scorers.ts";
import { prefixCacheScorer } from "./plugins/prefix/prefix-cache-affinity.ts";
import type { SchedulingPlan } from "./profile.ts";
import { Scheduler } from "./scheduler.ts";

const clock = new VirtualClock();
const registry = new PluginRegistry(SCHEDULING_PLUGINS);
const pool = [0, 1, 2, 3].map((slot) => endpointOf(slot, { metrics: { waiting: slot } }));

const schedulerOf = (plan: SchedulingPlan, hooks: SchedulerHooks = {}): Scheduler =>
  new Scheduler({ plan, clock, random: new SeededRandom(1), hooks });

const planWith = (...plugins: MemberDescription[]): SchedulingPlan =>
  planOfOne({ plugins, registry, clock, random: new SeededRandom(2) });

function planOfMany(options: Omit<PlanOptions, "registry" | "instances">): SchedulingPlan {
  const instances = new PluginInstances({ clock, random: new SeededRandom(2), log: silentLogger });
  return buildPlan({ ...options, registry, instances });
}

const screener = (type: string, screen: Screener["screen"]): MemberDescription =>
  described(defineScreener({ type, describe: "", create: () => ({ screen }) }));
const dropping = (type: string, ...slots: number[]): MemberDescription =>
  screener(type, ({ endpoints, keep }) => {
    endpoints.forEach(({ slot }, i) => {
      if (slots.includes(slot)) keep[i] = 0;
    });
    return undefined;
  });
const admitter = (type: string, admit: Admitter["admit"]): MemberDescription =>
  described(defineAdmitter({ type, describe: "", create: () => ({ admit }) }));
const handler = (create: () => ProfileHandler) =>
  described(defineProfileHandler({ type: "mine", describe: "", create }));

describe("screeners (scheduling 3.2)", () => {
  it("each see all candidates, and what they leave is intersected", () => {
    const seen: number[] = [];
    const counting = screener("counting", ({ endpoints }) => {
      seen.push(endpoints.length);
      return undefined;
    });
    const scheduler = schedulerOf(planWith(dropping("a", 0), dropping("b", 0, 1), counting, described(queueScorer)));
    const outcome = scheduler.schedule(requestOf("p"), pool, 0);
    expect(outcome).toMatchObject({ endpoints: [{ slot: 2 }, { slot: 3 }] });
    expect(seen).toEqual([4]);
    expect(scheduler.records.newest?.filters).toEqual([
      { name: "a", dropped: 1, ids: ["default/pod-0"] },
      { name: "b", dropped: 2, ids: ["default/pod-0", "default/pod-1"] },
    ]);
  });

  it("that leave no endpoint cause a 503 rejected-no-endpoints, with a record that names the screeners", () => {
    const scheduler = schedulerOf(planWith(dropping("a", 0, 1), dropping("b", 2, 3)));
    const outcome = scheduler.schedule(requestOf("p"), pool, 0) as Rejection;
    expect([outcome.status, outcome.droppedHeader?.[1]]).toEqual([503, "rejected-no-endpoints"]);
    expect(scheduler.records.newest).toMatchObject({
      refusal: { reason: "no_endpoints" },
      filters: [{ name: "a" }, { name: "b" }],
      top: [],
    });
  });

  it("may refuse a request, and count for nothing when they throw", () => {
    const failed: string[] = [];
    const hooks: SchedulerHooks = { pluginFailed: (point, { name }) => failed.push(`${point} ${name}`) };
    const throwing = screener("throwing", ({ keep }) => {
      keep.fill(0);
      throw new Error("broken");
    });
    expect(schedulerOf(planWith(throwing), hooks).schedule(requestOf("p"), pool, 0)).not.toBeInstanceOf(Rejection);
    expect(failed).toEqual(["Screener throwing"]);
    const refusing = screener("refusing", () => new Rejection("bad_request", "not here"));
    expect(schedulerOf(planWith(refusing)).schedule(requestOf("p"), pool, 0)).toMatchObject({ status: 400 });
  });
});

describe("admitters (scheduling 3.2, 3.16)", () => {
  it("S-44: a denial keeps the admitter's own code; a text is 429; the refusal is on record", () => {
    const text = schedulerOf(planWith(admitter("a", () => "too much work")));
    expect(text.schedule(requestOf("p"), pool, 0)).toMatchObject({
      status: 429,
      text: "inference error: ResourceExhausted - too much work",
    });
    expect(text.records.newest?.refusal).toEqual({ reason: "denied", detail: "too much work" });
    const own = schedulerOf(planWith(admitter("a", () => new Rejection("no_endpoints", "closed"))));
    expect(own.schedule(requestOf("p"), pool, 0)).toMatchObject({ status: 503 });
  });

  it("run after the producers, one after the other until one refuses, and admit when they throw", () => {
    const order: string[] = [];
    const SIZE = columnKey("size");
    const producer = described(
      defineProducer({
        type: "sizes",
        describe: "",
        produces: [SIZE],
        create: () => ({ produce: ({ candidates }) => void candidates.column(SIZE).fill(7) }),
      }),
    );
    const reading = described(
      defineAdmitter({
        type: "reading",
        describe: "",
        requires: [SIZE],
        create: () => ({
          admit: ({ candidates }) => {
            order.push(`reading ${candidates.column(SIZE)[3]}`);
            return undefined;
          },
        }),
      }),
    );
    const throwing = admitter("throwing", () => {
      order.push("throwing");
      throw new Error("broken");
    });
    const last = admitter("last", () => {
      order.push("last");
      return "no";
    });
    const never = admitter("never", () => {
      order.push("never");
      return undefined;
    });
    const plan = planWith(producer, throwing, reading, last, never);
    expect(schedulerOf(plan).schedule(requestOf("p"), pool, 0)).toMatchObject({ reason: "denied" });
    expect(order).toEqual(["throwing", "reading 7", "last"]);
  });
});

describe("data in scope (scheduling 3.4)", () => {
  const SAID = attributeKey<string>("said");
  const talker = (type: string, word: string) =>
    defineProducer({
      type,
      describe: "",
      produces: [SAID],
      create: () => ({ produce: ({ setAttribute }) => setAttribute(SAID, word) }),
    });

  it("a plugin reads the instance it names, else the one that goes by its type", () => {
    const heard: (string | undefined)[] = [];
    const listener = (name: string, talkerProducerName: string): MemberDescription => {
      const definition: PluginDefinition = defineScorer({
        type: "listener",
        describe: "",
        requires: [SAID],
        create: () => ({ score: ({ attribute }) => void heard.push(attribute(SAID)) }),
      });
      return { definition, name, parameters: { talkerProducerName } };
    };
    const first = { ...described(talker("talker", "other")), name: "other" };
    const plan = planWith(first, described(talker("talker", "default")), listener("a", ""), listener("b", "other"));
    schedulerOf(plan).schedule(requestOf("p"), pool, 0);
    expect(heard).toEqual(["default", "other"]);
  });

  it("undeclared reads and writes are reported as such and spoil nobody else's turn", () => {
    const violations: string[] = [];
    const hooks: SchedulerHooks = {
      scopeViolated: (point, { name }, access) => violations.push(`${point} ${name} ${access}`),
    };
    const reader = described(
      defineScorer({
        type: "reader",
        describe: "",
        create: () => ({ score: ({ attribute, out }) => out.fill(attribute(SAID) === undefined ? 1 : 0.5) }),
      }),
    );
    const writer = described(
      defineProducer({
        type: "writer",
        describe: "",
        create: () => ({ produce: ({ setAttribute }) => setAttribute(SAID, "x") }),
      }),
    );
    const plan = planWith(described(talker("talker", "hello")), writer, reader, described(queueScorer));
    const outcome = schedulerOf(plan, hooks).schedule(requestOf("p"), pool, 0);
    expect(violations).toEqual(["DataProducer writer write", "Scorer reader read"]);
    expect(outcome).not.toBeInstanceOf(Rejection);
    const { record } = outcome as SchedulingResult;
    expect(record.top[0]).toMatchObject({ id: "default/pod-0", scores: [0, 1] });
  });

  it("are told of what they have seen whether it was routed or refused, whoever fails at that", () => {
    const told: string[] = [];
    const teller = (type: string, fails = false) =>
      described(
        defineProducer({
          type,
          describe: "",
          create: () => ({
            produce: ({ request }) => void told.push(`${type} sees ${request.targetModel}`),
            routed: ({ targetModel }) => void told.push(`${type}: ${targetModel} is routed`),
            refused({ targetModel }) {
              told.push(`${type}: ${targetModel} is refused`);
              if (fails) throw new Error("no");
            },
          }),
        }),
      );
    const failed: string[] = [];
    const hooks: SchedulerHooks = { pluginFailed: (_, { name }) => failed.push(name) };
    const strict = admitter("strict", ({ request }) => (request.targetModel === "denied" ? "no" : undefined));
    const scheduler = schedulerOf(
      planWith(teller("one", true), teller("two"), strict, described(prefixCacheScorer)),
      hooks,
    );
    const ask = (targetModel: string, header?: string) => {
      const headers = header === undefined ? HeaderList.of([]) : HeaderList.of([["prefer", header]]);
      scheduler.schedule(requestOf("p".repeat(300), { targetModel, headers }), pool, 0);
      return told.splice(0).filter((text) => !text.includes("sees"));
    };
    expect(ask("fine")).toEqual(["one: fine is routed", "two: fine is routed"]);
    expect(ask("denied")).toEqual(["one: denied is refused", "two: denied is refused"]);
    expect(failed).toEqual(["one"]);
    expect(ask("cold", "if-available")).toEqual(["one: cold is refused", "two: cold is refused"]);
    // Nothing of it was seen.
    scheduler.schedule(requestOf("p"), [], 0);
    expect(told).toEqual([]);
  });

  it("what was prepared reaches its producer, and no other", () => {
    const got: unknown[] = [];
    const preparing = (type: string) =>
      described(
        defineProducer({
          type,
          describe: "",
          create: () => ({
            prepare: async () => undefined,
            produce: ({ prepared }) => void got.push(prepared),
          }),
        }),
      );
    const scheduler = schedulerOf(planWith(preparing("a"), preparing("b")));
    expect(scheduler.preparers.map(({ name }) => name)).toEqual(["a", "b"]);
    scheduler.schedule(requestOf("p"), pool, 0, { prepared: new Map([["b", 42]]) });
    scheduler.schedule(requestOf("p"), pool, 0);
    expect(got).toEqual([undefined, 42, undefined, undefined]);
  });
});

describe("several profiles (scheduling 3.6)", () => {
  const only = (type: string, ...slots: number[]) =>
    described(
      defineFilter({
        type,
        describe: "",
        create: () => ({
          filter: ({ candidates: { endpoints, count }, keep }) => {
            for (let i = 0; i < count; i++) if (!slots.includes(endpoints[i]!.slot)) keep[i] = 0;
          },
        }),
      }),
    );
  const profiles = [
    { name: "a", plugins: [only("first", 0, 1), described(queueScorer)] },
    { name: "b", plugins: [only("second", 2, 3), described(queueScorer), described(prefixCacheScorer)] },
    { name: "nobody", plugins: [only("none")] },
  ];
  const all: ProfileHandler = {
    pick: ({ profiles: names, results }) => names.filter((name) => !results.has(name)),
    processResults: () => "b",
  };

  it("each see all candidates; the primary's endpoints get the request, the others are side loads", () => {
    const scheduler = schedulerOf(planOfMany({ profiles, handler: handler(() => all) }));
    for (let i = 0; i < 2; i++) {
      const outcome = scheduler.schedule(requestOf("x".repeat(512)), pool, 0);
      expect(outcome).toMatchObject({
        endpoints: [{ slot: 2 }, { slot: 3 }],
        sideLoads: [{ endpoint: { slot: 0 }, uncachedTokens: 128 }],
        record: { profile: "b", others: [{ profile: "a", id: "default/pod-0" }], filters: [{ name: "second" }] },
      });
      const { profiles: chosen } = outcome as { profiles: ReadonlyMap<string, readonly { slot: number }[]> };
      expect([...chosen].map(([name, list]) => [name, list.map(({ slot }) => slot)])).toEqual([
        ["b", [2, 3]],
        ["a", [0, 1]],
      ]);
    }
  });

  it.each([
    ["has no endpoint", { processResults: () => "nobody" }, "nobody"],
    ["never ran", { pick: () => [] }, "which has no endpoint"],
    ["does not exist", { pick: () => ["zzz"] }, '"zzz", which does not exist'],
    ["ran already", { pick: () => ["a"] }, "chose the profile a twice"],
  ])("a handler whose choice %s is answered with 500, and told of", (_, part, message) => {
    const errors: unknown[] = [];
    const hooks: SchedulerHooks = { pluginFailed: (point, _plugin, error) => errors.push(`${point} ${error}`) };
    const plan = planOfMany({ profiles, handler: handler(() => ({ ...all, ...part })) });
    const outcome = schedulerOf(plan, hooks).schedule(requestOf("p"), pool, 0);
    expect(outcome).toMatchObject({ reason: "internal", detail: expect.stringContaining(message) });
    expect(errors).toEqual([expect.stringContaining("ProfilePicker")]);
  });

  it("a handler's refusal is the answer, on record with the filters of the profile that failed", () => {
    const refusing: ProfileHandler = {
      pick: ({ results }) => (results.size === 0 ? ["nobody"] : []),
      processResults: ({ results }) => results.get("nobody") as Rejection,
    };
    const scheduler = schedulerOf(planOfMany({ profiles, handler: handler(() => refusing) }));
    expect(scheduler.schedule(requestOf("p"), pool, 0)).toMatchObject({ reason: "no_target", status: 429 });
    expect(scheduler.records.newest).toMatchObject({
      profile: "nobody",
      filters: [{ name: "none", dropped: 4 }],
      refusal: { reason: "no_target" },
    });
  });

  it("need a handler, which must not be the single one", () => {
    expect(() => planOfMany({ profiles })).toThrow("no profile handler configured");
  });
});

describe("conditional decoding (3.3 step 12)", () => {
  const prefer = (value: string) => requestOf("z".repeat(600), { headers: HeaderList.of([["prefer", value]]) });

  it("S-45: if-available without a cached block on the target is 412, and changes nothing; with one it is served", () => {
    const scheduler = schedulerOf(planWith(described(queueScorer), described(prefixCacheScorer)));
    for (const value of ["if-available", "respond-async, If-Available;wait=3"])
      expect(scheduler.schedule(prefer(value), pool, 0)).toMatchObject({
        status: 412,
        text: expect.stringContaining("PreconditionFailed"),
      });
    expect(scheduler.records.newest?.refusal?.reason).toBe("precondition_failed");
    expect(scheduler.schedule(prefer("wait=if-available"), pool, 0)).not.toBeInstanceOf(Rejection);
    expect(scheduler.schedule(prefer("if-available"), pool, 0)).toMatchObject({ endpoints: [{ slot: 0 }, {}, {}, {}] });
  });
});

describe("what is kept of a decision", () => {
  it("one in so many is recorded in full, and every one that is asked for", () => {
    const plan = planWith(described(queueScorer));
    const scheduler = new Scheduler({ plan, clock, random: new SeededRandom(1), fullEvery: 3 });
    const full = Array.from({ length: 7 }, () => {
      scheduler.schedule(requestOf("p"), pool, 0);
      return scheduler.records.newest?.full !== undefined;
    });
    expect(full).toEqual([false, false, true, false, false, true, false]);
    scheduler.schedule(requestOf("p"), pool, 0, { full: true });
    expect(scheduler.records.newest?.full?.endpoints.map(({ total }) => total)).toEqual([1, 2 / 3, 1 / 3, 0]);
  });

  it("holds at most 64 full records, the newest ones; the rest of the others stays", () => {
    const scheduler = schedulerOf(planWith(described(queueScorer)));
    for (let i = 0; i < 70; i++) scheduler.schedule(requestOf("secret prompt"), pool, 0, { full: true });
    const records = scheduler.records.latest(100);
    expect(records.map(({ full }) => full !== undefined)).toEqual([
      ...new Array(64).fill(true),
      ...new Array(6).fill(false),
    ]);
    expect(JSON.stringify(records[0]?.full)).not.toContain("secret");
  });

  it("bounds the bytes of full records within those of all", () => {
    const many = Array.from({ length: 2000 }, (_, slot) => endpointOf(slot));
    const scheduler = schedulerOf(planWith(described(queueScorer)));
    for (let i = 0; i < 20; i++) scheduler.schedule(requestOf("p"), many, 0, { full: true });
    const kept = scheduler.records.latest(100).filter(({ full }) => full !== undefined).length;
    expect(kept).toBeGreaterThan(2);
    expect(kept).toBeLessThan(9);
    expect(scheduler.records.size).toBe(20);
  });

  it("a request that was refused before it was scheduled is on record as well", () => {
    const scheduler = schedulerOf(planWith(described(queueScorer)));
    const rejection = new Rejection("saturated", "system saturated");
    expect(scheduler.refused(requestOf("p", { id: "r-1" }), rejection, 4, 1)).toBe(rejection);
    expect(scheduler.records.byRequestId("r-1")).toMatchObject({
      refusal: { reason: "saturated", detail: "system saturated" },
      candidates: 4,
      excludedDown: 1,
      profile: "",
    });
  });
});
