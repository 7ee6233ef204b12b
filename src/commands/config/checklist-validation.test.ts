import { execFileSync } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";

// The table of scheduling 4.4, row by row, as `sluice validate` answers with the plugin types there are: every message begins
// with file, line and column of what is wrong, and names it. `§` stands before the place that has to be told.

interface Row {
  readonly text: string;
  /** What the message names, besides the gist. */
  readonly says: readonly string[];
  readonly allowExperimental?: boolean;
}

const HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n";
const SCORER = "plugins: [{type: queue-scorer}]\n";

/** What a user's own module defines: producers that need each other, and a scorer that needs what nobody writes. */
const MODULE = `
import { attributeKey, columnKey, defineProducer, defineScorer } from "sluice/plugin";
const [left, right, none] = [columnKey("left"), columnKey("right"), columnKey("nowhere")];
const producer = (type, produces, requires) =>
  defineProducer({ type, describe: "d", produces, requires, create: () => ({ produce() {} }) });
export const one = producer("left-producer", [left], [right]);
export const two = producer("right-producer", [right], [left]);
export const three = defineScorer({ type: "hungry-scorer", describe: "d", requires: [none], create: () => ({ score() {} }) });
`;

const ROWS: Readonly<Record<string, Row>> = {
  "undecodable YAML": { text: `${HEAD}plugins: §[{type: queue-scorer}\n`, says: ["not closed"] },
  "undecodable JSON": {
    text: '{"apiVersion": "llm-d.ai/v1alpha1",\n  "kind" §"EndpointPickerConfig"}',
    says: ["a `:` is missing"],
  },
  "unknown field at the top": {
    text: `${HEAD}§schedulingProfile: []\n`,
    says: ["`schedulingProfile`", "`schedulingProfiles`"],
  },
  "unknown field of a plugin": {
    text: `${HEAD}plugins:\n- type: queue-scorer\n  §paramters: {}\n`,
    says: ["`paramters`", "`parameters`"],
  },
  "unknown field of a profile": {
    text: `${HEAD}${SCORER}schedulingProfiles:\n- name: p\n  §plugin: []\n`,
    says: ["`plugin`", "`plugins`"],
  },
  "wrong type of a field": { text: `${HEAD}§plugins: {type: queue-scorer}\n`, says: ["plugins", "expected a list"] },
  "wrong kind": { text: "apiVersion: llm-d.ai/v1alpha1\n§kind: InferencePool\n", says: ["InferencePool"] },
  "wrong group": { text: "§apiVersion: llmd.ai/v1alpha1\nkind: EndpointPickerConfig\n", says: ["llmd.ai/v1alpha1"] },
  "wrong version": { text: "§apiVersion: llm-d.ai/v2\nkind: EndpointPickerConfig\n", says: ["llm-d.ai/v2"] },
  "plugin without type": { text: `${HEAD}plugins:\n- §name: mine\n`, says: ["missing a type"] },
  "duplicate plugin name": {
    text: `${HEAD}plugins:\n- {name: x, type: queue-scorer}\n- §{name: x, type: max-score-picker}\n`,
    says: ["duplicate plugin name x"],
  },
  "type not registered": {
    text: `${HEAD}plugins:\n- name: q\n  §type: queue-scorerr\n`,
    says: ["plugin type queue-scorerr is not registered", "`queue-scorer`"],
  },
  "alpha plugin without flag": {
    text: `${HEAD}plugins:\n- name: sticky\n  §type: session-affinity-filter\n`,
    says: ["plugin sticky is experimental", "--allow-experimental-plugins"],
    allowExperimental: false,
  },
  "unknown parameter": {
    text: `${HEAD}plugins:\n- {name: h, type: active-request-scorer, parameters: {§idleTreshold: 1}}\n`,
    says: ["failed to create plugin h (type: active-request-scorer)", "`idleTreshold`", "`idleThreshold`"],
  },
  "parameter of the wrong type": {
    text: `${HEAD}plugins:\n- type: token-load-scorer\n  parameters: {§queueThresholdTokens: many}\n`,
    says: ["failed to create plugin token-load-scorer (type: token-load-scorer)", '"many"'],
  },
  "parameter out of range": {
    text: `${HEAD}plugins:\n- type: utilization-detector\n  parameters: {§kvCacheUtilThreshold: 80}\n`,
    says: ["utilization-detector", "kvCacheUtilThreshold must be greater than 0 and at most 1"],
  },
  "parameters that contradict each other": {
    text: `${HEAD}plugins:\n- type: approx-prefix-cache-producer\n  parameters: {autoTune: false, §blockSizeTokens: 0}\n`,
    says: ["approx-prefix-cache-producer", "blockSizeTokens must be greater than 0 when autoTune is false"],
  },
  "reference cycle between plugins": {
    text: `${HEAD}plugins:\n- §{name: l, type: left-producer, module: ./own.js}\n- {name: r, type: right-producer, module: ./own.js}\n`,
    says: ["dependency cycle", "l -> r -> l"],
  },
  "reference to an unknown plugin from parameters": {
    text: `${HEAD}plugins:\n- {type: decode-filter}\n- {type: disagg-profile-handler, parameters: {deciders: {§prefill: prefix-based}}}\nschedulingProfiles: [{name: decode, plugins: [{pluginRef: decode-filter}]}]\n`,
    says: ["plugin disagg-profile-handler has a dependency on the unregistered plugin prefix-based"],
  },
  "reference to an unknown producer": {
    text: `${HEAD}plugins:\n- {type: prefix-cache-scorer, parameters: {§prefixMatchInfoProducerName: idx}}\n`,
    says: ["plugin prefix-cache-scorer has a dependency on the unregistered plugin idx"],
  },
  "profile without name": {
    text: `${HEAD}${SCORER}schedulingProfiles:\n- §plugins: [{pluginRef: queue-scorer}]\n`,
    says: ["schedulingProfiles[0]", "missing a name"],
  },
  "duplicate profile name": {
    text: `${HEAD}plugins: [{type: queue-scorer}, {type: header-profile-handler}]\nschedulingProfiles:\n- name: a\n- §name: a\n`,
    says: ["duplicate name a"],
  },
  "pluginRef empty": {
    text: `${HEAD}${SCORER}schedulingProfiles:\n- name: p\n  plugins:\n  - §pluginRef: ""\n`,
    says: ["schedulingProfiles[0].plugins[0]", "missing a pluginRef"],
  },
  "pluginRef missing": {
    text: `${HEAD}${SCORER}schedulingProfiles:\n- name: p\n  plugins:\n  - §weight: 2\n`,
    says: ["schedulingProfiles[0].plugins[0]", "missing a pluginRef"],
  },
  "pluginRef undefined": {
    text: `${HEAD}${SCORER}schedulingProfiles:\n- name: p\n  plugins:\n  - {weight: 2, §pluginRef: queue}\n`,
    says: ["schedulingProfiles[p] references undefined plugin queue"],
  },
  "data source undefined": {
    text: `${HEAD}${SCORER}dataLayer:\n  sources:\n  - §pluginRef: vllm-source\n`,
    says: ["the plugin vllm-source is not registered"],
  },
  "data source of the wrong kind": {
    text: `${HEAD}${SCORER}dataLayer:\n  sources:\n  - §pluginRef: queue-scorer\n`,
    says: ["the plugin queue-scorer is not a data source"],
  },
  "extractor undefined": {
    text: `${HEAD}plugins: [{type: metrics-data-source}]\ndataLayer:\n  sources:\n  - pluginRef: metrics-data-source\n    extractors:\n    - §pluginRef: page-reader\n`,
    says: ["the plugin page-reader is not registered"],
  },
  "extractor of the wrong kind": {
    text: `${HEAD}plugins: [{type: metrics-data-source}, {type: queue-scorer}]\ndataLayer:\n  sources:\n  - pluginRef: metrics-data-source\n    extractors:\n    - §pluginRef: queue-scorer\n`,
    says: ["the plugin queue-scorer is not an extractor"],
  },
  "parser undefined": {
    text: `${HEAD}${SCORER}requestHandler:\n  parsers:\n  - §pluginRef: my-parser\n`,
    says: ["references undefined plugin my-parser"],
  },
  "parser of the wrong kind": {
    text: `${HEAD}${SCORER}parser:\n  §pluginRef: queue-scorer\n`,
    says: ["the plugin queue-scorer is not a parser plugin"],
  },
  "two pickers in a profile": {
    text: `${HEAD}plugins: [{type: random-picker}, {type: max-score-picker}]\nschedulingProfiles:\n- name: p\n  plugins:\n  - pluginRef: random-picker\n  - §pluginRef: max-score-picker\n`,
    says: ["schedulingProfiles[p]", "already has a registered picker plugin"],
  },
  "no profile handler with two profiles": {
    text: `${HEAD}${SCORER}schedulingProfiles:\n- name: a\n- §name: b\n`,
    says: ["no profile handler configured"],
  },
  "more than one profile handler": {
    text: `${HEAD}plugins:\n- {name: one, type: header-profile-handler}\n- §{name: two, type: header-profile-handler}\n`,
    says: ["multiple profile handlers found", "one and two"],
  },
  "single-profile-handler with two profiles": {
    text: `${HEAD}plugins:\n- §type: single-profile-handler\nschedulingProfiles:\n- name: a\n- name: b\n`,
    says: ["SingleProfileHandler cannot support multiple scheduling profiles"],
  },
  "unknown gate": {
    text: `${HEAD}featureGates:\n- haPopulateNonLeaderDatastore\n- §telepathy\n`,
    says: ["feature gate telepathy is unknown or unregistered"],
  },
  "gate value not boolean": {
    text: `${HEAD}featureGates: [§flowControl=perhaps]\n`,
    says: ["perhaps is not a valid value for the feature gate flowControl"],
  },
  "saturation detector reference empty": {
    text: `${HEAD}flowControl:\n  saturationDetector:\n    §pluginRef: ""\n`,
    says: ["saturation detector plugin reference is empty"],
  },
  "saturation detector undefined": {
    text: `${HEAD}flowControl:\n  saturationDetector:\n    §pluginRef: by-load\n`,
    says: ["references undefined plugin by-load"],
  },
  "saturation detector of the wrong kind": {
    text: `${HEAD}${SCORER}flowControl:\n  saturationDetector:\n    §pluginRef: queue-scorer\n`,
    says: ["plugin queue-scorer is not a SaturationDetector"],
  },
  "band policy not found": {
    text: `${HEAD}featureGates: [flowControl]\nflowControl:\n  priorityBands:\n  - {priority: 1, §fairnessPolicyRef: fair}\n`,
    says: ["plugin fair not found"],
  },
  "band policy of the wrong kind": {
    text: `${HEAD}featureGates: [flowControl]\n${SCORER}flowControl:\n  priorityBands:\n  - {priority: 1, §orderingPolicyRef: queue-scorer}\n`,
    says: ["plugin queue-scorer does not implement the policy interface"],
  },
  "usage-limit policy not found": {
    text: `${HEAD}featureGates: [flowControl]\nflowControl:\n  §usageLimitPolicyPluginRef: half\n`,
    says: ["plugin half not found"],
  },
  "usage-limit policy of the wrong kind": {
    text: `${HEAD}featureGates: [flowControl]\n${SCORER}flowControl:\n  §usageLimitPolicyPluginRef: queue-scorer\n`,
    says: ["plugin queue-scorer does not implement the policy interface"],
  },
  "parameter of a policy that is missing": {
    text: `${HEAD}plugins:\n- §{name: h, type: priority-holdback-policy}\n`,
    says: ["failed to create plugin h (type: priority-holdback-policy)", "minCeiling is required"],
  },
  "ceilings in the wrong order": {
    text: `${HEAD}plugins:\n- {type: priority-holdback-policy, parameters: {§minCeiling: 0.9, maxCeiling: 0.5}}\n`,
    says: ["minCeiling 0.9 must be less than maxCeiling 0.5"],
  },
  "ceiling out of range": {
    text: `${HEAD}plugins:\n- {type: priority-holdback-policy, parameters: {§minCeiling: 1}}\n`,
    says: ["minCeiling must be at least 0 and less than 1"],
  },
  "strategy of fairness that is not there": {
    text: `${HEAD}plugins:\n- {type: program-aware-fairness, parameters: {§strategy: turn-priority}}\n`,
    says: ["strategy turn-priority is not supported yet"],
  },
  "negative quantity": {
    text: `${HEAD}flowControl:\n  priorityBands:\n  - {priority: 1, §maxRequests: -3}\n`,
    says: ["maxRequests", "must be non-negative", "-3"],
  },
  "negative duration": {
    text: `${HEAD}flowControl:\n  §defaultRequestTTL: -1s\n`,
    says: ["defaultRequestTTL", "-1s"],
  },
  "duplicate band priority": {
    text: `${HEAD}flowControl:\n  priorityBands:\n  - {priority: 7}\n  - {§priority: 7}\n`,
    says: ["duplicate priority level 7"],
  },
  "required data key without producer": {
    text: `${HEAD}plugins:\n- {type: queue-scorer}\n- §{type: hungry-scorer, module: ./own.js}\n`,
    says: ["no producer for key nowhere required by plugin hungry-scorer"],
  },
  "weight below 0": {
    text: `${HEAD}${SCORER}schedulingProfiles:\n- name: p\n  plugins:\n  - {pluginRef: queue-scorer, §weight: -1}\n`,
    says: ["weight must not be negative"],
  },
  "weight that is no number": {
    text: `${HEAD}${SCORER}schedulingProfiles:\n- name: p\n  plugins:\n  - {pluginRef: queue-scorer, §weight: .nan}\n`,
    says: ["weight"],
  },
};

