import { describe, expect, it } from "vitest";
import { buildDefaultPlan } from "../../../test/support/scheduling/default-profile.ts";
import { endpointOf, requestOf, unscraped } from "../../../test/support/scheduling/fakes.cases.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { SchedulingResult } from "../../base/inference/decision-record.ts";
import { type Endpoint, NO_LEAN } from "../../base/inference/endpoint.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import { definePicker, defineProducer, defineScorer } from "../../base/plugin/define.ts";
import { defineFilter } from "../../base/plugin/index.ts";
import {
  columnKey,
  PREFIX_BLOCK_TOKENS,
  PREFIX_CACHED_BLOCKS,
  PREFIX_UNCONFIRMED_BLOCKS,
} from "../../base/plugin/keys.ts";
import type { PluginDefinition } from "../../base/plugin/kinds.ts";
import { PluginRegistry } from "../../base/plugin/registry.ts";
import { described, planOfOne } from "./build.ts";
import type { SchedulerHooks } from "./plugin-calls.ts";
import { SCHEDULING_PLUGINS } from "./plugins/index.ts";
import { queueScorer } from "./plugins/load/load-scorers.ts";
import { maxScorePicker } from "./plugins/pickers.ts";
import { prefixIndexes } from "./plugins/prefix/approx-prefix-cache-producer.ts";
import { prefixCacheScorer } from "./plugins/prefix/prefix-cache-affinity.ts";
import type { SchedulingPlan } from "./profile.ts";
import { Scheduler } from "./scheduler.ts";

const clock = new VirtualClock(1_700_000_000_000);

function planWith(...plugins: PluginDefinition[]): SchedulingPlan {
  const registry = new PluginRegistry(SCHEDULING_PLUGINS);
  return planOfOne({
    plugins: plugins.map((plugin) => described(plugin)),
    registry,
    clock,
    random: new SeededRandom(2),
  });
}

function schedulerOf(plan: SchedulingPlan, hooks: SchedulerHooks = {}): Scheduler {
  return new Scheduler({ plan, clock, random: new SeededRandom(1), hooks });
}

const defaults = (hooks?: SchedulerHooks) => schedulerOf(buildDefaultPlan(clock, new SeededRandom(3)), hooks);

function routed(
  scheduler: Scheduler,
  request: InferenceRequest,
  pool: readonly Endpoint[],
  down = 0,
): SchedulingResult {
  const outcome = scheduler.schedule(request, pool, down);
  if (outcome instanceof Rejection) throw new Error(outcome.text);
  return outcome;
}

const fixed = (type: string, ...scores: number[]) =>
  defineScorer({ type, describe: "", create: () => ({ score: ({ out }) => out.set(scores) }) });

