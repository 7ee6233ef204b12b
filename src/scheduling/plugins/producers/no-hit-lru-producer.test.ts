import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../../clock/random.ts";
import { VirtualClock } from "../../../clock/virtual.ts";
import { Rejection } from "../../../inference/outcomes.ts";
import { defineFilter } from "../../../plugin/define.ts";
import { COLD_USE_ORDER, PREFIX_MATCHED_BLOCKS } from "../../../plugin/keys.ts";
import type { PluginDefinition } from "../../../plugin/kinds.ts";
import { PluginRegistry } from "../../../plugin/registry.ts";
import { buildProfile, described } from "../../build.ts";
import { columnsOf, endpointOf, instanceOf, requestOf } from "../../fakes.cases.ts";
import { Scheduler } from "../../scheduler.ts";
import { SCHEDULING_PLUGINS } from "../index.ts";
import { noHitLruScorer } from "../scorers/no-hit-lru-scorer.ts";
import { noHitLruProducer } from "./no-hit-lru-producer.ts";

const pool = (count: number) => Array.from({ length: count }, (_, slot) => endpointOf(slot));
const cold = (text: string) => requestOf(text.repeat(300));

function schedulerOf(plugins: readonly PluginDefinition[] = [], retries = false): Scheduler {
  const clock = new VirtualClock();
  const random = new SeededRandom(1);
  const registry = new PluginRegistry(SCHEDULING_PLUGINS);
  const members = [...plugins, noHitLruScorer].map((plugin) => described(plugin));
  const profile = buildProfile({ plugins: members, registry, clock, random });
  return new Scheduler({ profile, clock, random, retries });
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
        producer.produce({ request, candidates });
        producer.routed!(request, endpoints[use]!);
      }
      producer.produce({ request: cold("last"), candidates });
      return [...candidates.column(COLD_USE_ORDER).slice(0, 1100)];
    };
    expect(orderAfter(5, { lruSize: 3 }).slice(0, 6)).toEqual([0, 0, 1, 2, 3, 0]);
    for (const parameters of [{}, { lruSize: 0 }, { lruSize: -2 }]) {
      const order = orderAfter(1050, parameters);
      expect([order[25], order[26], order[1049], order[1050]]).toEqual([0, 1, 1024, 0]);
    }
    expect(noHitLruProducer.parameters.parse({ lruSize: 1e9 })).toEqual({ lruSize: 65_536 });
  });
});
