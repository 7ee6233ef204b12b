import { describe, expect, it } from "vitest";
import { DEFINITIONS, HEAD, load, members, problemsOf, REGISTRY } from "../../../test/support/config/fakes.cases.ts";
import { PluginRegistry } from "../../base/plugin/registry.ts";
import { DEFAULT_CONFIG } from "./defaults.ts";
import { effectiveSummary } from "./effective.ts";
import { loadConfig } from "./load.ts";

const namesOf = (config: ReturnType<typeof load>) => config.profiles[0]!.plugins.map(({ name }) => name);

const DEFAULT_MEMBERS = [
  ["queue-scorer", "queue-scorer", 1],
  ["kv-cache-utilization-scorer", "kv-cache-utilization-scorer", 1],
  ["prefix-cache-scorer", "prefix-cache-scorer", 3],
  ["lora-affinity-scorer", "lora-affinity-scorer", 4],
  ["active-request-scorer", "active-request-scorer", 3],
  ["token-load-scorer", "token-load-scorer", 64],
  ["max-score-picker", "max-score-picker", 1],
];

describe("loadConfig", () => {
  it("without a file is the built-in profile, and the same text as a file is the same (S-62)", () => {
    const config = loadConfig(undefined, REGISTRY);
    expect(config.profiles[0]?.name).toBe("default");
    expect(members(config)).toEqual(DEFAULT_MEMBERS);
    expect(config).toMatchObject({
      source: "built-in configuration",
      producers: [],
      discovery: undefined,
      parsers: [],
      hooks: [],
      warnings: [],
    });
    expect(config.detector).toMatchObject({ name: "utilization-detector", parameters: { queueDepthThreshold: 5 } });
    expect(members(load(DEFAULT_CONFIG))).toEqual(members(config));
  });

  it("takes exactly what a profile names, in its order (S-60, S-66, S-67)", () => {
    const config = load(`${HEAD}
plugins:
- {name: index, type: approx-prefix-cache-producer, parameters: {blockSizeTokens: 128}}
- {name: sticky, type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: index}}
- type: queue-scorer
- type: max-score-picker
  parameters: {maxNumOfEndpoints: 2}
- type: single-profile-handler
schedulingProfiles:
- name: main
  plugins:
  - {pluginRef: max-score-picker}
  - {pluginRef: sticky, weight: 1.5}
  - pluginRef: queue-scorer
`);
    expect(config.profiles[0]?.name).toBe("main");
    expect(members(config)).toEqual([
      ["max-score-picker", "max-score-picker", 1],
      ["sticky", "prefix-cache-scorer", 1.5],
      ["queue-scorer", "queue-scorer", 1],
    ]);
    expect(config.profiles[0]?.plugins[0]?.parameters).toEqual({ maxNumOfEndpoints: 2 });
    expect(config.producers).toMatchObject([{ name: "index", parameters: { blockSizeTokens: 128 } }]);
    expect(config.warnings).toEqual([]);
  });

  it("reads JSON and the older group, with a warning of its deprecation (S-60)", () => {
    const config = load(
      '{"apiVersion": "inference.networking.x-k8s.io/v1alpha1",\n "kind": "EndpointPickerConfig", "plugins": [{"type": "queue-scorer"}]}',
    );
    expect(members(config)).toEqual([
      ["queue-scorer", "queue-scorer", 1],
      ["max-score-picker", "max-score-picker", 1],
    ]);
    expect(config.warnings).toEqual([
      "c.yaml:1:2: apiVersion inference.networking.x-k8s.io/v1alpha1 is deprecated; write llm-d.ai/v1alpha1",
    ]);
  });

  it("reads v1, where the discovery of endpoints stands beside that of replicas (S-60)", () => {
    const v1 = "apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\n";
    const plugins =
      "plugins: [{type: file-discovery, parameters: {path: a}}, {name: b, type: file-discovery, parameters: {path: b}}]\n";
    const config = load(
      `${v1}${plugins}dataLayer: {discovery: {endpoints: {pluginRef: b}, peers: {}}, crossReplica: {}}\nrequestHandler: {propagatePriority: false}\n`,
    );
    expect(config.discovery).toMatchObject({ name: "b" });
    expect(config.warnings).toEqual([
      "c.yaml:3:11: plugin file-discovery has no effect: name it in dataLayer.discovery.pluginRef",
    ]);
    // Both places, in either version: the newer one counts.
    for (const head of [v1, HEAD])
      expect(
        load(`${head}${plugins}dataLayer: {discovery: {pluginRef: file-discovery, endpoints: {pluginRef: b}}}`)
          .discovery,
      ).toMatchObject({ name: "b" });
    expect(problemsOf(`${v1}${plugins}dataLayer:\n  discovery: {endpoints: {pluginRef: bb}}\n`)).toEqual([
      "c.yaml:5:27: dataLayer.discovery.endpoints.pluginRef: dataLayer.discovery references undefined plugin bb; did you mean `b`?",
    ]);
    expect(
      problemsOf(
        `${v1}dataLayer:\n  discovery: {peers: {pluginRef: p}}\n  crossReplica: {syncInterval: 1s}\nrequestHandler: {propagatePriority: true}\n`,
      ),
    ).toEqual([
      "c.yaml:4:15: dataLayer.discovery.peers: is not supported: replicas share through the store of --peers; remove it",
      "c.yaml:5:3: dataLayer.crossReplica: is not supported: replicas share through the store of --peers; remove it",
      "c.yaml:6:18: requestHandler.propagatePriority: is not supported yet: model servers do not receive the priority of a request; remove it",
    ]);
  });

  it("makes the profile `default` of every configured filter, scorer and picker when there are no profiles (S-61)", () => {
    const config = load(
      `${HEAD}plugins: [{type: round-robin-picker}, {type: label-selector-filter}, {type: queue-scorer}, {type: approx-prefix-cache-producer}]`,
    );
    expect(config.profiles[0]?.name).toBe("default");
    expect(namesOf(config)).toEqual(["round-robin-picker", "label-selector-filter", "queue-scorer"]);
  });

  it("gives a profile without a picker the first one configured, else max-score-picker (S-61)", () => {
    const profiles = "schedulingProfiles: [{name: p, plugins: [{pluginRef: queue-scorer}]}]";
    expect(
      namesOf(load(`${HEAD}plugins: [{type: queue-scorer}, {type: round-robin-picker}]\n${profiles}`)).at(-1),
    ).toBe("round-robin-picker");
    expect(namesOf(load(`${HEAD}plugins: [{type: queue-scorer}]\n${profiles}`)).at(-1)).toBe("max-score-picker");
  });

  it("keeps the built-in profile for a file that says nothing about scheduling", () => {
    const config = load(
      `${HEAD}plugins: [{type: file-discovery, parameters: {path: e.yaml}}]\ndataLayer: {discovery: {pluginRef: file-discovery}}`,
    );
    expect(members(config)).toEqual(DEFAULT_MEMBERS);
    expect(config.discovery?.parameters).toEqual({ path: "e.yaml", watchFile: false });
    expect(members(load(HEAD))).toEqual(DEFAULT_MEMBERS);
  });

  it("finds the saturation detector in either place, flowControl first", () => {
    const plugins = `plugins:
- {name: a, type: utilization-detector, parameters: {queueDepthThreshold: 7}}
- {name: b, type: utilization-detector, parameters: {queueDepthThreshold: 9}}\n`;
    const old = load(`${HEAD}${plugins}saturationDetector: {pluginRef: a}`);
    expect(old.detector.parameters).toEqual({ queueDepthThreshold: 7 });
    expect(old.warnings).toEqual([
      "c.yaml:6:1: saturationDetector is deprecated here; move it to flowControl.saturationDetector",
      "c.yaml:5:3: plugin b has no effect: name it in flowControl.saturationDetector.pluginRef",
    ]);
    const both = load(
      `${HEAD}${plugins}saturationDetector: {pluginRef: a}\nflowControl: {saturationDetector: {pluginRef: b}}`,
    );
    expect(both.detector.parameters).toEqual({ queueDepthThreshold: 9 });
    expect(both.warnings[0]).toBe(
      "c.yaml:6:1: saturationDetector has no effect: flowControl.saturationDetector overrides it",
    );
  });

  it("uses a configured utilization-detector though nothing refers to it", () => {
    const config = load(`${HEAD}plugins: [{type: utilization-detector, parameters: {queueDepthThreshold: 8}}]`);
    expect(config.detector.parameters).toEqual({ queueDepthThreshold: 8 });
    expect(config.warnings).toEqual([]);
  });

  it("lets a parameter name the producer that is made with its defaults", () => {
    const text = `${HEAD}plugins: [{type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: approx-prefix-cache-producer}}]`;
    expect(load(text).producers).toEqual([]);
  });

  it("takes several parsers by requestHandler, in their order (E-112)", () => {
    const config = load(`${HEAD}plugins:
- type: openai-parser
- {name: rest, type: passthrough-parser}
requestHandler:
  parsers:
  - pluginRef: rest
  - pluginRef: openai-parser
`);
    expect(config.parsers.map(({ name, definition }) => [name, definition.type])).toEqual([
      ["rest", "passthrough-parser"],
      ["openai-parser", "openai-parser"],
    ]);
    expect(config.warnings).toEqual([]);
    expect(members(config)).toEqual(DEFAULT_MEMBERS);
    expect(effectiveSummary(config)).toMatchObject({ parsers: ["rest (passthrough-parser)", "openai-parser"] });
  });

  it("takes parsers by their type, and the usual detector, where plugins has no entry of them (S-61)", () => {
    const listed = load(`${HEAD}requestHandler: {parsers: [{pluginRef: passthrough-parser}]}`);
    expect(listed.parsers).toMatchObject([{ name: "passthrough-parser", parameters: {} }]);
    expect(load(`${HEAD}parser: {pluginRef: openai-parser}`).parsers.map(({ name }) => name)).toEqual([
      "openai-parser",
    ]);
    const { detector, warnings } = load(`${HEAD}flowControl: {saturationDetector: {pluginRef: utilization-detector}}`);
    expect(detector).toMatchObject({ name: "utilization-detector", parameters: { queueDepthThreshold: 5 } });
    expect(warnings).toEqual([]);
    // A name that an entry has given to something else means that.
    expect(
      problemsOf(`${HEAD}plugins: [{name: openai-parser, type: cost-hook}]\nparser: {pluginRef: openai-parser}`),
    ).toEqual(["c.yaml:4:10: parser.pluginRef: the plugin openai-parser is not a parser plugin but a request-hook"]);
    expect(
      problemsOf(`${HEAD}requestHandler: {parsers: [{pluginRef: openai-parser}, {pluginRef: openai-parser}]}`),
    ).toEqual([
      "c.yaml:3:57: requestHandler.parsers[1].pluginRef: requestHandler.parsers lists openai-parser twice; keep one",
    ]);
  });

  it("takes the one parser of v1.5 and says where it belongs now (E-112)", () => {
    const config = load(`${HEAD}plugins: [{type: passthrough-parser}]\nparser: {pluginRef: passthrough-parser}`);
    expect(config.parsers.map(({ name }) => name)).toEqual(["passthrough-parser"]);
    expect(config.warnings).toEqual(["c.yaml:4:1: parser is deprecated; move it to requestHandler.parsers"]);
  });

  it("lets requestHandler.parsers win over parser, and an empty list choose nothing (E-112)", () => {
    const plugins =
      "plugins: [{type: openai-parser}, {type: passthrough-parser}]\nparser: {pluginRef: openai-parser}\n";
    const both = load(`${HEAD}${plugins}requestHandler: {parsers: [{pluginRef: passthrough-parser}]}`);
    expect(both.parsers.map(({ name }) => name)).toEqual(["passthrough-parser"]);
    expect(both.warnings).toEqual([
      "c.yaml:4:1: parser has no effect: requestHandler.parsers overrides it",
      "c.yaml:3:11: plugin openai-parser has no effect: name it in requestHandler.parsers",
    ]);
    expect(load(`${HEAD}${plugins}requestHandler: {parsers: []}`).parsers.map(({ name }) => name)).toEqual([
      "openai-parser",
    ]);
    expect(load(`${HEAD}requestHandler: {parsers: []}`).parsers).toEqual([]);
  });

  it("takes a parameter that is null, as templates leave it, for one that is not there", () => {
    const config = load(`${HEAD}plugins:
- {type: max-score-picker, parameters: {maxNumOfEndpoints: }}
- {type: approx-prefix-cache-producer, parameters: {blockSizeTokens: null}}
- {type: prefix-cache-scorer, parameters: {matchLengthWeight: ~, prefixMatchInfoProducerName: null}}
- type: stage-handler
  parameters: {profiles: {decode: null}, deciders: null}
schedulingProfiles:
- {name: decode, plugins: [{pluginRef: prefix-cache-scorer, weight: null}]}
`);
    expect(config.configured.map(({ parameters }) => parameters)).toEqual([
      { maxNumOfEndpoints: 1 },
      { blockSizeTokens: 16 },
      { matchLengthWeight: 0 },
      { profiles: { decode: "decode" } },
    ]);
    expect(
      problemsOf(
        `${HEAD}plugins:\n- {type: file-discovery, parameters: {path: , paht: }}\n- {type: max-score-picker, parameters: {maxNumOfEndpoints: "", more: null}}\n`,
      ),
    ).toEqual([
      "c.yaml:4:39: plugins[0].parameters.path: failed to create plugin file-discovery (type: file-discovery): is missing (a string)",
      "c.yaml:4:47: plugins[0].parameters.paht: failed to create plugin file-discovery (type: file-discovery): unknown key `paht`; did you mean `path`?",
      'c.yaml:5:41: plugins[1].parameters.maxNumOfEndpoints: failed to create plugin max-score-picker (type: max-score-picker): expected a number, got the string ""',
      "c.yaml:5:64: plugins[1].parameters.more: failed to create plugin max-score-picker (type: max-score-picker): unknown key `more`; remove it; the known keys are maxNumOfEndpoints",
    ]);
  });

  it("puts every configured hook to work, in the order of the file", () => {
    const config = load(
      `${HEAD}plugins: [{name: second, type: cost-hook, parameters: {factor: 2}}, {type: queue-scorer}, {type: cost-hook}]`,
    );
    expect(config.hooks.map(({ name, parameters }) => [name, parameters])).toEqual([
      ["second", { factor: 2 }],
      ["cost-hook", { factor: 1 }],
    ]);
    expect(namesOf(config)).toEqual(["queue-scorer", "max-score-picker"]);
    expect(config.warnings).toEqual([]);
    expect(effectiveSummary(config)).toMatchObject({ hooks: ["second (cost-hook)", "cost-hook"] });
  });

  it("lets parsers and hooks stand in a profile, as published configurations have them, and says it is in vain", () => {
    const config = load(`${HEAD}plugins: [{type: openai-parser}, {type: cost-hook}]
schedulingProfiles:
- name: default
  plugins: [{pluginRef: openai-parser}, {pluginRef: cost-hook}]
requestHandler: {parsers: [{pluginRef: openai-parser}]}
`);
    expect(members(config)).toEqual([["max-score-picker", "max-score-picker", 1]]);
    expect(config.hooks.map(({ name }) => name)).toEqual(["cost-hook"]);
    expect(config.warnings).toEqual([
      "c.yaml:6:14: schedulingProfiles[default] lists openai-parser, which has no effect here: name it in requestHandler.parsers",
      "c.yaml:6:42: schedulingProfiles[default] lists cost-hook, which has no effect here: a hook needs no place in a profile",
      "c.yaml:5:3: without a scorer, max-score-picker picks at random; add scorers, such as queue-scorer and prefix-cache-scorer",
    ]);
  });

  it("names the configured plugins that have no effect", () => {
    const config = load(
      `${HEAD}plugins:\n- type: queue-scorer\n- {type: file-discovery, parameters: {path: x}}\n- type: active-request-scorer\nschedulingProfiles: [{name: p, plugins: [{pluginRef: queue-scorer}]}]`,
    );
    expect(config.warnings).toEqual([
      "c.yaml:5:3: plugin file-discovery has no effect: name it in dataLayer.discovery.pluginRef",
      "c.yaml:6:3: plugin active-request-scorer has no effect: no profile refers to it",
    ]);
  });

  it("warns that nothing is scored, as where a file names the picker alone", () => {
    const text =
      "without a scorer, max-score-picker picks at random; add scorers, such as queue-scorer and prefix-cache-scorer";
    expect(load(`${HEAD}plugins: [{type: max-score-picker}]`).warnings).toEqual([`c.yaml:3:1: ${text}`]);
    const profile = "schedulingProfiles: [{name: p, plugins: [{pluginRef: label-selector-filter}]}]";
    expect(load(`${HEAD}plugins: [{type: label-selector-filter}]\n${profile}`).warnings).toEqual([
      `c.yaml:4:22: ${text}`,
    ]);
    expect(load(`${HEAD}plugins: [{type: round-robin-picker}]`).warnings).toEqual([]);
  });

  it("takes published sections that ask for nothing", () => {
    expect(() =>
      load(
        `${HEAD}featureGates: []\nflowControl:\ndataLayer: {}\nparser:\nrequestHandler: {}\nplugins:\nschedulingProfiles: []`,
      ),
    ).not.toThrow();
  });
});

