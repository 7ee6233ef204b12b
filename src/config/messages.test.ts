import { describe, expect, it } from "vitest";
import { parseDocument } from "../document/parse.ts";
import {
  defineFilter,
  defineParser,
  definePicker,
  defineProducer,
  defineProfileHandler,
  defineSaturationDetector,
  defineScorer,
} from "../plugin/define.ts";
import { z } from "../plugin/index.ts";
import { columnKey } from "../plugin/keys.ts";
import type { PluginDefinition } from "../plugin/kinds.ts";
import { PluginRegistry } from "../plugin/registry.ts";
import { type LoadOptions, loadConfig } from "./load.ts";

// Every row of scheduling 4.4 as the author of the file reads it: the whole message. That both --config-file and --config-text
// are given is for the flags to refuse (src/cli/epp-flags.test.ts, S-62).

const [HOT, COLD, LONELY] = [columnKey("hot"), columnKey("cold"), columnKey("lonely")];
const scorer = (type: string, requires: ReturnType<typeof columnKey>[] = []) =>
  defineScorer({ type, describe: "", requires, create: () => ({ score() {} }) });
const producer = (type: string, produces: typeof HOT, optional: readonly (typeof HOT)[] = []) =>
  defineProducer({ type, describe: "", produces: [produces], optional, create: () => ({ produce() {} }) });
const REGISTRY = new PluginRegistry([
  ...["queue-scorer", "kv-cache-utilization-scorer", "active-request-scorer"].map((type) => scorer(type)),
  scorer("hot-scorer", [HOT]),
  scorer("lonely-scorer", [LONELY]),
  defineScorer({
    type: "prefix-cache-scorer",
    describe: "",
    parameters: z.strictObject({
      matchLengthWeight: z.number().max(1).default(0),
      prefixMatchInfoProducerName: z.string().default(""),
    }),
    create: () => ({ score() {} }),
  }),
  producer("hot-producer", HOT, [COLD]),
  producer("cold-producer", COLD, [HOT]),
  definePicker({ type: "max-score-picker", describe: "", create: () => ({ maxNumOfEndpoints: 1, pick: () => 1 }) }),
  definePicker({ type: "random-picker", describe: "", create: () => ({ maxNumOfEndpoints: 1, pick: () => 1 }) }),
  defineFilter({ type: "label-selector-filter", describe: "", create: () => ({ filter() {} }) }),
  defineFilter({ type: "utilization-filter", describe: "", create: () => ({ filter() {} }) }),
  defineProfileHandler({ type: "single-profile-handler", describe: "", create: () => ({}) }),
  defineParser({ type: "openai-parser", describe: "", create: () => ({ parsers: [] }) }),
  defineSaturationDetector({ type: "utilization-detector", describe: "", create: () => ({ saturation: () => 0 }) }),
] as PluginDefinition[]);

const HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n";

function messageOf(text: string, options: LoadOptions = {}): string {
  try {
    loadConfig(parseDocument(text, { file: "c.yaml" }), REGISTRY, options);
  } catch (error) {
    return (error as Error).message;
  }
  return "accepted";
}

const ONE = "invalid EndpointPickerConfig: ";

