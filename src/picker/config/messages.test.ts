import { describe, expect, it } from "vitest";
import { HEAD, load, messageFor } from "../../../test/support/config/fakes.cases.ts";

// Every row of scheduling 4.4 as the author of the file reads it: the whole message. That both --config-file and --config-text
// are given is for the flags to refuse (src/commands/epp/epp-flags.test.ts, S-62).

const ONE = "invalid EndpointPickerConfig: ";

describe("the messages for the author of a configuration (scheduling 4.4)", () => {
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
      `${ONE}c.yaml:1:1: apiVersion: expected one of \`llm-d.ai/v1alpha1\`, \`llm-d.ai/v1\`, \`inference.networking.x-k8s.io/v1alpha1\`, got the string "llm-d.io/v1alpha1"; did you mean \`llm-d.ai/v1alpha1\`?`,
    ],
    [
      "plugin without type",
      `${HEAD}plugins:\n- name: first\n`,
      `${ONE}c.yaml:4:3: plugins[0].type: the plugin is missing a type; write for example \`type: queue-scorer\``,
    ],
    [
      "S-60: duplicate plugin name",
      `${HEAD}plugins:\n- type: queue-scorer\n- type: queue-scorer\n`,
      `${ONE}c.yaml:5:3: plugins[1]: duplicate plugin name queue-scorer; give one of the two a different \`name\``,
    ],
    [
      "S-60: type not registered",
      `${HEAD}plugins:\n- type: queue-score\n`,
      `${ONE}c.yaml:4:3: plugins[0].type: plugin type queue-score is not registered; did you mean \`queue-scorer\`?`,
    ],
    [
      "type not registered, nothing like it",
      `${HEAD}plugins:\n- type: astrology\n`,
      `${ONE}c.yaml:4:3: plugins[0].type: plugin type astrology is not registered; the nearest types are cost-hook, hot-scorer, hot-producer, and docs/reference/plugins.md lists all; for your own type, add \`module\`, the path of its file`,
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
      `${ONE}c.yaml:5:3: plugins[1]: dependency cycle among producers: each reads data of the next producer: a -> b -> a`,
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
      `${HEAD}plugins: [{type: round-robin-picker}, {type: max-score-picker}]\nschedulingProfiles:\n- name: p\n  plugins: [{pluginRef: round-robin-picker}, {pluginRef: max-score-picker}]\n`,
      `${ONE}c.yaml:6:47: schedulingProfiles[0].plugins[1].pluginRef: schedulingProfiles[p] already has a registered picker plugin; keep one picker`,
    ],
    [
      "two pickers and no profile",
      `${HEAD}plugins:\n- type: round-robin-picker\n- type: max-score-picker\n`,
      `${ONE}c.yaml:5:3: plugins[1]: without schedulingProfiles, all plugins are in one profile, which already has a registered picker plugin, round-robin-picker; keep one picker, or list the plugins of each profile`,
    ],
    [
      "names where mappings belong",
      `${HEAD}plugins: [{type: queue-scorer}]\nschedulingProfiles:\n- name: p\n  plugins: [queue-scorer]\ndataLayer:\n  sources: [metrics-data-source]\n`,
      `invalid EndpointPickerConfig, 2 problems:
  c.yaml:6:13: schedulingProfiles[0].plugins[0]: expected a mapping, got a name; write \`pluginRef: queue-scorer\`
  c.yaml:8:13: dataLayer.sources[0]: expected a mapping, got a name; write \`pluginRef: metrics-data-source\``,
    ],
    [
      "a weight where it doesn't belong",
      `${HEAD}plugins: [{type: queue-scorer, weight: 2}]\n`,
      `${ONE}c.yaml:3:32: plugins[0].weight: move the weight to schedulingProfiles, beside the pluginRef of a scorer`,
    ],
    [
      "parameters where a profile refers to a plugin, and a reference where plugins are defined",
      `${HEAD}plugins: [{pluginRef: queue-scorer}]\nschedulingProfiles: [{name: p, plugins: [{pluginRef: queue-scorer, parameters: {}}]}]\n`,
      `invalid EndpointPickerConfig, 3 problems:
  c.yaml:3:11: plugins[0].type: the plugin is missing a type; write for example \`type: queue-scorer\`
  c.yaml:3:12: plugins[0].pluginRef: write \`type\` here; only profiles and other sections refer to a plugin by pluginRef
  c.yaml:4:68: schedulingProfiles[0].plugins[0].parameters: move the parameters to plugins, to the entry that pluginRef names`,
    ],
    [
      "S-60: nothing at all",
      "# to be written\n",
      `${ONE}c.yaml:1:1: the file is empty; begin it with \`apiVersion: llm-d.ai/v1alpha1\` and \`kind: EndpointPickerConfig\``,
    ],
    [
      "S-60: the object that carries the file",
      "apiVersion: llm-d.ai/v1alpha1\nkind: ConfigMap\n",
      `${ONE}c.yaml:2:1: kind: this is a ConfigMap: save the text under the key of its \`data\` as a separate file`,
    ],
    [
      "more than one profile handler",
      `${HEAD}plugins:\n- type: single-profile-handler\n- {type: header-profile-handler, name: second}\n`,
      `${ONE}c.yaml:5:3: plugins[1]: multiple profile handlers found: single-profile-handler and second; keep one`,
    ],
    [
      "S-61: no profile handler for two profiles",
      `${HEAD}plugins: [{type: queue-scorer}]\nschedulingProfiles:\n- name: a\n- name: b\n`,
      `${ONE}c.yaml:6:3: schedulingProfiles[1]: no profile handler configured, but several scheduling profiles need one; add one to plugins, such as \`type: header-profile-handler\` or \`type: stage-handler\`, or keep one profile`,
    ],
    [
      "S-61: single-profile-handler for two profiles",
      `${HEAD}plugins: [{type: queue-scorer}, {type: single-profile-handler}]\nschedulingProfiles: [{name: a}, {name: b}]\n`,
      `${ONE}c.yaml:3:33: plugins[1]: SingleProfileHandler cannot support multiple scheduling profiles; configure another handler, such as \`type: header-profile-handler\` or \`type: stage-handler\`, or keep one profile`,
    ],
    [
      "reference to nothing",
      `${HEAD}plugins:\n- {type: stage-handler, parameters: {deciders: {prefill: prefix-decidr}}}\n- {type: prefix-decider}\n`,
      `${ONE}c.yaml:4:49: plugins[0].parameters.deciders.prefill: plugin stage-handler has a dependency on the unregistered plugin prefix-decidr; did you mean \`prefix-decider\`?`,
    ],
    [
      "reference to a type that is not among the plugins",
      `${HEAD}plugins:\n- {type: stage-handler, parameters: {deciders: {prefill: prefix-decider}}}\n`,
      `${ONE}c.yaml:4:49: plugins[0].parameters.deciders.prefill: plugin stage-handler has a dependency on the unregistered plugin prefix-decider; add \`- type: prefix-decider\` to plugins`,
    ],
    [
      "reference to nothing that is known",
      `${HEAD}plugins:\n- {type: stage-handler, parameters: {deciders: {prefill: oracle}}}\n`,
      `${ONE}c.yaml:4:49: plugins[0].parameters.deciders.prefill: plugin stage-handler has a dependency on the unregistered plugin oracle; add a decider of this name to plugins`,
    ],
    [
      "reference to the wrong kind",
      `${HEAD}plugins:\n- {type: stage-handler, parameters: {deciders: {prefill: queue-scorer}}}\n- {type: queue-scorer}\n`,
      `${ONE}c.yaml:4:49: plugins[0].parameters.deciders.prefill: plugin stage-handler takes a decider here, but queue-scorer is a scorer`,
    ],
    [
      "plugins that refer to each other",
      `${HEAD}plugins:\n- {type: stage-handler, parameters: {deciders: {prefill: a}}}\n- {type: prefix-decider, name: a, parameters: {after: b}}\n- {type: prefix-decider, name: b, parameters: {after: a}}\n`,
      `${ONE}c.yaml:5:3: plugins[1]: dependency cycle: each plugin names the next one: a -> b -> a`,
    ],
    [
      "a producer that writes none of what is read",
      `${HEAD}plugins:\n- {type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: inflight-load-producer}}\n- {type: inflight-load-producer}\n`,
      `${ONE}c.yaml:4:44: plugins[0].parameters.prefixMatchInfoProducerName: plugin prefix-cache-scorer reads prefix-matched-blocks, but the producer inflight-load-producer does not write this data; name a producer that does`,
    ],
    [
      "data source that is not there",
      `${HEAD}plugins: [{type: core-metrics-extractor}]\ndataLayer:\n  sources:\n  - pluginRef: metrics-data-source\n    extractors: [{pluginRef: core-metrics-extractr}]\n`,
      `invalid EndpointPickerConfig, 2 problems:
  c.yaml:6:5: dataLayer.sources[0].pluginRef: the plugin metrics-data-source is not registered; add \`- type: metrics-data-source\` to plugins
  c.yaml:7:19: dataLayer.sources[0].extractors[0].pluginRef: the plugin core-metrics-extractr is not registered; did you mean \`core-metrics-extractor\`?`,
    ],
    [
      "what is no data source, and no extractor",
      `${HEAD}plugins: [{type: queue-scorer}, {type: metrics-data-source}]\ndataLayer:\n  sources:\n  - pluginRef: queue-scorer\n    extractors: [{pluginRef: metrics-data-source}]\n`,
      `invalid EndpointPickerConfig, 2 problems:
  c.yaml:6:5: dataLayer.sources[0].pluginRef: the plugin queue-scorer is not a data source but a scorer
  c.yaml:7:19: dataLayer.sources[0].extractors[0].pluginRef: the plugin metrics-data-source is not an extractor but a data-source`,
    ],
    [
      "data source and extractor without a name",
      `${HEAD}dataLayer: {sources: [{pluginRef: "", extractors: [{}]}]}\n`,
      `invalid EndpointPickerConfig, 2 problems:
  c.yaml:3:24: dataLayer.sources[0].pluginRef: the data source is missing a pluginRef
  c.yaml:3:52: dataLayer.sources[0].extractors[0].pluginRef: the extractor is missing a pluginRef`,
    ],
    [
      "policies that are none, with the gate on",
      `${HEAD}featureGates: [flowControl]
plugins: [{type: queue-scorer}, {type: edf-ordering-policy}]
flowControl:
  usageLimitPolicyPluginRef: static-usage-limit-policy
  defaultPriorityBand: {fairnessPolicyRef: round-robin-fairness-policy, orderingPolicyRef: fcfs-ordering-policy}
  priorityBands:
  - {priority: 1, fairnessPolicyRef: edf-ordering-policy, orderingPolicyRef: edf-ordring-policy}
  - {priority: 2, orderingPolicyRef: queue-scorer}
`,
      `invalid EndpointPickerConfig, 4 problems:
  c.yaml:7:25: flowControl.defaultPriorityBand.fairnessPolicyRef: plugin round-robin-fairness-policy not found; add \`- type: round-robin-fairness-policy\` to plugins
  c.yaml:9:19: flowControl.priorityBands[0].fairnessPolicyRef: plugin edf-ordering-policy does not implement the policy interface: it is an ordering policy, this place needs a fairness policy
  c.yaml:9:59: flowControl.priorityBands[0].orderingPolicyRef: plugin edf-ordring-policy not found; did you mean \`edf-ordering-policy\`?
  c.yaml:10:19: flowControl.priorityBands[1].orderingPolicyRef: plugin queue-scorer does not implement the policy interface: it is a scorer, this place needs an ordering policy`,
    ],
    [
      "policies of names that resemble none, and the name of a usual policy taken by another plugin",
      `${HEAD}featureGates: [flowControl]
plugins: [{name: fcfs-ordering-policy, type: queue-scorer}]
flowControl:
  usageLimitPolicyPluginRef: tight
  defaultPriorityBand: {fairnessPolicyRef: shares}
`,
      `invalid EndpointPickerConfig, 3 problems:
  c.yaml:4:11: plugins[0]: plugin fcfs-ordering-policy does not implement the policy interface: it is a scorer, this place needs an ordering policy
  c.yaml:6:3: flowControl.usageLimitPolicyPluginRef: plugin tight not found; add a plugin of this name; it must be a usage limit policy
  c.yaml:7:25: flowControl.defaultPriorityBand.fairnessPolicyRef: plugin shares not found; add a plugin of this name; it must be a fairness policy`,
    ],
    [
      "parameter of a policy",
      `${HEAD}plugins: [{type: static-usage-limit-policy, parameters: {treshold: 1}}]\n`,
      `${ONE}c.yaml:3:58: plugins[0].parameters.treshold: failed to create plugin static-usage-limit-policy (type: static-usage-limit-policy): unknown key \`treshold\`; did you mean \`threshold\`?`,
    ],
    [
      "a type that does not exist yet",
      `${HEAD}plugins: [{type: latency-scorer}]\n`,
      `${ONE}c.yaml:3:12: plugins[0].type: plugin type latency-scorer is not supported yet: it needs the latency predictor, which Sluice does not have yet; until then, use queue-scorer, kv-cache-utilization-scorer and prefix-cache-scorer`,
    ],
    [
      "sharing between replicas",
      `${HEAD}dataLayer: {peerDiscovery: {pluginRef: x}}\n`,
      `${ONE}c.yaml:3:13: dataLayer.peerDiscovery: is not supported: replicas share through the store of --peers; remove it`,
    ],
    [
      "a module without a name",
      `${HEAD}plugins: [{type: queue-scorer, module: ""}]\n`,
      `${ONE}c.yaml:3:32: plugins[0].module: name the file that defines the plugin type, or remove the key`,
    ],
    [
      "the name of a producer that is made automatically",
      `${HEAD}plugins: [{type: prefix-cache-scorer}, {type: queue-scorer, name: approx-prefix-cache-producer}]\n`,
      `${ONE}c.yaml:3:40: plugins[1]: the name approx-prefix-cache-producer belongs to the producer that Sluice creates for prefix-cache-scorer; give this scorer another name`,
    ],
    [
      "the name of a plugin that comes along with another one",
      `${HEAD}plugins: [{type: stage-handler}, {type: queue-scorer, name: stage-hook}]\nschedulingProfiles: [{name: decode, plugins: [{pluginRef: stage-hook}]}]\n`,
      `${ONE}c.yaml:3:34: plugins[1]: the name stage-hook belongs to the request-hook that Sluice adds with stage-handler; give this scorer another name`,
    ],
    [
      "S-63: unknown gate",
      `${HEAD}featureGates: [flowcontrol]\n`,
      `${ONE}c.yaml:3:16: featureGates[0]: feature gate flowcontrol is unknown or unregistered; did you mean \`flowControl\`?`,
    ],
    [
      "S-63: gate like no other",
      `${HEAD}featureGates:\n- foo=true\n`,
      `${ONE}c.yaml:4:3: featureGates[0]: feature gate foo is unknown or unregistered; the known gates are flowControl, haPopulateNonLeaderDatastore, dataLayer, prepareDataPlugins, enableLegacyMetrics`,
    ],
    [
      "S-63: gate that is neither true nor false",
      `${HEAD}featureGates: [flowControl=maybe]\n`,
      `${ONE}c.yaml:3:16: featureGates[0]: maybe is not a valid value for the feature gate flowControl; write flowControl=true or flowControl=false`,
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
      `${HEAD}plugins:\n- type: hungry-scorer\n`,
      `${ONE}c.yaml:4:3: plugins[0]: no producer for key nobody-writes-this required by plugin hungry-scorer`,
    ],
    [
      "keys of published files that a plugin does not take any more, does not take yet, or never took",
      `${HEAD}plugins:
- type: prefix-cache-scorer
  parameters: {mode: cache_tracking, lookahead: 3}
- type: decision-tree-filter
  parameters: {current: {pluginRef: low}}
- type: file-discovery
  parameters: {path: /e, period: 3s}
`,
      `invalid EndpointPickerConfig, 4 problems:
  c.yaml:5:16: plugins[0].parameters.mode: failed to create plugin prefix-cache-scorer (type: prefix-cache-scorer): now belongs to precise-prefix-cache-producer; use that producer, with indexerConfig, tokenProcessorConfig and kvEventsConfig, and remove the other keys
  c.yaml:5:38: plugins[0].parameters.lookahead: failed to create plugin prefix-cache-scorer (type: prefix-cache-scorer): unknown key \`lookahead\`; remove it; the known keys are prefixMatchInfoProducerName, matchLengthWeight
  c.yaml:7:16: plugins[1].parameters.current: failed to create plugin decision-tree-filter (type: decision-tree-filter): is not supported any more: Sluice has only the tree of v0.3; remove it
  c.yaml:9:26: plugins[2].parameters.period: failed to create plugin file-discovery (type: file-discovery): unknown key \`period\`; remove it; the known keys are path, watchFile`,
    ],
    [
      "types of releases before v1.0",
      `${HEAD}plugins:\n- type: low-queue-filter\n- type: slo-scorer\n`,
      `invalid EndpointPickerConfig, 2 problems:
  c.yaml:4:3: plugins[0].type: plugin type low-queue-filter is not supported any more: it was a step of the decision tree of v0.5; use decision-tree-filter: without parameters, it is the whole tree
  c.yaml:5:3: plugins[1].type: plugin type slo-scorer is not supported yet: its successors predicted-latency-producer and latency-scorer need the latency predictor, which Sluice does not have yet; until then, use queue-scorer, kv-cache-utilization-scorer and prefix-cache-scorer`,
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
      "weight without end",
      `${HEAD}plugins: [{type: queue-scorer}]\nschedulingProfiles:\n- name: p\n  plugins: [{pluginRef: queue-scorer, weight: .inf}]\n`,
      `${ONE}c.yaml:6:39: schedulingProfiles[0].plugins[0].weight: expected a number, got Infinity`,
    ],
    [
      "both names of the data layer",
      `${HEAD}data: {}\ndataLayer: {}\n`,
      `${ONE}c.yaml:3:1: data: the file has dataLayer and also data, its old name; merge both into dataLayer`,
    ],
    [
      "several at once, in the order of the file",
      `${HEAD}plugins:\n- type: queue-scorer\n  parameters: {depth: 1}\nfeatureGates: [foo=1, flowControl=2]\n`,
      `invalid EndpointPickerConfig, 3 problems:
  c.yaml:5:16: plugins[0].parameters.depth: failed to create plugin queue-scorer (type: queue-scorer): unknown key \`depth\`; remove it, queue-scorer has no parameters
  c.yaml:6:16: featureGates[0]: feature gate foo is unknown or unregistered; the known gates are flowControl, haPopulateNonLeaderDatastore, dataLayer, prepareDataPlugins, enableLegacyMetrics
  c.yaml:6:23: featureGates[1]: 2 is not a valid value for the feature gate flowControl; write flowControl=true or flowControl=false`,
    ],
  ])("%s", (_row, text, message) => {
    expect(messageFor(text)).toEqual(message);
  });

  it("S-64: an alpha plugin is refused unless experimental ones are allowed", () => {
    const text = `${HEAD}plugins:\n- name: cool\n  type: utilization-filter\n`;
    expect(messageFor(text, { refuseExperimental: true })).toBe(
      `${ONE}c.yaml:5:3: plugins[0].type: plugin cool is experimental; requires --allow-experimental-plugins`,
    );
    expect(messageFor(text)).toBe("accepted");
    const policy = `${HEAD}plugins:\n- type: soft-reflective-ceiling-policy\n`;
    expect(messageFor(policy, { refuseExperimental: true })).toBe(
      `${ONE}c.yaml:4:3: plugins[0].type: plugin soft-reflective-ceiling-policy is experimental; requires --allow-experimental-plugins`,
    );
    expect(messageFor(policy)).toBe("accepted");
  });

  it("says that a weight of a filter or picker has no effect, and takes the file", () => {
    const text = `${HEAD}plugins: [{type: queue-scorer}, {type: max-score-picker}]
schedulingProfiles:
- name: p
  plugins: [{pluginRef: queue-scorer, weight: 2}, {pluginRef: max-score-picker, weight: 1}]
`;
    expect(load(text).warnings).toEqual([
      "c.yaml:6:81: the weight of max-score-picker has no effect: only scorers have a weight, and this is a picker",
    ]);
  });

  it("says what has no effect, and takes the file", () => {
    const text = `${HEAD}featureGates: [dataLayer, enableLegacyMetrics=true, haPopulateNonLeaderDatastore=false, flowControl=F]
plugins:
- type: by-label-selector
- type: prefix-cache-scorer
flowControl:
  enableEviction: true
`;
    expect(load(text).warnings).toEqual([
      "c.yaml:3:16: feature gate dataLayer has no effect: this feature is always on; remove the gate",
      "c.yaml:3:27: feature gate enableLegacyMetrics has no effect: there is only one way to read metrics; remove the gate",
      "c.yaml:3:53: feature gate haPopulateNonLeaderDatastore has no effect: every replica knows all endpoints",
      'c.yaml:5:3: plugin type by-label-selector is deprecated and is now label-selector-filter; write {"name":"by-label-selector","type":"label-selector-filter"}',
      "c.yaml:8:3: without the feature gate flowControl, only saturationDetector has an effect in this section",
    ]);
  });

  it("says that policies have no effect with the gate off, and checks references with the gate on only", () => {
    const text = `${HEAD}featureGates: [flowControl=false]
plugins:
- type: queue-scorer
- {name: turns, type: round-robin-fairness-policy}
flowControl:
  maxRequests: 100
  priorityBands: [{priority: 100, fairnessPolicyRef: turns, orderingPolicyRef: fcfs-ordering-policy}]
`;
    expect(load(text).warnings).toEqual([
      "c.yaml:8:3: without the feature gate flowControl, only saturationDetector has an effect in this section",
      "c.yaml:6:3: plugin turns has no effect: without the feature gate flowControl, this file configures no queue",
    ]);
    const on = text.replace("[flowControl=false]", "[flowControl=true]");
    expect(load(on).warnings).toEqual([]);
    const nobody = text.replace("PolicyRef: turns", "PolicyRef: nobody");
    expect(messageFor(nobody)).toBe("accepted");
    expect(messageFor(nobody.replace("[flowControl=false]", "[flowControl]"))).toContain("plugin nobody not found");
  });

  it("says which policies no band names, and that the priority of a template counts for nothing", () => {
    const text = `${HEAD}featureGates: [flowControl]
plugins:
- type: queue-scorer
- {name: turns, type: round-robin-fairness-policy}
- {name: soon, type: edf-ordering-policy}
- {name: half, type: static-usage-limit-policy, parameters: {threshold: 0.5}}
flowControl:
  defaultPriorityBand: {priority: 3}
`;
    expect(load(text).warnings).toEqual([
      "c.yaml:10:25: the priority of defaultPriorityBand has no effect: this band is for all priorities that have no own band",
      "c.yaml:6:3: plugin turns has no effect: name it in flowControl, as the fairnessPolicyRef of a band",
      "c.yaml:7:3: plugin soon has no effect: name it in flowControl, as the orderingPolicyRef of a band",
      "c.yaml:8:3: plugin half has no effect: name it in flowControl.usageLimitPolicyPluginRef",
    ]);
  });

  it("takes plugins for eviction, as published files list them, and says that they have no effect", () => {
    const text = `${HEAD}plugins:
- type: queue-scorer
- type: sheddable-eviction-filter
- {name: order, type: eviction-priority-then-time-ordering}
schedulingProfiles:
- {name: p, plugins: [{pluginRef: queue-scorer}, {pluginRef: order}]}
`;
    expect(load(text).warnings).toEqual([
      "c.yaml:5:3: plugin sheddable-eviction-filter has no effect: with flowControl.enableEviction, flow control evicts requests of negative priority: the lowest priority first, then the newest",
      "c.yaml:6:3: plugin order has no effect: with flowControl.enableEviction, flow control evicts requests of negative priority: the lowest priority first, then the newest",
      "c.yaml:8:51: schedulingProfiles[p] lists order, which has no effect",
    ]);
    expect(messageFor(`${HEAD}plugins: [{type: sheddable-eviction-filter, parameters: {below: -5}}]\n`)).toBe(
      `${ONE}c.yaml:3:58: plugins[0].parameters.below: failed to create plugin sheddable-eviction-filter (type: sheddable-eviction-filter): unknown key \`below\`; remove it, sheddable-eviction-filter has no parameters`,
    );
    expect(messageFor(text, { refuseExperimental: true })).toContain(
      "plugin sheddable-eviction-filter is experimental",
    );
    const twice = `${HEAD}plugins: [{name: e, type: eviction-sheddable-filter}, {name: e, type: queue-scorer}]\n`;
    expect(messageFor(twice)).toBe(`${ONE}c.yaml:3:55: plugins[1]: duplicate plugin name e`);
  });

  it("bounds the list of priority bands", () => {
    const bands = Array.from({ length: 513 }, (_, priority) => `{priority: ${priority}}`).join();
    expect(messageFor(`${HEAD}flowControl: {priorityBands: [${bands}]}\n`)).toBe(
      `${ONE}c.yaml:3:15: flowControl.priorityBands: at most 512 priority bands can be configured`,
    );
  });
});