describe("default profile", () => {
  it("S-30: weighs 1, 1, 3, 4, 3 and 64, and picks the winner of a hand-computed example", () => {
    const scheduler = defaults();
    expect(scheduler.plan.profiles[0]!.scorers.map(({ type, weight }) => [type, weight])).toEqual([
      ["queue-scorer", 1],
      ["kv-cache-utilization-scorer", 1],
      ["prefix-cache-scorer", 3],
      ["lora-affinity-scorer", 4],
      ["active-request-scorer", 3],
      ["token-load-scorer", 64],
    ]);
    expect([scheduler.plan.profiles[0]!.picker.type, scheduler.offered]).toEqual(["max-score-picker", 1]);
    const request = requestOf("x".repeat(1024));
    routed(scheduler, request, [endpointOf(1)]);
    const { endpoints, record } = routed(scheduler, request, [
      // 1 x 1 + 1 x 0.7 + 3 x 0 + 4 x 0 + 3 x 0.5 + 64 x (1 - (32,512 + 256) / 1,048,576) = 65.2
      endpointOf(0, { metrics: { waiting: 0, kvUsage: 0.3 }, inFlight: { requests: 2, tokens: 32_512 } }),
      // 1 x 0.5 + 1 x 0.25 + 3 x 1 + 4 x 0 + 3 x 0 + 64 x (1 - 32,768 / 1,048,576) = 65.75
      endpointOf(1, { metrics: { waiting: 5, kvUsage: 0.75 }, inFlight: { requests: 4, tokens: 32_768 } }),
      // 1 x 0 + 1 x 0.9 + 3 x 0 + 4 x 0 + 3 x 1 + 64 x (1 - (65,536 + 256) / 1,048,576) = 63.884375
      endpointOf(2, { metrics: { waiting: 10, kvUsage: 0.1 }, inFlight: { requests: 0, tokens: 65_536 } }),
    ]);
    expect(endpoints.map(({ slot }) => slot)).toEqual([1, 0, 2]);
    expect(record.top.map(({ total }) => Number(total.toFixed(6)))).toEqual([65.75, 65.2, 63.884375]);
    expect(record.top[0]!.scores.map((score) => Number(score.toFixed(6)))).toEqual([0.5, 0.25, 1, 0, 0, 0.96875]);
    expect(record.tied).toBe(1);
  });

  it("follows local in-flight load when there are no metrics at all", () => {
    const pool = [5, 1, 3].map((requests, slot) => unscraped(slot, { inFlight: { requests, tokens: 0 } }));
    expect(routed(defaults(), requestOf("p"), pool).endpoints.map(({ slot }) => slot)).toEqual([1, 2, 0]);
  });

  it("sends nothing extra to endpoints that look idle only because nothing is known of them", () => {
    const pool = Array.from({ length: 10 }, (_, slot) =>
      slot < 5 ? endpointOf(slot, { metrics: { waiting: 2 + (slot % 2), kvUsage: 0.5 } }) : unscraped(slot),
    );
    const scheduler = defaults();
    for (let i = 0; i < 200; i++)
      expect(routed(scheduler, requestOf(`prompt ${i}`), pool).endpoints[0]!.slot).toBeLessThan(5);
  });

  it("S-56: the second of two equal prompts follows the first, decided back to back", () => {
    const pool = [0, 1, 2, 3].map((slot) => endpointOf(slot));
    const scheduler = defaults();
    const first = routed(scheduler, requestOf("y".repeat(3000)), pool);
    for (let i = 0; i < 20; i++)
      expect(routed(scheduler, requestOf("y".repeat(3000)), pool).endpoints[0]).toBe(first.endpoints[0]);
    expect(first.uncachedTokens).toBe(768);
    expect(routed(scheduler, requestOf("y".repeat(3000)), pool).uncachedTokens).toBe(0);
    expect(prefixIndexes(scheduler.plan)).toMatchObject([
      { name: "approx-prefix-cache-producer", type: "approx-prefix-cache-producer", size: 12 },
    ]);
    scheduler.endpointRemoved(first.endpoints[0]!);
    expect(routed(scheduler, requestOf("y".repeat(3000)), pool).uncachedTokens).toBe(768);
  });
});

