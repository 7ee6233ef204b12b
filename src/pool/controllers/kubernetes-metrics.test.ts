import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { render } from "../../base/telemetry/exposition.ts";
import { createMetrics } from "../../base/telemetry/names.ts";
import { MetricsRegistry } from "../../base/telemetry/registry.ts";
import type { FollowedKind } from "./cluster-state.ts";
import { showCluster } from "./kubernetes-metrics.ts";

const followed = (name: string, state: Partial<FollowedKind["state"]> = {}): FollowedKind => ({
  name,
  state: {
    ...{ synced: true, absent: false, kept: false, heardAt: Number.NEGATIVE_INFINITY, objects: 0 },
    ...{ lists: 0, watches: 0, failures: 0, problem: "" },
    ...state,
  },
});

/** A page that shows what `kinds` returns at the moment. */
function page(kinds: () => FollowedKind[], clock: VirtualClock, election?: { leading: boolean }) {
  const registry = new MetricsRegistry();
  const stop = showCluster({ registry, metrics: createMetrics(registry) }, { kinds }, clock, election);
  return { stop, lines: () => [...render(registry).matchAll(/^(sluice_kubernetes_.*)$/gm)].map(([, line]) => line) };
}

describe("how up to date the picture of the cluster is", () => {
  it("is the age of the API server's last word, with what is known and how often it went wrong", () => {
    const clock = new VirtualClock();
    let pods = followed("pods", { heardAt: 500, objects: 7, lists: 1 });
    const { lines, stop } = page(() => [pods], clock);
    clock.advance(2000);
    expect(lines()).toEqual([
      'sluice_kubernetes_heard_age_seconds{kind="pods"} 1.5',
      'sluice_kubernetes_objects{kind="pods"} 7',
      'sluice_kubernetes_lists_total{kind="pods"} 1',
      'sluice_kubernetes_failures_total{kind="pods"} 0',
    ]);
    pods = followed("pods", { heardAt: 500, objects: 7, lists: 3, failures: 2 });
    clock.advance(60_000);
    const later = lines();
    expect(later).toContain('sluice_kubernetes_heard_age_seconds{kind="pods"} 61.5');
    expect(later).toContain('sluice_kubernetes_lists_total{kind="pods"} 3');
    expect(later).toContain('sluice_kubernetes_failures_total{kind="pods"} 2');
    stop();
    clock.advance(1000);
    expect(lines()).toEqual(later);
  });

  it("rises from the start while the API server was never heard of", () => {
    const clock = new VirtualClock();
    clock.advance(90_000);
    const { lines } = page(() => [followed("pods", { synced: false })], clock);
    clock.advance(5000);
    expect(lines()).toContain('sluice_kubernetes_heard_age_seconds{kind="pods"} 5');
  });

  it("is none of a kind that is not there, until it is", () => {
    const clock = new VirtualClock();
    let absent = true;
    const { lines } = page(() => [followed("inferencemodels.x", { absent, heardAt: 0 })], clock);
    const age = 'sluice_kubernetes_heard_age_seconds{kind="inferencemodels.x"} 0';
    expect(lines()).not.toContain(age);
    absent = false;
    expect(lines()).toContain(age);
    absent = true;
    expect(lines()).not.toContain(age);
  });

  it.each([1, 0])("rises while a kind may not be read any more of which %d objects still count", (objects) => {
    const clock = new VirtualClock();
    const state = { absent: true, kept: true, heardAt: 0, objects };
    const { lines } = page(() => [followed("inferencepools.x", state)], clock);
    clock.advance(300_000);
    expect(lines()).toContain('sluice_kubernetes_heard_age_seconds{kind="inferencepools.x"} 300');
  });
});

describe("who leads", () => {
  it("is shown where there is an election, and not at all otherwise", () => {
    const clock = new VirtualClock();
    expect(page(() => [], clock).lines()).toEqual([]);
    const election = { leading: false };
    const { lines } = page(() => [], clock, election);
    expect(lines()).toEqual(["sluice_kubernetes_leader 0"]);
    election.leading = true;
    expect(lines()).toEqual(["sluice_kubernetes_leader 1"]);
  });
});
