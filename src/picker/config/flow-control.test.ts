import { describe, expect, it } from "vitest";
import { detailed, HEAD, load, messageFor } from "../../../test/support/config/fakes.cases.ts";
import { type EffectiveBand, effectiveSummary } from "./effective.ts";
import { explainConfig } from "./explain.ts";
import { explainText } from "./explain-text.ts";
import { configFingerprint } from "./fingerprint.ts";

const GATE = `${HEAD}featureGates: [flowControl]\n`;
const NEVER = Number.POSITIVE_INFINITY;

/** The band as numbers and names. */
function shown({ maxBytes, maxRequests, defaultRequestTTL, orderingPolicy, fairnessPolicy }: EffectiveBand) {
  return [maxBytes, maxRequests, defaultRequestTTL, orderingPolicy.name, fairnessPolicy.name];
}

const USUAL = [1e9, 5000, 60_000, "fcfs-ordering-policy", "global-strict-fairness-policy"];

describe("flow control in the effective configuration (scheduling 4.2)", () => {
  it("does not exist without the gate, or with the gate off", () => {
    const section = "flowControl: {maxRequests: 5, priorityBands: [{priority: 1}]}\n";
    expect(load(HEAD + section).flowControl).toBeUndefined();
    expect(load(`${HEAD}featureGates: ["flowControl=false"]\n${section}`).flowControl).toBeUndefined();
    expect(load(HEAD).flowControl).toBeUndefined();
  });

  it("waits for InferenceModels, with fair shares of tokens, in a file that does not set the gate", () => {
    const section = "flowControl: {maxRequests: 5, priorityBands: [{priority: 1, fairnessPolicyRef: nobody}]}\n";
    const { modelFlowControl } = load(HEAD + section);
    expect(modelFlowControl).toMatchObject({ maxRequests: NEVER, noEndpointRequestTTL: 60_000, eviction: false });
    expect(modelFlowControl!.bands.size).toBe(0);
    const band = [...USUAL.slice(0, 4), "token-deficit-fairness-policy"];
    expect(shown(modelFlowControl!.defaultPriorityBand)).toEqual(band);
    for (const gate of ["flowControl", "flowControl=true", "flowControl=false"])
      expect(load(`${HEAD}featureGates: ["${gate}"]\n`).modelFlowControl).toBeUndefined();
  });

  it("takes the policy of that name with its parameters then, and says when it counts", () => {
    const named = `${HEAD}plugins:\n- {type: queue-scorer}\n- {type: token-deficit-fairness-policy}\n`;
    const config = load(named);
    expect(config.configured).toContain(config.modelFlowControl!.defaultPriorityBand.fairnessPolicy);
    expect(config.warnings).toEqual([
      "c.yaml:5:3: plugin token-deficit-fairness-policy has an effect only with InferenceModels: the file does not set the feature gate flowControl",
    ]);
    // A scorer of that name is no policy, and no mistake.
    const strange = load(`${HEAD}plugins:\n- {name: token-deficit-fairness-policy, type: queue-scorer}\n`);
    expect(strange.warnings).toEqual([]);
    expect(strange.configured).not.toContain(strange.modelFlowControl!.defaultPriorityBand.fairnessPolicy);
  });

  it("has the defaults of v1.5 with that parity, and refuses later keys (scheduling 6.10)", () => {
    const parity = { parity: "v1.5" } as const;
    const { flowControl, modelFlowControl } = load(GATE, parity);
    expect(flowControl).toMatchObject({ parity: "v1.5", noEndpointRequestTTL: NEVER, maxRequests: NEVER });
    expect(shown(flowControl!.defaultPriorityBand)).toEqual([1e9, NEVER, NEVER, ...USUAL.slice(3)]);
    expect(flowControl!.defaultNegativePriorityBand).toBe(flowControl!.defaultPriorityBand);
    expect(modelFlowControl).toBeUndefined();
    // It knows no InferenceModel.
    expect(load(HEAD, parity).modelFlowControl).toBeUndefined();
    const given = "flowControl: {defaultRequestTTL: 5s, priorityBands: [{priority: 1, maxRequests: 3}]}\n";
    const limited = load(GATE + given, parity).flowControl!;
    expect(shown(limited.bands.get(1)!)).toEqual([1e9, 3, 5000, ...USUAL.slice(3)]);
    expect(limited.noEndpointRequestTTL).toBe(5000);
    const later = (section: string): string => messageFor(`${GATE}flowControl: {${section}}\n`, parity);
    expect(later("enableEviction: true")).toContain(
      "v1.5 has no enableEviction; remove enableEviction, or remove --parity v1.5",
    );
    expect(later("noEndpointRequestTTL: 0s")).toContain("v1.5 has no noEndpointRequestTTL");
    expect(later("defaultNegativePriorityBand: {}")).toContain("v1.5 has no defaultNegativePriorityBand");
    expect(later("enableEviction: false")).toBe("accepted");
    expect(configFingerprint(load(GATE, parity))).not.toBe(configFingerprint(load(GATE)));
  });

  it("counts in the fingerprint with what the file says of the gate, and with its policy", () => {
    const plugins = "plugins:\n- {type: queue-scorer}\n";
    const policy = "- {type: token-deficit-fairness-policy, parameters: {}}\n";
    const texts = ["", "featureGates: [flowControl=false]\n", "featureGates: [flowControl]\n"];
    const prints = texts.map((text) => configFingerprint(load(HEAD + text + plugins)));
    expect(new Set([...prints, configFingerprint(load(HEAD + plugins + policy))]).size).toBe(4);
  });

  it.each(["", "flowControl:\n", "flowControl: {}\n"])("has all defaults with the gate alone (%j)", (section) => {
    const { flowControl, warnings } = load(GATE + section);
    expect(flowControl).toMatchObject({ maxBytes: NEVER, maxRequests: NEVER, noEndpointRequestTTL: 60_000 });
    expect(flowControl!.bands.size).toBe(0);
    expect(shown(flowControl!.defaultPriorityBand)).toEqual(USUAL);
    expect(flowControl!.defaultNegativePriorityBand).toBe(flowControl!.defaultPriorityBand);
    expect(flowControl!.usageLimitPolicy).toMatchObject({
      ...{ name: "static-usage-limit-policy", parameters: { threshold: 1 } },
    });
    expect(warnings).toEqual([]);
  });

  it("takes limits, times and policies of each band; 0 of a band is its default, 0 of the whole is no limit", () => {
    const { flowControl } = load(`${GATE}plugins:
- {name: turns, type: round-robin-fairness-policy}
- {name: soon, type: edf-ordering-policy}
- {name: tight, type: static-usage-limit-policy, parameters: {threshold: 0.7}}
flowControl:
  maxBytes: 0
  maxRequests: 2k
  defaultRequestTTL: 5s
  usageLimitPolicyPluginRef: tight
  priorityBands:
  - {priority: 7, maxBytes: 1Ki, maxRequests: 3, defaultRequestTTL: 0s, fairnessPolicyRef: turns, orderingPolicyRef: soon}
  - {priority: -7, maxBytes: 0, maxRequests: "0", defaultRequestTTL: 1m}
  defaultPriorityBand: {fairnessPolicyRef: turns, orderingPolicyRef: ""}
  defaultNegativePriorityBand: {maxRequests: 9}
`);
    expect(flowControl).toMatchObject({ maxBytes: NEVER, maxRequests: 2000 });
    expect([...flowControl!.bands].map(([priority, band]) => [priority, ...shown(band)])).toEqual([
      [7, 1024, 3, NEVER, "soon", "turns"],
      [-7, 1e9, 5000, 60_000, "fcfs-ordering-policy", "global-strict-fairness-policy"],
    ]);
    expect(shown(flowControl!.defaultPriorityBand)).toEqual([1e9, 5000, 5000, "fcfs-ordering-policy", "turns"]);
    // The reference takes the template for negative priorities for itself, not as an addition to the other one.
    expect(shown(flowControl!.defaultNegativePriorityBand)).toEqual([1e9, 9, 5000, ...USUAL.slice(3)]);
    expect(flowControl!.usageLimitPolicy.parameters).toEqual({ threshold: 0.7 });
  });

  it.each([
    ["", 60_000, 60_000],
    ["defaultRequestTTL: 5s", 5000, 5000],
    ["defaultRequestTTL: 0s", NEVER, NEVER],
    ["noEndpointRequestTTL: 5m", 60_000, 300_000],
    ["noEndpointRequestTTL: 0s", 60_000, NEVER],
    ["defaultRequestTTL: 0s, noEndpointRequestTTL: 5m", NEVER, 300_000],
  ])("{%s}: waits %d ms with endpoints, %d ms without", (section, withEndpoints, without) => {
    const { flowControl } = load(`${GATE}flowControl: {${section}}\n`);
    expect(flowControl!.defaultPriorityBand.defaultRequestTTL).toBe(withEndpoints);
    expect(flowControl!.noEndpointRequestTTL).toBe(without);
  });

  it("takes the plugin with the name of a usual policy for it", () => {
    const { flowControl, warnings } = load(
      `${GATE}plugins: [{type: static-usage-limit-policy, parameters: {threshold: 0.8}}, {name: fcfs-ordering-policy, type: edf-ordering-policy}]\n`,
    );
    expect(flowControl!.usageLimitPolicy.parameters).toEqual({ threshold: 0.8 });
    expect(flowControl!.defaultPriorityBand.orderingPolicy.definition.type).toBe("edf-ordering-policy");
    expect(warnings).toEqual([]);
  });
});

