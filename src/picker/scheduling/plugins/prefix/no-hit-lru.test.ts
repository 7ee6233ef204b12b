import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  columnsOf,
  endpointOf,
  instanceOf,
  produceContextOf,
  requestOf,
  scoresOf,
} from "../../../../../test/support/scheduling/fakes.cases.ts";
import { SeededRandom } from "../../../../base/clock/random.ts";
import { VirtualClock } from "../../../../base/clock/virtual.ts";
import type { Endpoint } from "../../../../base/inference/endpoint.ts";
import { Rejection } from "../../../../base/inference/outcomes.ts";
import { defineFilter } from "../../../../base/plugin/define.ts";
import { COLD_USE_ORDER, PREFIX_MATCHED_BLOCKS } from "../../../../base/plugin/keys.ts";
import type { PluginDefinition } from "../../../../base/plugin/kinds.ts";
import { PluginRegistry } from "../../../../base/plugin/registry.ts";
import { described, planOfOne } from "../../build.ts";
import { Scheduler } from "../../scheduler.ts";
import { SCHEDULING_PLUGINS } from "../index.ts";
import { noHitLruProducer, noHitLruScorer } from "./no-hit-lru.ts";

const pool = (count: number) => Array.from({ length: count }, (_, slot) => endpointOf(slot));
const cold = (text: string) => requestOf(text.repeat(300));

function schedulerOf(plugins: readonly PluginDefinition[] = [], retries = false): Scheduler {
  const clock = new VirtualClock();
  const random = new SeededRandom(1);
  const registry = new PluginRegistry(SCHEDULING_PLUGINS);
  const members = [...plugins, noHitLruScorer].map((plugin) => described(plugin));
  const plan = planOfOne({ plugins: members, registry, clock, random });
  return new Scheduler({ plan, clock, random, retries });
}

function pick(scheduler: Scheduler, text: string, endpoints = pool(4)) {
  const outcome = scheduler.schedule(cold(text), endpoints, 0);
  if (outcome instanceof Rejection) throw new Error(outcome.text);
  return outcome;
}

describe("no-hit-lru-producer", () => {
  it("S-40: four cold requests on four endpoints go to four different ones, and the next to those used longest ago", () => {
    const scheduler = schedulerOf();
    const picks = ["a", "b", "c", "d", "e", "f"].map((text) => pick(scheduler, text).endpoints[0]!.slot);
    expect(picks).toEqual([0, 1, 2, 3, 0, 1]);
  });

  it("S-40: a warm request scores 0.5 each and does not count as a use", () => {
    const scheduler = schedulerOf();
    pick(scheduler, "a");
    const { record } = pick(scheduler, "a");
    expect(record.top.map(({ scores }) => scores)).toEqual([[0.5], [0.5], [0.5], [0.5]]);
    expect(["b", "c", "d", "e"].map((text) => pick(scheduler, text).endpoints[0]!.slot)).toEqual([1, 2, 3, 0]);
  });

  it("a prompt is cold where the only holder was filtered out", () => {
    const notFirst = defineFilter({
      type: "not-first",
      describe: "",
      create: () => ({
        filter({ candidates, keep }) {
          for (let i = 0; i < candidates.count; i++)
            if (candidates.endpoints[i]!.slot === 0 && candidates.count > 3) keep[i] = 0;
        },
      }),
    });
    const scheduler = schedulerOf([notFirst]);
    // The filter lets the first endpoint through in a pool of three only.
    expect(pick(scheduler, "a", pool(3)).endpoints[0]!.slot).toBe(0);
    expect(pick(scheduler, "a").endpoints[0]!.slot).toBe(1);
    expect(pick(scheduler, "b").endpoints[0]!.slot).toBe(2);
  });

  it("counts the endpoint that served after all, too", () => {
    const scheduler = schedulerOf([], true);
    const { endpoints, moved } = pick(scheduler, "a");
    expect(endpoints[0]!.slot).toBe(0);
    moved!(endpointOf(1));
    expect(pick(scheduler, "b").endpoints[0]!.slot).toBe(2);
  });

  it("forgets an endpoint that leaves: its slot is somebody else's then", () => {
    const scheduler = schedulerOf();
    for (const text of ["a", "b", "c"]) pick(scheduler, text);
    scheduler.endpointRemoved(endpointOf(1));
    expect(pick(scheduler, "d").endpoints[0]!.slot).toBe(1);
  });

  it("S-40: the endpoint that computes a cold prompt took it, too: that of the profile named prefill, and of no other", () => {
    const producer = instanceOf(noHitLruProducer);
    const [a, b, c] = pool(3) as [Endpoint, Endpoint, Endpoint];
    const use = (matched: number, others: readonly (readonly [string, Endpoint])[]) => {
      const candidates = columnsOf(
        [a, b, c],
        [
          [COLD_USE_ORDER, []],
          [PREFIX_MATCHED_BLOCKS, [matched]],
        ],
      );
      const request = cold("x");
      producer.produce(produceContextOf(candidates, request));
      producer.routed!(request, c, new Map(others));
      return [...candidates.column(COLD_USE_ORDER).slice(0, 3)];
    };
    const state = (...endpoints: readonly Endpoint[]) => ({
      endpoints: endpoints.map(({ id }) => id),
      totalEndpoints: endpoints.length,
      maxEndpoints: 100,
    });
    expect(producer.debugState?.()).toEqual(state());
    use(3, [["prefill", a]]);
    expect(producer.debugState?.()).toEqual(state());
    use(0, [["encode", b]]);
    expect(producer.debugState?.()).toEqual(state(c));
    expect(use(0, [["prefill", a]])).toEqual([0, 0, 1]);
    expect(producer.debugState?.()).toEqual(state(c, a));
    expect(use(0, [])).toEqual([2, 0, 1]);
    expect(producer.debugState?.()).toEqual(state(a, c));
    producer.endpointRemoved?.(a);
    expect(producer.debugState?.()).toEqual(state(c));
  });

  it("shows at most 100 endpoints", () => {
    const producer = instanceOf(noHitLruProducer);
    const candidates = columnsOf(pool(120), [
      [COLD_USE_ORDER, []],
      [PREFIX_MATCHED_BLOCKS, []],
    ]);
    for (const endpoint of pool(120)) {
      const request = cold("x");
      producer.produce(produceContextOf(candidates, request));
      producer.routed!(request, endpoint, new Map());
    }
    const state = producer.debugState?.() as { endpoints: unknown[]; totalEndpoints: number };
    expect([state.endpoints.length, state.endpoints[0], state.totalEndpoints]).toEqual([100, "default/pod-0", 120]);
  });

  it("remembers lruSize endpoints and forgets the one longest ago; less than 1 counts as 1024", () => {
    const orderAfter = (uses: number, parameters: object) => {
      const producer = instanceOf(noHitLruProducer, parameters);
      const endpoints = pool(1100);
      const candidates = columnsOf(endpoints, [
        [COLD_USE_ORDER, []],
        [PREFIX_MATCHED_BLOCKS, []],
      ]);
      for (let use = 0; use < uses; use++) {
        const request = cold(String(use));
        producer.produce(produceContextOf(candidates, request));
        producer.routed!(request, endpoints[use]!, new Map());
      }
      producer.produce(produceContextOf(candidates, cold("last")));
      return [...candidates.column(COLD_USE_ORDER).slice(0, 1100)];
    };
    expect(orderAfter(5, { lruSize: 3 }).slice(0, 6)).toEqual([0, 0, 1, 2, 3, 0]);
    for (const parameters of [{}, { lruSize: 0 }, { lruSize: -2 }]) {
      const order = orderAfter(1050, parameters);
      expect([order[25], order[26], order[1049], order[1050]]).toEqual([0, 1, 1024, 0]);
    }
    expect(noHitLruProducer.parameters.parse({ lruSize: 1e9 })).toMatchObject({ lruSize: 65_536 });
  });
});