describe("what loadConfig refuses, with file, line and column (S-60, S-61, scheduling 4.4)", () => {
  it.each([
    [
      "",
      ["c.yaml:1:1: the file is empty; begin it with `apiVersion: llm-d.ai/v1alpha1` and `kind: EndpointPickerConfig`"],
    ],
    [
      "apiVersion: v1\nkind: Pod\n",
      [
        'c.yaml:1:1: apiVersion: expected one of `llm-d.ai/v1alpha1`, `llm-d.ai/v1`, `inference.networking.x-k8s.io/v1alpha1`, got the string "v1"',
        'c.yaml:2:1: kind: expected `EndpointPickerConfig`, got the string "Pod"',
      ],
    ],
    [`${HEAD}plugin: []\n`, ["c.yaml:3:1: plugin: unknown key `plugin`; did you mean `plugins`?"]],
    [
      `${HEAD}parser: {}\nrequestHandler: {parsers: [{pluginRef: ""}, {}], parser: {}}\n`,
      [
        "c.yaml:3:1: parser.pluginRef: the parser is missing a pluginRef",
        "c.yaml:4:29: requestHandler.parsers[0].pluginRef: this entry of the parsers is missing a pluginRef",
        "c.yaml:4:45: requestHandler.parsers[1].pluginRef: this entry of the parsers is missing a pluginRef",
        "c.yaml:4:50: requestHandler.parser: unknown key `parser`; did you mean `parsers`?",
      ],
    ],
    [
      `${HEAD}plugins: [{type: openai-parser}, {type: cost-hook}]\nrequestHandler:\n  parsers:\n  - {pluginRef: openai-parsr}\n  - {pluginRef: cost-hook}\n  - {pluginRef: openai-parser}\n  - {pluginRef: openai-parser}\n`,
      [
        "c.yaml:6:6: requestHandler.parsers[0].pluginRef: requestHandler.parsers references undefined plugin openai-parsr; did you mean `openai-parser`?",
        "c.yaml:7:6: requestHandler.parsers[1].pluginRef: the plugin cost-hook is not a parser plugin but a request-hook",
        "c.yaml:9:6: requestHandler.parsers[3].pluginRef: requestHandler.parsers lists openai-parser twice; keep one",
      ],
    ],
    [
      `${HEAD}parser: {pluginRef: nobody}\n`,
      ["c.yaml:3:10: parser.pluginRef: parser references undefined plugin nobody"],
    ],
    [
      `${HEAD}dataLayer:\n  injectDefaults: "no"\n  souces: []\nflowControl:\n  priorityBands: [{priorty: 1}]\n`,
      [
        'c.yaml:4:3: dataLayer.injectDefaults: expected true or false, got the string "no"',
        "c.yaml:5:3: dataLayer.souces: unknown key `souces`; did you mean `sources`?",
        "c.yaml:7:19: flowControl.priorityBands[0].priority: the priority band is missing a priority",
        "c.yaml:7:20: flowControl.priorityBands[0].priorty: unknown key `priorty`; did you mean `priority`?",
      ],
    ],
    [
      `${HEAD}plugins:\n- name: x\n- {type: latency-scorer}\n- {type: queu-scorer}\n- {type: lmetric-scorer}\n`,
      [
        "c.yaml:4:3: plugins[0].type: the plugin is missing a type; write for example `type: queue-scorer`",
        "c.yaml:5:4: plugins[1].type: plugin type latency-scorer is not supported yet: it needs the latency predictor, which Sluice does not have yet; until then, use queue-scorer, kv-cache-utilization-scorer and prefix-cache-scorer",
        "c.yaml:6:4: plugins[2].type: plugin type queu-scorer is not registered; did you mean `queue-scorer`?",
        "c.yaml:7:4: plugins[3].type: plugin type lmetric-scorer is not supported yet: no scorer of Sluice multiplies tokens to compute by requests in flight; use token-load-scorer with prefix-cache-scorer instead",
      ],
    ],
    [
      `${HEAD}plugins:\n- {type: queue-scorer, name: "a\\nb"}\n- {type: queue-scorer, name: ${"n".repeat(254)}}\nschedulingProfiles:\n- {name: "p\\u009b2J", plugins: []}\n- {name: ${"p".repeat(254)}}\n`,
      [
        "c.yaml:4:24: plugins[0].name: a name must not contain line breaks or other control characters",
        "c.yaml:5:24: plugins[1].name: a name has at most 253 characters",
        "c.yaml:7:4: schedulingProfiles[0].name: a name must not contain line breaks or other control characters",
        "c.yaml:8:3: schedulingProfiles[1]: no profile handler configured, but several scheduling profiles need one; add one to plugins, such as `type: header-profile-handler` or `type: stage-handler`, or keep one profile",
        "c.yaml:8:4: schedulingProfiles[1].name: a name has at most 253 characters",
      ],
    ],
    [
      `${HEAD}plugins:\n- type: queue-scorer\n- {name: queue-scorer, type: active-request-scorer}\n- type: queue-scorer\n`,
      [
        "c.yaml:5:3: plugins[1]: duplicate plugin name queue-scorer",
        "c.yaml:6:3: plugins[2]: duplicate plugin name queue-scorer; give one of the two a different `name`",
      ],
    ],
    [
      `${HEAD}plugins:\n- type: queue-scorer\n  parameters:\n    weight: 3\n- type: max-score-picker\n  parameters: {maxNumOfEndpoint: 1}\n- {type: file-discovery}\n`,
      [
        "c.yaml:6:5: plugins[0].parameters.weight: failed to create plugin queue-scorer (type: queue-scorer): unknown key `weight`; remove it, queue-scorer has no parameters",
        "c.yaml:8:16: plugins[1].parameters.maxNumOfEndpoint: failed to create plugin max-score-picker (type: max-score-picker): unknown key `maxNumOfEndpoint`; did you mean `maxNumOfEndpoints`?",
        "c.yaml:9:3: plugins[2].parameters.path: failed to create plugin file-discovery (type: file-discovery): is missing (a string)",
      ],
    ],
    [
      `${HEAD}plugins: [{type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: indx}}, {name: index, type: approx-prefix-cache-producer}]`,
      [
        "c.yaml:3:52: plugins[0].parameters.prefixMatchInfoProducerName: plugin prefix-cache-scorer has a dependency on the unregistered plugin indx; did you mean `index`?",
      ],
    ],
    [
      `${HEAD}plugins:
- {type: queue-scorer, name: q}
- {type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: q}}
- {type: prefix-cache-scorer, name: p, parameters: {prefixMatchInfoProducerName: approx-prefix-cache-producer}}
- {type: approx-prefix-cache-producer, name: index}
- {type: approx-prefix-cache-producer, name: other}
`,
      [
        "c.yaml:5:44: plugins[1].parameters.prefixMatchInfoProducerName: plugin prefix-cache-scorer takes a producer here, but q is a scorer",
        "c.yaml:6:53: plugins[2].parameters.prefixMatchInfoProducerName: plugin p has a dependency on the unregistered plugin approx-prefix-cache-producer; add `- type: approx-prefix-cache-producer` to plugins",
      ],
    ],
    [
      `${HEAD}plugins: [{type: queue-scorer}]\nschedulingProfiles:\n- name: p\n  plugins: [{pluginRef: queue-scorer}, {pluginRef: queue-scorer, weight: 2}]\n`,
      [
        "c.yaml:6:41: schedulingProfiles[0].plugins[1].pluginRef: schedulingProfiles[p] lists queue-scorer twice; keep one, with the right weight",
      ],
    ],
    [
      `${HEAD}plugins: [{type: queue-scorer}]\nschedulingProfiles:\n- plugins: [{pluginRef: queue-scorer}]\n- name: p\n  plugins:\n  - weight: 1\n  - {pluginRef: queue-scorer, weight: -1}\n  - {pluginRef: queue-scorer, weight: .nan}\n  - {pluginRef: queue-scorer, weight: "2"}\n`,
      [
        "c.yaml:5:3: schedulingProfiles[0].name: the scheduling profile is missing a name",
        "c.yaml:6:3: schedulingProfiles[1]: no profile handler configured, but several scheduling profiles need one; add one to plugins, such as `type: header-profile-handler` or `type: stage-handler`, or keep one profile",
        "c.yaml:8:5: schedulingProfiles[1].plugins[0].pluginRef: this entry of the profile is missing a pluginRef",
        "c.yaml:9:31: schedulingProfiles[1].plugins[1].weight: a weight must not be negative; 0 switches a scorer off",
        "c.yaml:10:6: schedulingProfiles[1].plugins[2].pluginRef: schedulingProfiles[p] lists queue-scorer twice; keep one, with the right weight",
        "c.yaml:10:31: schedulingProfiles[1].plugins[2].weight: expected a number, got NaN",
        "c.yaml:11:6: schedulingProfiles[1].plugins[3].pluginRef: schedulingProfiles[p] lists queue-scorer twice; keep one, with the right weight",
        'c.yaml:11:31: schedulingProfiles[1].plugins[3].weight: expected a number, got the string "2"',
      ],
    ],
    [
      `${HEAD}plugins: [{type: queue-scorer}, {type: approx-prefix-cache-producer}, {type: max-score-picker}, {type: round-robin-picker}]
schedulingProfiles:
- name: p
  plugins: [{pluginRef: queue-scrorer}, {pluginRef: approx-prefix-cache-producer}, {pluginRef: max-score-picker}, {pluginRef: round-robin-picker}]`,
      [
        "c.yaml:6:14: schedulingProfiles[0].plugins[0].pluginRef: schedulingProfiles[p] references undefined plugin queue-scrorer; did you mean `queue-scorer`?",
        "c.yaml:6:116: schedulingProfiles[0].plugins[3].pluginRef: schedulingProfiles[p] already has a registered picker plugin; keep one picker",
      ],
    ],
    [
      `${HEAD}plugins: [{type: queue-scorer}]\nschedulingProfiles:\n- name: a\n- name: b\n- name: a\n`,
      [
        "c.yaml:6:3: schedulingProfiles[1]: no profile handler configured, but several scheduling profiles need one; add one to plugins, such as `type: header-profile-handler` or `type: stage-handler`, or keep one profile",
        "c.yaml:7:3: schedulingProfiles[2].name: schedulingProfiles has duplicate name a",
      ],
    ],
    [
      `${HEAD}plugins: [{type: single-profile-handler}, {name: h, type: single-profile-handler}]\nschedulingProfiles: [{name: a}, {name: b}]\n`,
      ["c.yaml:3:43: plugins[1]: multiple profile handlers found: single-profile-handler and h; keep one"],
    ],
    [
      `${HEAD}plugins: [{type: queue-scorer}]\nsaturationDetector: {pluginRef: queue-scorer}\ndataLayer: {discovery: {pluginRef: queue-scorer}}\n`,
      [
        "c.yaml:4:22: saturationDetector.pluginRef: plugin queue-scorer is not a SaturationDetector but a scorer",
        "c.yaml:5:25: dataLayer.discovery.pluginRef: plugin queue-scorer is not a discovery but a scorer",
      ],
    ],
    [
      `${HEAD}flowControl: {saturationDetector: {pluginRef: nobody}}\ndataLayer: {discovery: {pluginRef: ""}}\n`,
      [
        "c.yaml:3:36: flowControl.saturationDetector.pluginRef: saturationDetector references undefined plugin nobody",
        "c.yaml:4:25: dataLayer.discovery.pluginRef: the discovery is missing a pluginRef",
      ],
    ],
    [
      `${HEAD}flowControl: {saturationDetector: {pluginRef: nobody}}\ndataLayer: {discovery: {pluginRef: file-discovery}}\n`,
      [
        "c.yaml:3:36: flowControl.saturationDetector.pluginRef: saturationDetector references undefined plugin nobody",
        "c.yaml:4:25: dataLayer.discovery.pluginRef: dataLayer.discovery references undefined plugin file-discovery",
      ],
    ],
    [
      `${HEAD}plugins:\n- type: hungry-scorer\n`,
      ["c.yaml:4:3: plugins[0]: no producer for key nobody-writes-this required by plugin hungry-scorer"],
    ],
  ])("%j", (text, problems) => {
    expect(problemsOf(text)).toEqual(problems);
  });

  it.each([
    [
      "mistakes of every kind, each once",
      `apiVersion: llm-d.ai/v1alpha2
kind: EndpointPickerConfig
plugns:
- {type: queue-scorer, wieght: 3}
- {type: max-score-picker, parameters: {maxNumOfEndpoint: 1}}
- {type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: nobody}}
schedulingProfiles:
- nmae: p
  plugins: [{pluginRef: queue-scorer, weight: -1}, {pluginRef: kv-scorer}]
colour: red
`,
      [
        'c.yaml:1:1: apiVersion: expected one of `llm-d.ai/v1alpha1`, `llm-d.ai/v1`, `inference.networking.x-k8s.io/v1alpha1`, got the string "llm-d.ai/v1alpha2"; did you mean `llm-d.ai/v1alpha1`?',
        "c.yaml:3:1: plugns: unknown key `plugns`; did you mean `plugins`?",
        "c.yaml:4:24: plugns[0].wieght: unknown key `wieght`; did you mean `weight`?",
        "c.yaml:4:24: plugns[0].wieght: move the weight to schedulingProfiles, beside the pluginRef of a scorer",
        "c.yaml:5:41: plugns[1].parameters.maxNumOfEndpoint: failed to create plugin max-score-picker (type: max-score-picker): unknown key `maxNumOfEndpoint`; did you mean `maxNumOfEndpoints`?",
        "c.yaml:6:44: plugns[2].parameters.prefixMatchInfoProducerName: plugin prefix-cache-scorer has a dependency on the unregistered plugin nobody; add a producer of this name to plugins",
        "c.yaml:8:3: schedulingProfiles[0].name: the scheduling profile is missing a name",
        "c.yaml:8:3: schedulingProfiles[0].nmae: unknown key `nmae`; did you mean `name`?",
        "c.yaml:9:39: schedulingProfiles[0].plugins[0].weight: a weight must not be negative; 0 switches a scorer off",
        "c.yaml:9:53: schedulingProfiles[0].plugins[1].pluginRef: schedulingProfiles[p] references undefined plugin kv-scorer",
        "c.yaml:10:1: colour: unknown key `colour`",
      ],
    ],
    [
      "what refers to a plugin that is at fault itself is not at fault, and what follows an entry keeps its place",
      `${HEAD}plugins:
- {type: queue-score}
- {name: mine, type: astrology}
- {type: max-score-picker, parameters: {maxNumOfEndpoint: 1}}
schedulingProfiles:
- name: p
  plugins: [{pluginRef: queue-scorer}, {pluginRef: mine}, {weight: 1}, {pluginRef: ghost}]
`,
      [
        "c.yaml:4:4: plugins[0].type: plugin type queue-score is not registered; did you mean `queue-scorer`?",
        "c.yaml:5:16: plugins[1].type: plugin type astrology is not registered; the nearest types are cost-hook, hot-scorer, hot-producer, and docs/reference/plugins.md lists all; for your own type, add `module`, the path of its file",
        "c.yaml:6:41: plugins[2].parameters.maxNumOfEndpoint: failed to create plugin max-score-picker (type: max-score-picker): unknown key `maxNumOfEndpoint`; did you mean `maxNumOfEndpoints`?",
        "c.yaml:9:59: schedulingProfiles[0].plugins[2].pluginRef: this entry of the profile is missing a pluginRef",
        "c.yaml:9:73: schedulingProfiles[0].plugins[3].pluginRef: schedulingProfiles[p] references undefined plugin ghost",
      ],
    ],
    [
      "a list of what should be a mapping has no more to check",
      "- a\n- b\n",
      ["c.yaml:1:1: expected a mapping, got a list"],
    ],
  ])("in one go: %s", (_what, text, problems) => {
    expect(problemsOf(text)).toEqual(problems);
  });

  it("bounds the list of parsers", () => {
    const text = `${HEAD}requestHandler:\n  parsers: [${"{pluginRef: x}, ".repeat(65)}]\n`;
    expect(problemsOf(text)).toEqual(["c.yaml:4:3: requestHandler.parsers: at most 64 parsers can be configured"]);
  });

  it("names a type the process was put together without", () => {
    const bare = new PluginRegistry(DEFINITIONS.filter(({ type }) => type !== "utilization-detector"));
    expect(() => loadConfig(undefined, bare)).toThrow(
      "the defaults need a saturation-detector of type utilization-detector, but this type is not registered",
    );
  });
});

describe("effectiveSummary", () => {
  it("fits one log line", () => {
    const text = `${HEAD}plugins: [{name: fast, type: queue-scorer}, {type: label-selector-filter}]`;
    expect(effectiveSummary(load(text))).toEqual({
      source: "c.yaml",
      profile: "default",
      filters: ["label-selector-filter"],
      scorers: ["fast (queue-scorer) x 1"],
      picker: "max-score-picker",
      producers: [],
      saturationDetector: "utilization-detector",
      metrics: ["metrics-data-source read by core-metrics-extractor"],
    });
  });
});
