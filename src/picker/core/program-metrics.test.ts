import { describe, expect, it } from "vitest";
import { samplesOf } from "../../../test/support/core.ts";
import { instanceOf, requestOf } from "../../../test/support/scheduling/fakes.cases.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { render } from "../../base/telemetry/exposition.ts";
import { LabelGuard } from "../../base/telemetry/label-guard.ts";
import { createMetrics } from "../../base/telemetry/names.ts";
import { MetricsRegistry } from "../../base/telemetry/registry.ts";
import { fcfsOrderingPolicy } from "../flowcontrol/policies/ordering.ts";
import { programAwareFairness } from "../flowcontrol/policies/program-aware.ts";
import { showPrograms } from "./program-metrics.ts";

const OURS = "llm_d_epp_program_aware_";
const WAIT = "avg_wait_time_milliseconds";
const SERVICE = "attained_service_tokens";
const of = (name: string, id: string): string => `${name}{program_id="${id}"}`;

/** Policies, and what they did at a time. */
class Driven {
  readonly clock = new VirtualClock();
  readonly #registry = new MetricsRegistry();
  readonly #metrics = createMetrics(this.#registry);
  readonly #guard: LabelGuard;
  instances: readonly { readonly instance: unknown }[];

  constructor(policies: readonly object[] = [{}], names = 1000) {
    const { clock } = this;
    this.#guard = new LabelGuard(names);
    this.instances = policies.map((parameters) => ({
      instance: instanceOf(programAwareFairness, parameters, { clock }),
    }));
  }

  /** A request that has waited this long goes on, and has these tokens. */
  request(fairnessId: string, waited: number, tokens = 0, policy = 0): void {
    const now = this.clock.now();
    const choice = (this.instances[policy]!.instance as ReturnType<typeof instanceOf<"fairness-policy">>).choice();
    const request = requestOf("p", { fairnessId });
    choice.dispatched!({ request, receivedAt: 0, enqueuedAt: now - waited, ttl: 1, bytes: 1, tokens: 1 });
    choice.ended!(fairnessId, { promptTokens: tokens, completionTokens: 0 }, 0, now);
  }

  shown(): Record<string, number> {
    showPrograms(this.#metrics, this.instances, this.#guard, this.clock.now());
    const lines = render(this.#registry)
      .split("\n")
      .filter((line) => line.startsWith(OURS));
    return Object.fromEntries([...samplesOf(lines.join("\n"))].map(([key, value]) => [key.slice(OURS.length), value]));
  }
}

describe("what the page shows of program-aware fairness (scheduling 8.5)", () => {
  it("is each fairness ID's average wait and its service, which halves, and how equal the waits are", () => {
    const driven = new Driven();
    driven.request("a", 10, 100);
    driven.request("a", 30, 20);
    driven.request("b", 60, 40);
    driven.clock.advance(60_000);
    expect(driven.shown()).toEqual({
      jains_fairness_index: (20 + 60) ** 2 / (2 * (20 ** 2 + 60 ** 2)),
      [of(WAIT, "a")]: 20,
      [of(WAIT, "b")]: 60,
      [of(SERVICE, "a")]: 60,
      [of(SERVICE, "b")]: 20,
    });
  });

  it("is an index of 1 for equal waits, for none at all and for fewer than two fairness IDs", () => {
    const driven = new Driven();
    expect(driven.shown()).toEqual({ jains_fairness_index: 1 });
    driven.request("a", 0);
    expect(driven.shown()["jains_fairness_index"]).toBe(1);
    driven.request("b", 0);
    expect(driven.shown()["jains_fairness_index"]).toBe(1);
    driven.request("a", 8);
    driven.request("b", 8);
    expect(driven.shown()["jains_fairness_index"]).toBe(1);
    driven.request("b", 800);
    expect(driven.shown()["jains_fairness_index"]).toBeLessThan(0.6);
  });

  it("is nothing without such a policy, also after a configuration that had one", () => {
    const driven = new Driven();
    driven.request("a", 10, 100);
    driven.shown();
    driven.instances = [{ instance: instanceOf(fcfsOrderingPolicy) }];
    expect(driven.shown()).toEqual({ jains_fairness_index: Number.NaN });
  });

  it("adds up policies, and the fairness IDs beyond the labels (bound)", () => {
    const driven = new Driven([{}, {}], 2);
    for (const [id, waited, policy] of [
      ["a", 10, 0],
      ["a", 30, 1],
      ["b", 5, 0],
      ["c", 100, 0],
      ["d", 200, 1],
      ["d", 300, 1],
    ] as const)
      driven.request(id, waited, waited, policy);
    const { jains_fairness_index: _, ...shown } = driven.shown();
    expect(shown).toEqual({
      ...{ [of(WAIT, "a")]: 20, [of(WAIT, "b")]: 5, [of(WAIT, "other")]: 200 },
      ...{ [of(SERVICE, "a")]: 40, [of(SERVICE, "b")]: 5, [of(SERVICE, "other")]: 600 },
    });
  });

  it("forgets a fairness ID whose last request is longer ago than evictionTtlSeconds, without another request", () => {
    const driven = new Driven([{ evictionTtlSeconds: 100, evictionSweepSeconds: 1 }]);
    driven.request("a", 10, 100);
    driven.clock.advance(50_000);
    driven.request("b", 10, 100);
    driven.clock.advance(50_000);
    expect(Object.keys(driven.shown()).length).toBe(5);
    driven.clock.advance(1000);
    expect(Object.keys(driven.shown())).toEqual(["jains_fairness_index", of(WAIT, "b"), of(SERVICE, "b")]);
    const never = new Driven([{ evictionTtlSeconds: 0 }]);
    never.request("a", 10, 100);
    never.clock.advance(1e10);
    expect(never.shown()[of(WAIT, "a")]).toBe(10);
  });

  it("knows the waits of 4,096 fairness IDs: the one whose last request is longest ago leaves (bound)", () => {
    const driven = new Driven([{}], 5000);
    for (let i = 0; i < 4096; i++) driven.request(`f${i}`, 1);
    driven.request("f0", 1);
    driven.request("one more", 1);
    const { instance } = driven.instances[0]! as { instance: { waits(now: number): ReadonlyMap<string, unknown> } };
    const known = instance.waits(0);
    expect([known.size, known.has("f0"), known.has("f1"), known.has("one more")]).toEqual([4096, true, false, true]);
    // A page has at most 1,001 series of them.
    const waits = Object.keys(driven.shown()).filter((name) => name.startsWith(WAIT));
    expect(waits.length).toBeLessThanOrEqual(1002);
  });
});