const uses = (order: number[], matched: number[] = order.map(() => 0)) =>
  columnsOf(
    order.map((_, slot) => endpointOf(slot)),
    [
      [COLD_USE_ORDER, order],
      [PREFIX_MATCHED_BLOCKS, matched],
    ],
  );

describe("no-hit-lru-scorer", () => {
  it("S-40: a prompt that somebody holds scores 0.5 everywhere", () => {
    expect(scoresOf(noHitLruScorer, uses([0, 2, 1], [0, 3, 0]))).toEqual([0.5, 0.5, 0.5]);
    expect(scoresOf(noHitLruScorer, uses([1], [1]))).toEqual([0.5]);
  });

  it("S-40: those never used come first, in their order, then the one used longest ago (scheduling 3.9.3)", () => {
    expect(scoresOf(noHitLruScorer, uses([0, 0, 0, 0, 0]))).toEqual([1, 0.75, 0.5, 0.25, 0]);
    expect(scoresOf(noHitLruScorer, uses([2, 0, 1, 3, 0]))).toEqual([0.25, 1, 0.5, 0, 0.75]);
    expect(scoresOf(noHitLruScorer, uses([2, 1, 3]))).toEqual([0.5, 1, 0]);
  });

  it("counts places among all that are remembered, candidates or not, and goes no lower than 0 (scheduling 3.9.3)", () => {
    expect(scoresOf(noHitLruScorer, uses([4, 0, 9]))).toEqual([0, 1, 0]);
    expect(scoresOf(noHitLruScorer, uses([2, 5, 0, 0, 0]))).toEqual([0, 0, 1, 0.75, 0.5]);
  });

  it("scores an only candidate 1, used or not (scheduling 3.9.3)", () => {
    expect(scoresOf(noHitLruScorer, uses([7]))).toEqual([1]);
    expect(scoresOf(noHitLruScorer, uses([0]))).toEqual([1]);
  });

  it("never scores a later used one above an earlier one, nor any above one never used", () => {
    const order = fc.uniqueArray(fc.integer({ min: 1, max: 40 }), { maxLength: 12 });
    fc.assert(
      fc.property(order, fc.nat({ max: 5 }), (used, unused) => {
        const places = [...used, ...new Array<number>(unused).fill(0)];
        fc.pre(places.length > 0);
        const scores = scoresOf(noHitLruScorer, uses(places));
        for (let i = 0; i < places.length; i++)
          for (let j = 0; j < places.length; j++)
            if (places[i]! < places[j]!) expect(scores[i]).toBeGreaterThanOrEqual(scores[j]!);
        if (unused > 0 || used.includes(1)) expect(Math.max(...scores)).toBe(1);
      }),
    );
  });
});