describe("what the author of a configuration is told (scheduling 4.4)", () => {
  it.each([
    ["S-60: undecodable", `${HEAD}plugins: [{type: queue-scorer}\n`, "c.yaml:3:10: `[` opened at line 3 is not closed"],
    [
      "S-60: JSON with a comma too many",
      '{"apiVersion": "llm-d.ai/v1alpha1",, "kind": "EndpointPickerConfig"}',
      "c.yaml:1:36: a comma with nothing before it; remove it, or write the missing entry",
    ],
    [
      "S-60: unknown field",
      `${HEAD}schedulingProfile: []\n`,
      `${ONE}c.yaml:3:1: schedulingProfile: unknown key \`schedulingProfile\`; did you mean \`schedulingProfiles\`?`,
    ],
    [
      "S-60: wrong type",
      `${HEAD}plugins: queue-scorer\n`,
      `${ONE}c.yaml:3:1: plugins: expected a list, got the string "queue-scorer"`,
    ],
    [
      "S-60: wrong kind",
      "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfiguration\n",
      `${ONE}c.yaml:2:1: kind: expected \`EndpointPickerConfig\`, got the string "EndpointPickerConfiguration"`,
    ],
    [
      "S-60: wrong group",
      "apiVersion: llm-d.io/v1alpha1\nkind: EndpointPickerConfig\n",
      `${ONE}c.yaml:1:1: apiVersion: expected one of \`llm-d.ai/v1alpha1\`, \`inference.networking.x-k8s.io/v1alpha1\`, got the string "llm-d.io/v1alpha1"; did you mean \`llm-d.ai/v1alpha1\`?`,
    ],
    [
      "plugin without type",
      `${HEAD}plugins:\n- name: first\n`,
      `${ONE}c.yaml:4:3: plugins[0].type: the plugin is missing a type; write for example \`type: queue-scorer\``,
    ],
    [
      "S-60: duplicate plugin name",
      `${HEAD}plugins:\n- type: queue-scorer\n- type: queue-scorer\n`,
      `${ONE}c.yaml:5:3: plugins[1]: duplicate plugin name queue-scorer; give one of them a \`name\` of its own`,
    ],
    [
      "S-60: type not registered",
      `${HEAD}plugins:\n- type: queue-score\n`,
      `${ONE}c.yaml:4:3: plugins[0].type: plugin type queue-score is not registered; did you mean \`queue-scorer\`?`,
    ],
    [
      "type not registered, nothing like it",
      `${HEAD}plugins:\n- type: astrology\n`,
      `${ONE}c.yaml:4:3: plugins[0].type: plugin type astrology is not registered; known are active-request-scorer, cold-producer, hot-producer, hot-scorer, kv-cache-utilization-scorer, label-selector-filter, lonely-scorer, max-score-picker, openai-parser, prefix-cache-scorer, queue-scorer, random-picker, single-profile-handler, utilization-detector, utilization-filter`,
    ],
    [
      "S-59: unknown parameter",
      `${HEAD}plugins:\n- type: prefix-cache-scorer\n  parameters: {matchLengthWeigth: 0.5}\n`,
      `${ONE}c.yaml:5:16: plugins[0].parameters.matchLengthWeigth: failed to create plugin prefix-cache-scorer (type: prefix-cache-scorer): unknown key \`matchLengthWeigth\`; did you mean \`matchLengthWeight\`?`,
    ],
    [
      "parameter of the wrong type",
      `${HEAD}plugins:\n- name: p\n  type: prefix-cache-scorer\n  parameters: {matchLengthWeight: "0.5"}\n`,
      `${ONE}c.yaml:6:16: plugins[0].parameters.matchLengthWeight: failed to create plugin p (type: prefix-cache-scorer): expected a number, got the string "0.5"`,
    ],
    [
      "parameter out of range",
      `${HEAD}plugins:\n- type: prefix-cache-scorer\n  parameters: {matchLengthWeight: 2}\n`,
      `${ONE}c.yaml:5:16: plugins[0].parameters.matchLengthWeight: failed to create plugin prefix-cache-scorer (type: prefix-cache-scorer): must be at most 1, got 2`,
    ],
    [
      "cycle of producers",
      `${HEAD}plugins:\n- type: hot-scorer\n- name: a\n  type: hot-producer\n- name: b\n  type: cold-producer\n`,
      `${ONE}c.yaml:5:3: plugins[1]: dependency cycle among producers, each reads what the next one writes: a -> b -> a`,
    ],
    [
      "reference of a parameter to nothing",
      `${HEAD}plugins:\n- {type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: index}}\n- {type: hot-producer, name: indx}\n`,
      `${ONE}c.yaml:4:44: plugins[0].parameters.prefixMatchInfoProducerName: plugin prefix-cache-scorer has a dependency on the unregistered plugin index; did you mean \`indx\`?`,
    ],
    [
      "profile without name",
      `${HEAD}plugins: [{type: queue-scorer}]\nschedulingProfiles:\n- plugins: [{pluginRef: queue-scorer}]\n`,
      `${ONE}c.yaml:5:3: schedulingProfiles[0].name: the scheduling profile is missing a name`,
    ],
    [
      "duplicate profile name, no handler (S-61)",
      `${HEAD}plugins: [{type: queue-scorer}]\nschedulingProfiles: [{name: a}, {name: a}]\n`,
      expect.stringContaining("schedulingProfiles[1].name: schedulingProfiles has duplicate name a"),
    ],
    [
      "S-60: pluginRef empty",
      `${HEAD}plugins: [{type: queue-scorer}]\nschedulingProfiles:\n- name: p\n  plugins: [{pluginRef: ""}]\n`,
      `${ONE}c.yaml:6:14: schedulingProfiles[0].plugins[0].pluginRef: this entry of the profile is missing a pluginRef`,
    ],
    [
      "pluginRef to nothing",
      `${HEAD}plugins: [{type: queue-scorer}]\nschedulingProfiles:\n- name: p\n  plugins: [{pluginRef: queue-scorers}]\n`,
      `${ONE}c.yaml:6:14: schedulingProfiles[0].plugins[0].pluginRef: schedulingProfiles[p] references undefined plugin queue-scorers; did you mean \`queue-scorer\`?`,
    ],
    [
      "discovery to nothing",
      `${HEAD}dataLayer: {discovery: {pluginRef: from-file}}\n`,
      `${ONE}c.yaml:3:25: dataLayer.discovery.pluginRef: dataLayer.discovery references undefined plugin from-file`,
    ],
    [
      "discovery of the wrong kind",
      `${HEAD}plugins: [{type: queue-scorer}]\ndataLayer: {discovery: {pluginRef: queue-scorer}}\n`,
      `${ONE}c.yaml:4:25: dataLayer.discovery.pluginRef: plugin queue-scorer is not a discovery but a scorer`,
    ],
    [
      "parser to nothing",
      `${HEAD}plugins: [{type: openai-parser}]\nparser: {pluginRef: openai}\n`,
      `${ONE}c.yaml:4:10: parser.pluginRef: parser references undefined plugin openai`,
    ],
    [
      "parser of the wrong kind",
      `${HEAD}plugins: [{type: queue-scorer}]\nrequestHandler: {parsers: [{pluginRef: queue-scorer}]}\n`,
      `${ONE}c.yaml:4:29: requestHandler.parsers[0].pluginRef: the plugin queue-scorer is not a parser plugin but a scorer`,
    ],
    [
      "two pickers",
      `${HEAD}plugins: [{type: random-picker}, {type: max-score-picker}]\nschedulingProfiles:\n- name: p\n  plugins: [{pluginRef: random-picker}, {pluginRef: max-score-picker}]\n`,
      `${ONE}c.yaml:6:42: schedulingProfiles[0].plugins[1].pluginRef: schedulingProfiles[p] already has a registered picker plugin; keep one of them`,
    ],
    [
      "more than one profile handler",
      `${HEAD}plugins:\n- type: single-profile-handler\n- {type: single-profile-handler, name: second}\n`,
      `${ONE}c.yaml:5:3: plugins[1]: multiple profile handlers found: single-profile-handler and second; keep one`,
    ],
    [
      "S-63: unknown gate",
      `${HEAD}featureGates: [flowcontrol]\n`,
      `${ONE}c.yaml:3:16: featureGates[0]: feature gate flowcontrol is unknown or unregistered; did you mean \`flowControl\`?`,
    ],
    [
      "S-63: gate like no other",
      `${HEAD}featureGates:\n- foo=true\n`,
      `${ONE}c.yaml:4:3: featureGates[0]: feature gate foo is unknown or unregistered; known are flowControl, haPopulateNonLeaderDatastore, dataLayer, prepareDataPlugins, enableLegacyMetrics`,
    ],
    [
      "S-63: gate that is neither true nor false",
      `${HEAD}featureGates: [flowControl=maybe]\n`,
      `${ONE}c.yaml:3:16: featureGates[0]: maybe is not a valid value for the feature gate flowControl; write flowControl=true or flowControl=false`,
    ],
    [
      "gate that isn't built",
      `${HEAD}featureGates: [flowControl]\n`,
      `${ONE}c.yaml:3:16: featureGates[0]: feature gate flowControl is not supported yet; remove it, then requests are admitted by priority and saturation without being queued`,
    ],
    [
      "detector reference empty",
      `${HEAD}saturationDetector: {}\n`,
      `${ONE}c.yaml:3:1: saturationDetector.pluginRef: saturation detector plugin reference is empty`,
    ],
    [
      "detector reference to nothing",
      `${HEAD}flowControl: {saturationDetector: {pluginRef: load}}\n`,
      `${ONE}c.yaml:3:36: flowControl.saturationDetector.pluginRef: saturationDetector references undefined plugin load`,
    ],
    [
      "detector of the wrong kind",
      `${HEAD}plugins: [{type: queue-scorer}]\nflowControl: {saturationDetector: {pluginRef: queue-scorer}}\n`,
      `${ONE}c.yaml:4:36: flowControl.saturationDetector.pluginRef: plugin queue-scorer is not a SaturationDetector but a scorer`,
    ],
    [
      "negative quantity",
      `${HEAD}flowControl:\n  maxBytes: -1Gi\n`,
      `${ONE}c.yaml:4:3: flowControl.maxBytes: field must be non-negative, got -1Gi`,
    ],
    [
      "negative duration",
      `${HEAD}flowControl:\n  defaultRequestTTL: -2s\n`,
      `${ONE}c.yaml:4:3: flowControl.defaultRequestTTL: must be at least 0ms, got -2s`,
    ],
    [
      "band without priority",
      `${HEAD}flowControl:\n  priorityBands:\n  - maxRequests: 5\n`,
      `${ONE}c.yaml:5:5: flowControl.priorityBands[0].priority: the priority band is missing a priority`,
    ],
    [
      "duplicate band priority",
      `${HEAD}flowControl:\n  priorityBands:\n  - priority: 5\n  - priority: 5\n`,
      `${ONE}c.yaml:6:5: flowControl.priorityBands[1].priority: duplicate priority level 5`,
    ],
    [
      "required data key without producer",
      `${HEAD}plugins:\n- type: lonely-scorer\n`,
      `${ONE}c.yaml:4:3: plugins[0]: no producer for key lonely required by plugin lonely-scorer`,
    ],
    [
      "negative weight",
      `${HEAD}plugins: [{type: queue-scorer}]\nschedulingProfiles:\n- name: p\n  plugins: [{pluginRef: queue-scorer, weight: -1}]\n`,
      `${ONE}c.yaml:6:39: schedulingProfiles[0].plugins[0].weight: a weight must not be negative; 0 switches a scorer off`,
    ],
    [
      "weight that is no number",
      `${HEAD}plugins: [{type: queue-scorer}]\nschedulingProfiles:\n- name: p\n  plugins: [{pluginRef: queue-scorer, weight: .nan}]\n`,
      `${ONE}c.yaml:6:39: schedulingProfiles[0].plugins[0].weight: expected a number, got NaN`,
    ],
    [
      "both names of the data layer",
      `${HEAD}data: {}\ndataLayer: {}\n`,
      `${ONE}c.yaml:3:1: data: data is the old name of dataLayer, which is given, too; merge them`,
    ],
    [
      "several at once, in the order of the file",
      `${HEAD}plugins:\n- type: queue-scorer\n  parameters: {depth: 1}\nfeatureGates: [foo=1, flowControl=2]\n`,
      `invalid EndpointPickerConfig, 3 problems:
  c.yaml:5:16: plugins[0].parameters.depth: failed to create plugin queue-scorer (type: queue-scorer): unknown key \`depth\`
  c.yaml:6:16: featureGates[0]: feature gate foo is unknown or unregistered; known are flowControl, haPopulateNonLeaderDatastore, dataLayer, prepareDataPlugins, enableLegacyMetrics
  c.yaml:6:23: featureGates[1]: 2 is not a valid value for the feature gate flowControl; write flowControl=true or flowControl=false`,
    ],
  ])("%s", (_row, text, message) => {
    expect(messageOf(text)).toEqual(message);
  });

  it("S-64: an alpha plugin is refused unless experimental ones are allowed", () => {
    const text = `${HEAD}plugins:\n- name: cool\n  type: utilization-filter\n`;
    expect(messageOf(text, { refuseExperimental: true })).toBe(
      `${ONE}c.yaml:5:3: plugins[0].type: plugin cool is experimental; requires --allow-experimental-plugins`,
    );
    expect(messageOf(text)).toBe("accepted");
  });

  it("says what has no effect, and takes the file", () => {
    const text = `${HEAD}featureGates: [dataLayer, enableLegacyMetrics=true, haPopulateNonLeaderDatastore=false, flowControl=F]
plugins:
- type: by-label-selector
- type: prefix-cache-scorer
flowControl:
  enableEviction: true
`;
    expect(loadConfig(parseDocument(text, { file: "c.yaml" }), REGISTRY).warnings).toEqual([
      "c.yaml:3:16: feature gate dataLayer has no effect: there is nothing to switch; remove it",
      "c.yaml:3:27: feature gate enableLegacyMetrics has no effect: metrics are read one way only; remove it",
      "c.yaml:3:53: feature gate haPopulateNonLeaderDatastore has no effect: every replica knows all endpoints",
      'c.yaml:5:3: plugin type by-label-selector is deprecated; it is called label-selector-filter now: write {"name":"by-label-selector","type":"label-selector-filter"}',
      "c.yaml:8:3: without the feature gate flowControl nothing of this section counts but saturationDetector",
    ]);
  });
});