/** What is taken, though it may look wrong, and how the summary begins. */
const ACCEPTED: Readonly<Record<string, { readonly text: string; readonly summary: string; readonly warns?: string }>> =
  {
    "S-60: the older group": {
      text: `apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: EndpointPickerConfig\n${SCORER}`,
      summary: "profile default: queue-scorer x 1, max-score-picker",
      warns: "deprecated",
    },
    "S-61: no picker is max-score-picker, no profile is `default`, one profile needs no handler": {
      text: `${HEAD}plugins: [{type: queue-scorer}, {type: kv-cache-utilization-scorer}, {type: by-label-selector}]\n`,
      summary:
        "profile default: queue-scorer x 1, kv-cache-utilization-scorer x 1, by-label-selector, max-score-picker",
    },
    "S-63: flowControl=false switches the section off, whatever it refers to": {
      text: `${HEAD}featureGates: [flowControl=false]\n${SCORER}flowControl: {usageLimitPolicyPluginRef: nobody}\n`,
      summary: "profile default: queue-scorer x 1",
      warns: "without the feature gate flowControl, only saturationDetector has an effect in this section",
    },
    "S-63: flowControl=true, without a section": {
      text: `${HEAD}featureGates: [flowControl=true]\n${SCORER}`,
      summary: "flow control; 1 plugin, ",
    },
    "flow control with bands": {
      text: `${HEAD}featureGates: [flowControl]\n${SCORER}flowControl: {priorityBands: [{priority: -5}, {priority: 10}]}\n`,
      summary: "flow control, bands 10, -5; 1 plugin, ",
    },
    "S-64: an alpha plugin with the flag": {
      text: `${HEAD}plugins: [{type: session-affinity-filter}, {type: queue-scorer}]\n`,
      summary: "profile default: session-affinity-filter, queue-scorer x 1",
    },
    "S-67: weight 1.5 is 1.5, none is 1, 0 is 0": {
      text: `${HEAD}plugins: [{type: queue-scorer}, {type: running-requests-size-scorer}, {type: load-aware-scorer}]
schedulingProfiles:
- name: p
  plugins: [{pluginRef: queue-scorer, weight: 1.5}, {pluginRef: running-requests-size-scorer}, {pluginRef: load-aware-scorer, weight: 0}]
`,
      summary:
        "profile p: queue-scorer x 1.5, running-requests-size-scorer x 1, load-aware-scorer x 0, max-score-picker",
    },
  };

