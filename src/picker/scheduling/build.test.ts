import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { defineDiscovery, defineProducer, defineScorer } from "../../base/plugin/index.ts";
import { type ColumnKey, columnKey } from "../../base/plugin/keys.ts";
import type { PluginDefinition } from "../../base/plugin/kinds.ts";
import { PluginRegistry } from "../../base/plugin/registry.ts";
import { described, type MemberDescription, planOfOne } from "./build.ts";
import { SCHEDULING_PLUGINS } from "./plugins/index.ts";
import { inflightLoadProducer } from "./plugins/load/inflight-load-producer.ts";
import { queueScorer } from "./plugins/load/load-scorers.ts";
import { maxScorePicker, roundRobinPicker } from "./plugins/pickers.ts";
import { approxPrefixCacheProducer } from "./plugins/prefix/approx-prefix-cache-producer.ts";
import { prefixCacheScorer } from "./plugins/prefix/prefix-cache-affinity.ts";
import { singleProfileHandler } from "./plugins/profile-handlers.ts";
import type { Profile } from "./profile.ts";

const build = (plugins: MemberDescription[], known: readonly PluginDefinition[] = SCHEDULING_PLUGINS) =>
  planOfOne({
    plugins,
    registry: new PluginRegistry(known),
    clock: new VirtualClock(),
    random: new SeededRandom(1),
  });

const producerOf = (
  type: string,
  keys: { produces?: ColumnKey[]; requires?: ColumnKey[]; optional?: ColumnKey[] },
): PluginDefinition<"producer"> =>
  defineProducer({ type, describe: "", ...keys, create: () => ({ produce: () => {} }) });

function refusal(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (error instanceof SluiceError) return `${error.code}: ${error.message}`;
    throw error;
  }
  throw new Error("was accepted");
}

describe("building a profile", () => {
  it("has exactly what it names, in that order, with weight 1 unless given, and a max-score picker", () => {
    const plugins = [
      { ...described(queueScorer, 1.5), name: "q" },
      described(singleProfileHandler),
      described(prefixCacheScorer),
    ];
    const [profile] = build(plugins).profiles as [Profile];
    expect(profile.scorers.map(({ name, type, weight }) => [name, type, weight])).toEqual([
      ["q", "queue-scorer", 1.5],
      ["prefix-cache-scorer", "prefix-cache-scorer", 1],
    ]);
    expect([profile.name, profile.picker.name, profile.filters]).toEqual(["default", "max-score-picker", []]);
    expect(build([described(roundRobinPicker)]).profiles[0]?.picker.name).toBe("round-robin-picker");
  });

  it("adds default producers until nothing is missing, each behind what it reads", () => {
    const [a, b, c] = [columnKey("a"), columnKey("b"), columnKey("c")];
    const known = [
      producerOf("reads-b-and-c", { produces: [a], requires: [b], optional: [c] }),
      producerOf("reads-c", { produces: [b], requires: [c] }),
      producerOf("writes-c", { produces: [c] }),
    ];
    const scorer = defineScorer({ type: "s", describe: "", requires: [a], create: () => ({ score: () => {} }) });
    const names = build([described(scorer)], known).producers.map(({ name }) => name);
    expect(names).toEqual(["writes-c", "reads-c", "reads-b-and-c"]);
  });

  it("uses a configured producer instead of the default one, whatever its name", () => {
    const mine = { ...described(approxPrefixCacheProducer), name: "mine" };
    const scorer = {
      ...described(prefixCacheScorer),
      parameters: prefixCacheScorer.parameters.parse({ prefixMatchInfoProducerName: "mine" }),
    };
    expect(build([scorer, mine]).producers.map(({ name, type }) => [name, type])).toEqual([
      ["mine", "approx-prefix-cache-producer"],
    ]);
  });

  it("runs the in-flight producer behind the prefix producer, but does not call for one", () => {
    const order = build([described(inflightLoadProducer), described(prefixCacheScorer)]).producers;
    expect(order.map(({ type }) => type)).toEqual(["approx-prefix-cache-producer", "inflight-load-producer"]);
    expect(build([described(inflightLoadProducer)]).producers).toHaveLength(1);
  });

  it("tokens stay with an endpoint until the end where the producer of them counts what is yet to be generated (scheduling 3.12)", () => {
    const load = (name: string, addEstimatedOutputTokens: boolean) => ({
      definition: inflightLoadProducer,
      name,
      parameters: inflightLoadProducer.parameters.parse({ addEstimatedOutputTokens }),
    });
    expect(build([described(prefixCacheScorer)]).keepsTokens).toBe(false);
    expect(build([load("load", false)]).keepsTokens).toBe(false);
    expect(build([load("load", true)]).keepsTokens).toBe(true);
    // The books are kept by the one that has the name of its type.
    expect(build([load("load", true), load("inflight-load-producer", false)]).keepsTokens).toBe(false);
    expect(build([load("load", false), load("inflight-load-producer", true)]).keepsTokens).toBe(true);
  });

  it.each([
    ["two pickers", [maxScorePicker, roundRobinPicker], "PICKER_TAKEN: already have a registered picker plugin"],
    ["one name twice", [queueScorer, queueScorer], "PLUGIN_NAME_TAKEN: duplicate plugin name queue-scorer"],
    [
      "a key nobody writes",
      [defineScorer({ type: "s", describe: "", requires: [columnKey("k")], create: () => ({ score: () => {} }) })],
      "PRODUCER_MISSING: no producer for key k required by plugin s",
    ],
    [
      "a plugin of another kind",
      [defineDiscovery({ type: "d", describe: "", create: () => ({ path: "", watchFile: false }) })],
      "PLUGIN_NOT_IN_PROFILE: plugin d is a discovery",
    ],
  ] as const)("refuses %s", (_, plugins, message) => {
    expect(refusal(() => build(plugins.map((plugin) => described(plugin))))).toContain(message);
  });

  it("refuses a cycle among producers and names it", () => {
    const [a, b] = [columnKey("a"), columnKey("b")];
    const cycle = [
      producerOf("one", { produces: [a], requires: [b] }),
      producerOf("two", { produces: [b], optional: [a] }),
    ];
    expect(
      refusal(() =>
        build(
          cycle.map((plugin) => described(plugin)),
          cycle,
        ),
      ),
    ).toBe("PLUGIN_CYCLE: dependency cycle among producers: one -> two -> one");
  });

  it("keeps two producers of one type apart, and refuses a producer name that does not exist", () => {
    const twice = [described(approxPrefixCacheProducer), { ...described(approxPrefixCacheProducer), name: "second" }];
    expect(build(twice).columns.map((name) => name.split("/")[0])).toEqual([
      ...new Array(3).fill("approx-prefix-cache-producer"),
      ...new Array(3).fill("second"),
    ]);
    const parameters = prefixCacheScorer.parameters.parse({ prefixMatchInfoProducerName: "precise" });
    expect(refusal(() => build([{ ...described(prefixCacheScorer), parameters }]))).toContain(
      "plugin prefix-cache-scorer has a dependency on the unregistered plugin precise (prefixMatchInfoProducerName)",
    );
  });

  it.each([-1, Number.NaN, Number.POSITIVE_INFINITY])("refuses the weight %d", (weight) => {
    expect(refusal(() => build([described(queueScorer, weight)]))).toContain(
      "WEIGHT_INVALID: the weight of plugin queue-scorer",
    );
    expect(build([described(queueScorer, 0)]).profiles[0]?.scorers[0]?.weight).toBe(0);
  });
});
