import { afterAll, expect, it } from "vitest";
import { freshRandom } from "../../../base/clock/random.ts";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import { silentLogger } from "../../../base/telemetry/logger.ts";
import { objectivesFromFlags } from "../../../pool/resources/objectives.ts";
import { loadConfig } from "../../config/load.ts";
import { InferenceCore } from "../inference-core.ts";
import { PLUGIN_REGISTRY } from "../plugins/plugins.ts";
import { checkConfig } from "./config-check.ts";
import { configView } from "./config-view.ts";

const core = new InferenceCore({
  ...{ clock: new VirtualClock(), random: freshRandom(), config: loadConfig(undefined, PLUGIN_REGISTRY) },
  ...{ log: silentLogger, models: { objectives: objectivesFromFlags([]) }, staleness: 1000 },
  ...{ ignoreSubset: false, retries: true },
});
afterAll(() => core.close());

const HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n";

it("reads its own text as the configuration that is in force", () => {
  const { text, plugins, profiles } = configView(core);
  const { picker, problems, warnings } = checkConfig(core, text!);
  expect([problems, warnings]).toEqual([[], []]);
  expect(picker?.profiles).toEqual(profiles);
  // The text also names what a replay does without: the sources of metrics.
  const inForce = new Map(plugins.map((plugin) => [plugin.name, plugin]));
  const members = profiles.flatMap(({ filters, scorers, picker: pick }) => [...filters, ...scorers, pick]);
  for (const member of members.map((one) => (typeof one === "string" ? one : one.name)))
    expect(picker?.plugins).toContainEqual(inForce.get(member));
});

it("gives the plugins and profiles of another text, with the defaults of parameters", () => {
  const { picker, problems } = checkConfig(
    core,
    `${HEAD}plugins:
- {name: gold, type: label-selector-filter, parameters: {matchLabels: {tier: gold}}}
- type: queue-scorer
schedulingProfiles:
- name: mine
  plugins: [{pluginRef: gold}, {pluginRef: queue-scorer, weight: 4}]
`,
  );
  expect(problems).toEqual([]);
  expect(picker?.profiles).toEqual([
    {
      name: "mine",
      filters: ["gold"],
      scorers: [{ name: "queue-scorer", weight: 4 }],
      picker: "max-score-picker",
    },
  ]);
  const gold = picker?.plugins.find(({ name }) => name === "gold");
  expect(gold?.type).toBe("label-selector-filter");
  expect(JSON.parse(gold!.parameters)).toMatchObject({ matchLabels: { tier: "gold" } });
});

it("names line and column of each mistake, in the order of the text", () => {
  const { picker, problems } = checkConfig(
    core,
    `${HEAD}plugins:\n- type: queue-scorr\n- {type: queue-scorer, colour: red}\n`,
  );
  expect(picker).toBeNull();
  expect(problems.map(({ line, column }) => [line, column])).toEqual([
    [4, 3],
    [5, 24],
  ]);
  expect(problems[0]!.text).toContain("plugin type queue-scorr is not registered; did you mean");
  expect(problems[1]!.text).toContain("unknown key `colour`");
});

it("names the place of what is no YAML, and of a warning", () => {
  const broken = checkConfig(core, "kind: [1,\n");
  expect(broken.picker).toBeNull();
  expect(broken.problems).toHaveLength(1);
  expect(broken.problems[0]!.line).toBeGreaterThanOrEqual(1);
  expect(broken.problems[0]!.text).not.toContain("edited");
  const unused = checkConfig(core, `${HEAD}plugins:\n- type: queue-scorer\n- type: strict-fairness-policy\n`);
  expect(checkConfig(core, "").problems).toHaveLength(1);
  expect(unused.picker === null ? unused.problems.length : unused.warnings.length).toBeGreaterThan(0);
});

it("loads no module: a type that the process does not have yet is a mistake", () => {
  const { problems } = checkConfig(core, `${HEAD}plugins:\n- {type: mine, module: ./mine.ts}\n`);
  expect(problems.map(({ line }) => line)).toEqual([4]);
});