interface Verdict {
  readonly summary?: string;
  readonly error?: { readonly message: string };
  readonly warnings: readonly string[];
}

/** Runs in Node as it is, which imports users' modules otherwise than the test runner does. One process for all rows. */
const RUNNER = `
import { readFileSync, writeFileSync } from "node:fs";
const { root, cases } = JSON.parse(readFileSync(0, "utf8"));
const { validateConfig } = await import(root + "config-tools.ts");
const verdicts = {};
for (const [name, { file, allowExperimental }] of Object.entries(cases))
  verdicts[name] = await validateConfig({ file, allowExperimental, stdin: [] });
process.stdout.write(JSON.stringify(verdicts));
`;

const folder = mkdtempSync(join(tmpdir(), "sluice-validation-"));
let verdicts: Record<string, Verdict>;

beforeAll(() => {
  writeFileSync(join(folder, "own.js"), MODULE);
  const cases: Record<string, { file: string; allowExperimental: boolean }> = {};
  for (const [i, [name, row]] of Object.entries({ ...ROWS, ...ACCEPTED }).entries()) {
    const file = join(folder, `c${i}.yaml`);
    writeFileSync(file, row.text.replace("§", ""));
    cases[name] = { file, allowExperimental: (row as Row).allowExperimental ?? true };
  }
  const root = new URL(".", import.meta.url).href;
  const input = JSON.stringify({ root, cases });
  const out = execFileSync(process.execPath, ["--input-type=module", "--eval", RUNNER], { input, encoding: "utf8" });
  verdicts = JSON.parse(out);
});