describe("profile run", () => {
  const pool = [0, 1, 2].map((slot) => endpointOf(slot));

  it("S-33: clamps scores to 0..1, and NaN to 0", () => {
    const { record } = routed(schedulerOf(planWith(fixed("wild", -3, 7, Number.NaN))), requestOf("p"), pool);
    expect(record.top[0]).toMatchObject({ id: "default/pod-1", total: 1, scores: [1] });
    expect(record.top.slice(1).map(({ total, scores }) => [total, scores[0]])).toEqual([
      [0, 0],
      [0, 0],
    ]);
  });

  it("lets each filter and the scorers see only the survivors, with their columns", () => {
    const key = columnKey("number");
    const numbers = defineProducer({
      type: "numbers",
      describe: "",
      produces: [key],
      create: () => ({ produce: ({ candidates }) => candidates.column(key).set([10, 20, 30, 40]) }),
    });
    const dropFirst = (type: string) =>
      defineFilter({
        type,
        describe: "",
        create: () => ({
          filter({ keep }) {
            keep[0] = 0;
          },
        }),
      });
    const byNumber = defineScorer({
      type: "by-number",
      describe: "",
      requires: [key],
      create: () => ({
        score({ candidates, out }) {
          for (let i = 0; i < candidates.count; i++) out[i] = candidates.column(key)[i]! / 100;
        },
      }),
    });
    const profile = planWith(numbers, dropFirst("a"), dropFirst("b"), queueScorer, byNumber);
    const four = [0, 1, 2, 3].map((slot) => endpointOf(slot, { metrics: { waiting: [0, 1, 4, 8][slot]! } }));
    const { endpoints, record } = routed(schedulerOf(profile), requestOf("p"), four, 2);
    expect(endpoints.map(({ slot }) => slot)).toEqual([2, 3]);
    expect(record.top.map(({ scores }) => scores)).toEqual([
      [1, 0.3],
      [0, 0.4],
    ]);
    expect([record.candidates, record.excludedDown]).toEqual([4, 2]);
  });

  it("S-41: answers 429 when a filter leaves no candidate", () => {
    const none = defineFilter({ type: "none", describe: "", create: () => ({ filter: ({ keep }) => keep.fill(0) }) });
    const outcome = schedulerOf(planWith(none, queueScorer)).schedule(requestOf("p"), pool, 0) as Rejection;
    expect([outcome.reason, outcome.status, outcome.droppedHeader?.[1]]).toEqual([
      "no_target",
      429,
      "rejected-saturated",
    ]);
    expect(outcome.detail).toBe("failed to find target endpoint: none left none of 3 candidates");
  });

  it("answers 503 to an empty pool", () => {
    expect((defaults().schedule(requestOf("p"), [], 0) as Rejection).status).toBe(503);
  });

  it("lists every surviving candidate in order, at most eight, and offers what the picker says", () => {
    const many = Array.from({ length: 20 }, (_, slot) => endpointOf(slot, { metrics: { waiting: 20 - slot } }));
    const scheduler = schedulerOf(planWith(queueScorer));
    expect(routed(scheduler, requestOf("p"), many).endpoints.map(({ slot }) => slot)).toEqual([
      19, 18, 17, 16, 15, 14, 13, 12,
    ]);
    expect(routed(scheduler, requestOf("p"), many.slice(0, 3)).endpoints).toHaveLength(3);
    const registry = new PluginRegistry(SCHEDULING_PLUGINS);
    const plugins = [{ ...described(maxScorePicker), parameters: { maxNumOfEndpoints: 100 } }];
    const plan = planOfOne({ plugins, registry, clock, random: new SeededRandom(1) });
    expect(schedulerOf(plan).offered).toBe(8);
    const told = (maxEndpoints: number) => new Scheduler({ plan, clock, random: new SeededRandom(1), maxEndpoints });
    expect([told(3).offered, told(1).offered]).toEqual([3, 1]);
  });

  it("keeps no request, and so no body, alive between decisions", () => {
    const contexts: { request: InferenceRequest }[] = [];
    const keeper = defineScorer({
      type: "keeper",
      describe: "",
      create: () => ({ score: (context) => contexts.push(context) }),
    });
    const request = requestOf("p");
    routed(schedulerOf(planWith(keeper)), request, pool);
    expect(contexts[0]!.request).not.toBe(request);
  });

  it("estimates the prompt by its bytes where no producer counts it", () => {
    expect(routed(schedulerOf(planWith(queueScorer)), requestOf("x".repeat(401)), pool).uncachedTokens).toBe(101);
  });

  it("starts afresh with another profile, and goes on counting its records", () => {
    const scheduler = defaults();
    routed(scheduler, requestOf("z".repeat(1000)), pool);
    scheduler.usePlan(buildDefaultPlan(clock, new SeededRandom(3)));
    const { uncachedTokens, record } = routed(scheduler, requestOf("z".repeat(1000)), pool);
    expect([uncachedTokens, record.sequence]).toEqual([256, 2]);
  });

  it("grows to a larger pool and back", () => {
    const scheduler = defaults();
    for (const size of [3, 500, 2, 1000]) {
      const some = Array.from({ length: size }, (_, slot) => endpointOf(slot, { metrics: { waiting: slot } }));
      expect(routed(scheduler, requestOf(`p${size}`), some).endpoints[0]!.slot).toBe(0);
    }
  });
});