describe("flow control as it is shown", () => {
  const TEXT = `${GATE}plugins:
- {name: turns, type: round-robin-fairness-policy}
- type: queue-scorer
flowControl:
  maxRequests: 2k
  defaultRequestTTL: 5s
  priorityBands:
  - {priority: 7, fairnessPolicyRef: turns, maxBytes: 0}
`;

  it("in the line of the log", () => {
    expect(effectiveSummary(load(TEXT))["flowControl"]).toEqual({
      maxRequests: 2000,
      noEndpointRequestTTL: "5000ms",
      usageLimitPolicy: "static-usage-limit-policy",
      bands: {
        7: "fcfs-ordering-policy, turns (round-robin-fairness-policy), 5000 requests, 1000000000 bytes, TTL 5000ms",
        other: "fcfs-ordering-policy, global-strict-fairness-policy, 5000 requests, 1000000000 bytes, TTL 5000ms",
      },
    });
    const both = `${GATE}flowControl: {maxBytes: 8, defaultRequestTTL: 0s, defaultNegativePriorityBand: {maxRequests: 1}}\n`;
    expect(effectiveSummary(load(both))["flowControl"]).toMatchObject({
      maxBytes: 8,
      noEndpointRequestTTL: "none",
      bands: {
        other: expect.stringContaining("5000 requests, 1000000000 bytes, TTL none"),
        "other below 0": expect.stringContaining("1 requests"),
      },
    });
    expect(effectiveSummary(load(HEAD))).not.toHaveProperty("flowControl");
  });

  it("in the explanation, with the source of each value", () => {
    const text = explainText(explainConfig(detailed(TEXT), []));
    expect(text.slice(text.indexOf("featureGates:"), text.indexOf("plugins:"))).toBe(`featureGates:
  - flowControl # line 3
`);
    expect(text.slice(text.indexOf("flowControl:\n"), text.indexOf("dataLayer:"))).toBe(`flowControl:
  saturationDetector:
    pluginRef: utilization-detector # default
  maxBytes: 0 # default: no limit
  maxRequests: 2k # line 8
  defaultRequestTTL: 5s # line 9
  noEndpointRequestTTL: 5s # default: defaultRequestTTL
  priorityBands:
    - priority: 7 # line 11
      maxBytes: 1G # default: 0 in line 11 counts as not set
      maxRequests: 5000 # default
      defaultRequestTTL: 5s # default: defaultRequestTTL
      orderingPolicyRef: fcfs-ordering-policy # default
      fairnessPolicyRef: turns # line 11
  defaultPriorityBand:
    maxBytes: 1G # default
    maxRequests: 5000 # default
    defaultRequestTTL: 5s # default: defaultRequestTTL
    orderingPolicyRef: fcfs-ordering-policy # default
    fairnessPolicyRef: global-strict-fairness-policy # default
  defaultNegativePriorityBand:
    maxBytes: 1G # default: the value of defaultPriorityBand
    maxRequests: 5000 # default: the value of defaultPriorityBand
    defaultRequestTTL: 5s # default: the value of defaultPriorityBand
    orderingPolicyRef: fcfs-ordering-policy # default: the value of defaultPriorityBand
    fairnessPolicyRef: global-strict-fairness-policy # default: the value of defaultPriorityBand
  usageLimitPolicyPluginRef: static-usage-limit-policy # default
  enableEviction: false # default
`);
    expect(text).toContain(
      "type: fcfs-ordering-policy # made automatically: flowControl names no other ordering policy",
    );
  });

  it("in the explanation of a file that sets the gate to false, and of one that does not set it", () => {
    const of = (gates: string): string => explainText(explainConfig(detailed(`${HEAD}${gates}`), []));
    const off = of('featureGates: ["flowControl=false"]\n');
    expect(off).toContain("# Flow control: off.\n");
    expect(off).toContain("featureGates:\n  - flowControl=false # line 3\n");
    expect(configFingerprint(load(off))).toBe(configFingerprint(load(`${HEAD}featureGates: [flowControl=0]\n`)));
    const open = of("");
    expect(open).toContain(
      "# Flow control: off, but on with fair shares of tokens while InferenceModels of a v1alpha2 pool exist.",
    );
    expect(open).not.toContain("featureGates:");
    expect(load(open).modelFlowControl).toBeDefined();
    expect(of("featureGates: [flowControl]\n")).toContain("# Flow control: on.\n");
  });
});
