import { describe, expect, it } from "vitest";
import { endpointOf, requestOf } from "../../../test/support/scheduling/fakes.cases.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import { defineFilter, defineProducer, defineScreener } from "../../base/plugin/define.ts";
import type { PluginDefinition, PluginKind } from "../../base/plugin/kinds.ts";
import { PluginRegistry } from "../../base/plugin/registry.ts";
import { replay } from "../decisions/replay.ts";
import { described, planOfOne } from "./build.ts";
import { SCHEDULING_PLUGINS } from "./plugins/index.ts";
import { queueScorer } from "./plugins/load/load-scorers.ts";
import { Scheduler } from "./scheduler.ts";

const clock = new VirtualClock();
const decoders = defineFilter({
  type: "decoders",
  describe: "Keeps what has the role decode.",
  create: () => ({
    filter({ candidates, keep }) {
      for (let i = 0; i < candidates.count; i++) if (candidates.endpoints[i]!.labels["role"] !== "decode") keep[i] = 0;
    },
  }),
});
const screenedDecoders = defineScreener({
  type: "screened-decoders",
  describe: "The same for all profiles.",
  create: () => ({
    screen({ endpoints, keep }) {
      for (let i = 0; i < endpoints.length; i++) if (endpoints[i]!.labels["role"] !== "decode") keep[i] = 0;
      return undefined;
    },
  }),
});

function setUp(...plugins: readonly PluginDefinition<PluginKind>[]) {
  const registry = new PluginRegistry([...SCHEDULING_PLUGINS, ...plugins.filter((one) => one !== queueScorer)]);
  const plan = () =>
    planOfOne({ plugins: plugins.map((one) => described(one)), registry, clock, random: new SeededRandom(2) });
  const decided: unknown[] = [];
  const hooks = { decided: (outcome: unknown) => void decided.push(outcome) };
  const scheduler = new Scheduler({ plan: plan(), clock, random: new SeededRandom(1), hooks });
  const ask = (up: readonly Endpoint[], down: readonly Endpoint[], full = false) =>
    scheduler.schedule(requestOf("p"), up, down.length, { down, full });
  return { scheduler, decided, plan, ask };
}

const role = (slot: number, name: string, down = false) =>
  endpointOf(slot, { labels: { role: name }, state: down ? "down" : "up" });

describe("endpoints that are down", () => {
  it.each([
    ["a filter", decoders],
    ["a screener", screenedDecoders],
  ])("are candidates after all where %s leaves nobody else", (_, plugin) => {
    const { ask, scheduler, decided } = setUp(plugin, queueScorer);
    const outcome = ask([role(0, "prefill"), role(1, "prefill")], [role(2, "decode", true)]);
    expect(outcome).toMatchObject({ endpoints: [{ slot: 2 }] });
    // One decision, whatever it took.
    expect(decided).toEqual([outcome]);
    expect(scheduler.records.size).toBe(1);
    expect(scheduler.records.newest).toMatchObject({ candidates: 3, excludedDown: 0, refusal: undefined });
  });

  it("stay left out where the filters leave another one", () => {
    const { ask, scheduler } = setUp(decoders, queueScorer);
    const busy = endpointOf(0, { labels: { role: "decode" }, metrics: { waiting: 50 } });
    expect(ask([busy], [role(1, "decode", true)])).toMatchObject({ endpoints: [{ slot: 0 }] });
    expect(scheduler.records.newest).toMatchObject({ candidates: 1, excludedDown: 1 });
  });

  it("are no choice beside one that is not down, when they are candidates for another's sake", () => {
    const { ask, scheduler } = setUp(queueScorer);
    // As in the second run for a pool of roles: this profile can use both.
    const busy = endpointOf(0, { metrics: { waiting: 50 } });
    const idle = endpointOf(1, { state: "down" });
    expect(ask([busy, idle], [])).toMatchObject({ endpoints: [{ slot: 0 }] });
    expect(scheduler.records.newest?.filters).toEqual([{ name: "down", dropped: 1, ids: ["default/pod-1"] }]);
    expect(ask([idle], [])).toMatchObject({ endpoints: [{ slot: 1 }] });
  });

  it("do not help where no endpoint has the role, and the refusal is recorded once", () => {
    const { ask, decided, scheduler } = setUp(decoders, queueScorer);
    const outcome = ask([role(0, "prefill")], [role(1, "prefill", true)]) as Rejection;
    expect([outcome.reason, outcome.status]).toEqual(["no_target", 429]);
    expect([decided.length, scheduler.records.size]).toEqual([1, 1]);
    expect(scheduler.records.newest).toMatchObject({ candidates: 2, refusal: { reason: "no_target" } });
  });

  it("do not bring back what was refused for another reason", () => {
    const seen: number[] = [];
    const counting = defineProducer({
      type: "counting",
      describe: "",
      create: () => ({ produce: ({ candidates }) => void seen.push(candidates.count) }),
    });
    const refusing = defineScreener({
      type: "refusing",
      describe: "",
      create: () => ({ screen: () => new Rejection("bad_request", "not here") }),
    });
    const { ask } = setUp(counting, refusing, queueScorer);
    expect(ask([role(0, "decode")], [role(1, "decode", true)])).toMatchObject({ status: 400 });
    expect(seen).toEqual([]);
  });

  it("come out the same when the decision is replayed", () => {
    const { ask, scheduler, plan } = setUp(decoders, queueScorer);
    ask([role(0, "prefill"), role(1, "prefill")], [role(2, "decode", true), role(3, "decode", true)], true);
    const record = scheduler.records.newest!;
    expect(record.full?.endpoints.map(({ droppedBy }) => droppedBy)).toEqual([
      "decoders",
      "decoders",
      undefined,
      undefined,
    ]);
    expect(replay(record, plan())?.differences).toEqual([]);
  });
});