describe("plugins that fail", () => {
  const pool = [endpointOf(0, { metrics: { waiting: 9 } }), endpointOf(1)];
  const boom = (): never => {
    throw new Error("boom");
  };

  it("a scorer, filter or producer that throws is reported, and the request is scheduled without it", () => {
    const key = columnKey("half");
    const producer = defineProducer({
      type: "bad-producer",
      describe: "",
      produces: [key],
      create: () => ({
        produce({ candidates }) {
          candidates.column(key)[0] = 1;
          boom();
        },
        routed: boom,
        endpointRemoved: boom,
      }),
    });
    const reader = defineScorer({
      type: "reader",
      describe: "",
      requires: [key],
      create: () => ({ score: ({ candidates, out }) => out.set(candidates.column(key).subarray(0, candidates.count)) }),
    });
    const scorer = defineScorer({
      type: "bad-scorer",
      describe: "",
      create: () => ({
        score({ out }) {
          out[0] = 1;
          boom();
        },
      }),
    });
    const filter = defineFilter({
      type: "bad-filter",
      describe: "",
      create: () => ({
        filter({ keep }) {
          keep.fill(0);
          boom();
        },
      }),
    });
    const failed: string[] = [];
    const hooks: SchedulerHooks = {
      pluginFailed: (point, { name }, error) => failed.push(`${point} ${name} ${error}`),
    };
    const scheduler = schedulerOf(planWith(producer, filter, scorer, reader, queueScorer), hooks);
    const { endpoints, record } = routed(scheduler, requestOf("p"), pool);
    expect(endpoints.map(({ slot }) => slot)).toEqual([1, 0]);
    expect(record.top[1]!.scores).toEqual([0, 0, 0]);
    scheduler.endpointRemoved(pool[0]!);
    expect(failed).toEqual([
      "DataProducer bad-producer Error: boom",
      "Filter bad-filter Error: boom",
      "Scorer bad-scorer Error: boom",
      "PreRequest bad-producer Error: boom",
      "DataProducer bad-producer Error: boom",
    ]);
  });

  it.each([
    ["throws", boom, "boom"],
    ["repeats a candidate", ({ order }: { order: Uint32Array }) => order.fill(1) && 1, "repeats a candidate"],
    ["names a stranger", ({ order }: { order: Uint32Array }) => order.fill(7) && 1, "does not exist"],
  ])("a picker that %s answers 500, and the next request is served", (_, pick, message) => {
    let bad = true;
    const picker = definePicker({
      type: "bad-picker",
      describe: "",
      create: () => ({ maxNumOfEndpoints: 1, pick: (context) => (bad ? pick(context) : Number.NaN) }),
    });
    const scheduler = schedulerOf(planWith(picker));
    const outcome = scheduler.schedule(requestOf("p"), pool, 0) as Rejection;
    expect([outcome.reason, outcome.status]).toEqual(["internal", 500]);
    expect(outcome.detail).toContain("failed to find target endpoint: bad-picker failed");
    expect(outcome.detail).toContain(message);
    bad = false;
    expect(routed(scheduler, requestOf("p"), pool).record.tied).toBe(1);
  });
});

