import { describe, expect, it } from "vitest";
import { parseDocument } from "../../../base/document/parse.ts";
import { loadConfig } from "../../config/load.ts";
import { PLUGIN_REGISTRY } from "./plugins.ts";

const load = (text: string) => loadConfig(parseDocument(text, { file: "c.yaml" }), PLUGIN_REGISTRY);
const HEAD = "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: EndpointPickerConfig\n";

describe("configurations as they are used with the reference", () => {
  it("E-112, epp-protocol appendix B: the attribute reporter beside the one parser of v1.5", () => {
    const config = load(`${HEAD}
plugins:
- type: openai-parser
- name: cost
  type: request-attribute-reporter
  parameters:
    attributes:
    - key: {namespace: envoy.lb, name: x-gateway-inference-request-cost}
      expression: |
        usage.completion_tokens
      condition: has(usage.completion_tokens)
schedulingProfiles:
- name: default
  plugins: [{pluginRef: openai-parser}, {pluginRef: cost}]
parser:
  pluginRef: openai-parser
`);
    expect(config.parsers.map(({ name }) => name)).toEqual(["openai-parser"]);
    expect(config.hooks.map(({ name }) => name)).toEqual(["cost"]);
    expect(config.profiles[0]?.plugins.map(({ name }) => name)).toEqual(["max-score-picker"]);
  });

  it("E-75: the two plugins of the conformance suite", () => {
    const config = load(`${HEAD}
plugins:
- type: header-based-testing-filter
- type: destination-endpoint-served-verifier
schedulingProfiles:
- name: conformance
  plugins: [{pluginRef: header-based-testing-filter}]
`);
    expect(config.profiles[0]?.plugins.map(({ name }) => name)).toEqual([
      "header-based-testing-filter",
      "max-score-picker",
    ]);
    expect(config.hooks.map(({ name }) => name)).toEqual(["destination-endpoint-served-verifier"]);
  });

  it("E-112: every parser of the current release by requestHandler", () => {
    const types = ["openai", "anthropic", "vllmhttp", "passthrough", "vllmgrpc", "sglanghttp", "vertexai"];
    const names = types.map((type) => `${type}-parser`);
    const config = load(
      `${HEAD}plugins: [${names.map((type) => `{type: ${type}}`)}]\nrequestHandler: {parsers: [${names.map((name) => `{pluginRef: ${name}}`)}]}`,
    );
    expect(config.parsers.map(({ name }) => name)).toEqual(names);
  });

  const PREFIX = (parameters: string, more = "") => `${HEAD}plugins:
- type: queue-scorer
- type: prefix-cache-scorer
  parameters: ${parameters}
${more}schedulingProfiles:
- name: default
  plugins: [{pluginRef: queue-scorer}, {pluginRef: prefix-cache-scorer, weight: 1}]
`;

  it("S-59: parameters of the prefix cache on the scorer, as in v1.0, go to a producer and take effect", () => {
    const config = load(PREFIX("{hashBlockSize: 500, maxPrefixBlocksToMatch: 256, lruCapacityPerServer: 31250}"));
    const { definition, parameters } = config.producers[0]!;
    expect([config.producers.length, definition.type]).toEqual([1, "approx-prefix-cache-producer"]);
    // 500 characters are 125 tokens. The limit in tokens, which would win, did not exist.
    expect(parameters).toMatchObject({
      blockSizeTokens: 125,
      maxPrefixBlocksToMatch: 256,
      maxPrefixTokensToMatch: 0,
      lruCapacityPerServer: 31250,
    });
    expect(config.warnings[1]).toBe(
      "c.yaml:5:3: parameters of the prefix cache are deprecated on prefix-cache-scorer; add the entry " +
        '{"type":"approx-prefix-cache-producer","parameters":{"blockSizeTokens":125,"maxPrefixBlocksToMatch":256,' +
        '"lruCapacityPerServer":31250,"maxPrefixTokensToMatch":0}} to plugins',
    );
    // From v1.1 to v1.3 it was blockSize, in characters, too; later ones have blockSizeTokens and pass over the other two.
    for (const [given, blockSizeTokens] of [
      ["blockSize: 500, hashBlockSize: 64", 125],
      ["blockSize: 500, blockSizeTokens: 16", 16],
      ["blockSizeTokens: 96, hashBlockSize: 64", 96],
      ["hashBlockSize: null, blockSize: null, lruCapacityPerServer: null", 16],
    ])
      expect(load(PREFIX(`{${given}}`)).producers.map(({ parameters }) => parameters)).toMatchObject([
        { blockSizeTokens },
      ]);
    const same = load(PREFIX("{matchLengthWeight: 0.5, blockSizeTokens: 128, maxPrefixTokensToMatch: 9}"));
    expect(same.producers[0]?.parameters).toMatchObject({ blockSizeTokens: 128, maxPrefixTokensToMatch: 9 });
    expect(same.profiles[0]?.plugins[1]?.parameters).toMatchObject({ matchLengthWeight: 0.5 });
  });

  it.each([
    [
      PREFIX("{hashBlockSize: none, lruCapacityPerServer: 0}"),
      [
        "6:16: plugins[1].parameters.hashBlockSize: must be a number",
        "6:37: plugins[1].parameters.lruCapacityPerServer",
      ],
    ],
    [PREFIX("{hashBlokSize: 64}"), ["6:16: plugins[1].parameters.hashBlokSize", "unknown key `hashBlokSize`"]],
    [PREFIX("{blockSize: 64}", "- type: approx-prefix-cache-producer\n"), ["6:16", "unknown key `blockSize`"]],
  ])("S-59: says where such a parameter is wrong: %j", (text, parts) => {
    for (const part of parts) expect(() => load(text)).toThrow(part);
  });

  it("takes no label for absent that is null: the selector would take more", () => {
    const filter = (parameters: string) =>
      load(`${HEAD}plugins: [{type: label-selector-filter, parameters: ${parameters}}]\n`);
    expect(() => filter("{matchLabels: {tier: gold, zone: null}}")).toThrow(
      "plugins[0].parameters.matchLabels.zone: failed to create plugin label-selector-filter (type: label-selector-filter): expected a string, got nothing",
    );
    expect(() => filter("{matchExpressions: [{key: tier, operator: In, values: [null]}]}")).toThrow("values[0]");
    expect(() => filter("{matchLabels: , matchExpressions: null}")).not.toThrow();
  });

  it("tells where a bad expression stands", () => {
    const text = `${HEAD}plugins:
- type: request-attribute-reporter
  parameters:
    attributes:
    - key: {name: cost}
      expression: usage.total_tokens + totl
`;
    expect(() => load(text)).toThrow(
      "c.yaml:8:7: plugins[0].parameters.attributes[0].expression: failed to create plugin request-attribute-reporter (type: request-attribute-reporter): Unknown variable: totl (line 1, column 22 of the expression)",
    );
  });
});