describe("S-60: every row of 4.4 is refused, with the place and the thing", () => {
  it.each(Object.keys(ROWS))("%s", (name) => {
    const { text, says } = ROWS[name]!;
    const error = verdicts[name]!.error?.message ?? "accepted";
    const before = text.slice(0, text.indexOf("§")).split("\n");
    const place = `${before.length}:${before.at(-1)!.length + 1}`;
    expect(error).toMatch(new RegExp(`(^|: |\\n {2})${folder}/c\\d+\\.yaml:${place}: `));
    for (const part of says) expect(error).toContain(part);
    // One mistake is one problem.
    const places = error.match(new RegExp(`${folder}/c\\d+\\.yaml:\\d+:\\d+: `, "g")) ?? [];
    expect(places).toHaveLength(1);
  });

  it("has a place in every row", () => {
    for (const { text } of Object.values(ROWS)) expect(text.split("§")).toHaveLength(2);
  });
});

describe("what is taken", () => {
  it.each(Object.keys(ACCEPTED))("%s", (name) => {
    const { summary, warns } = ACCEPTED[name]!;
    const verdict = verdicts[name]!;
    expect(verdict.error).toBeUndefined();
    expect(verdict.summary).toContain(summary);
    if (warns !== undefined) expect(verdict.warnings.join("\n")).toContain(warns);
  });
});