describe("the reports of a scheduler", () => {
  it("every decision, the plugin calls of one in sixteen, and the prefix match of the chosen endpoint", () => {
    const told = { decided: [] as string[], called: [] as string[], matches: [] as unknown[] };
    const scheduler = defaults({
      decided: (outcome, request, seconds) =>
        told.decided.push(
          `${request.id} ${outcome instanceof Rejection ? outcome.reason : outcome.endpoints[0]!.name} ${seconds}`,
        ),
      pluginCalled: (point, { type }, seconds) => told.called.push(`${point} ${type} ${seconds}`),
      prefixMatched: ({ name }, bytes, ratio) => told.matches.push([name, bytes, ratio]),
    });
    for (let i = 0; i < 17; i++) scheduler.schedule(requestOf("x".repeat(600)), [endpointOf(0)], 0);
    scheduler.schedule(requestOf(""), [endpointOf(0)], 0);
    scheduler.schedule(requestOf(""), [], 0);
    expect(told.decided).toHaveLength(19);
    expect([told.decided[0], told.decided[18]]).toEqual(["request-1 pod-0 0", "request-1 no_endpoints 0"]);
    expect(told.called).toHaveLength(2 * 10);
    expect(told.called.slice(0, 10)).toEqual([
      "DataProducer approx-prefix-cache-producer 0",
      "DataProducer inflight-load-producer 0",
      "Scorer queue-scorer 0",
      "Scorer kv-cache-utilization-scorer 0",
      "Scorer prefix-cache-scorer 0",
      "Scorer lora-affinity-scorer 0",
      "Scorer active-request-scorer 0",
      "Scorer token-load-scorer 0",
      "Picker max-score-picker 0",
      "PreRequest approx-prefix-cache-producer 0",
    ]);
    const name = "approx-prefix-cache-producer";
    expect([told.matches[0], told.matches[1], told.matches[17]]).toEqual([
      [name, 0, 0],
      [name, 3 * 256, 1],
      [name, 0, undefined],
    ]);
  });

  it("records the part of other replicas, where they share their load, and how old it is", () => {
    const scheduler = schedulerOf(planWith(queueScorer, prefixCacheScorer));
    const peers = (requests: number, ageMs: number) => ({
      ...{
        key: "",
        requests,
        tokens: 1,
        ageMs: () => ageMs,
        unseen: () => ({ requests: 0.5, tokens: 9 }),
        lean: NO_LEAN,
      },
    });
    const pool = [
      endpointOf(0, { metrics: { waiting: 0 }, inFlight: { requests: 4, tokens: 9 }, peers: peers(3, 15) }),
      endpointOf(1, { metrics: { waiting: 5 }, inFlight: { requests: 1, tokens: 9 }, peers: peers(0, 0) }),
    ];
    const { record } = routed(scheduler, requestOf("x"), pool);
    expect(record.top).toMatchObject([
      { inFlight: 4, peers: { inFlight: 3, ageMs: 15, unseen: 0.5 }, scores: [1, 0], state: "up" },
      { inFlight: 1, peers: { inFlight: 0, ageMs: 0, unseen: 0.5 }, scores: [0, 0] },
    ]);
    expect(record.peerBlocks).toBeUndefined();
  });

  it.each([
    ["none of them", [4, 0], undefined],
    ["some", [4, 3], 96],
    ["all", [4, 4], 128],
  ])("records how many of the cached tokens of the pick no event confirms yet: %s", (_, [cached, notYet], expected) => {
    const producer = defineProducer({
      type: "hears-events",
      describe: "",
      produces: [PREFIX_CACHED_BLOCKS, PREFIX_UNCONFIRMED_BLOCKS, PREFIX_BLOCK_TOKENS],
      create: () => ({
        produce: ({ candidates }) => {
          candidates.column(PREFIX_BLOCK_TOKENS).set([16, 32]);
          candidates.column(PREFIX_CACHED_BLOCKS).set([1, cached!]);
          candidates.column(PREFIX_UNCONFIRMED_BLOCKS).set([1, notYet!]);
        },
      }),
    });
    const scheduler = schedulerOf(planWith(producer, fixed("second", 0, 1)));
    const { record } = routed(scheduler, requestOf("x"), [endpointOf(0), endpointOf(1)]);
    expect(record.cache).toMatchObject({ events: 128, unconfirmed: expected });
  });

  it("records what it saw, without a byte of the prompt", () => {
    const scheduler = schedulerOf(planWith(queueScorer, prefixCacheScorer));
    const request = requestOf("the secret prompt", { id: "r-7", model: "alias", targetModel: "real", priority: -1 });
    const pool = [
      endpointOf(0, {
        metrics: { waiting: 2, running: 3, kvUsage: 0.5, scrapedAt: -100 },
        inFlight: { requests: 4, tokens: 9 },
      }),
      unscraped(1, { state: "blind", hostPort: "[::1]:8000" }),
    ];
    const { record } = routed(scheduler, request, pool);
    const known = { waiting: 2, running: 3, kvUsage: 0.5, total: 1, scores: [1, 0] };
    expect(JSON.parse(JSON.stringify(record))).toEqual({
      sequence: 1,
      requestId: "r-7",
      at: 1_700_000_000_000,
      model: "alias",
      targetModel: "real",
      priority: -1,
      promptBytes: 17,
      configHash: "",
      profile: "default",
      picker: "max-score-picker",
      pickerByChance: false,
      candidates: 2,
      excludedDown: 0,
      filters: [],
      failed: [],
      cache: { predicted: 0, events: null, reported: null, prompt: null },
      others: [],
      scorers: [
        { name: "queue-scorer", weight: 1 },
        { name: "prefix-cache-scorer", weight: 1 },
      ],
      tied: 2,
      top: expect.arrayContaining([
        {
          ...known,
          id: "default/pod-0",
          hostPort: "10.0.0.0:8000",
          inFlight: 4,
          ageMs: 100,
          stale: false,
          state: "up",
        },
        {
          ...known,
          id: "default/pod-1",
          hostPort: "[::1]:8000",
          inFlight: 0,
          ageMs: null,
          stale: true,
          state: "blind",
        },
      ]),
    });
    expect(scheduler.records.bySequence(1)).toBe(record);
    expect(record.top.find(({ id }) => id === "default/pod-1")?.ageMs).toBe(Number.POSITIVE_INFINITY);
  });
});
