import { describe, expect, it } from "vitest";
import { loadConfig } from "../config/load.ts";
import { parseDocument } from "../document/parse.ts";
import { PLUGIN_REGISTRY } from "./plugins.ts";

const load = (text: string) => loadConfig(parseDocument(text, { file: "c.yaml" }), PLUGIN_REGISTRY);
const HEAD = "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: EndpointPickerConfig\n";

describe("configurations as they are used with the reference", () => {
  it("E-112, Appendix B: the attribute reporter beside the one parser of v1.5", () => {
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
    expect(config.profile.plugins.map(({ name }) => name)).toEqual(["max-score-picker"]);
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
    expect(config.profile.plugins.map(({ name }) => name)).toEqual(["header-based-testing-filter", "max-score-picker"]);
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
