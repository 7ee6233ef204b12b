import { describe, expect, it } from "vitest";
import { HEAD, load } from "../../../test/support/config/fakes.cases.ts";
import { configFingerprint } from "./fingerprint.ts";

const of = (text: string): string => configFingerprint(load(HEAD + text));
const TEXT = `plugins:
- {name: index, type: approx-prefix-cache-producer, parameters: {blockSizeTokens: 64}}
- {type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: index, matchLengthWeight: 0.5}}
- {type: stage-handler, parameters: {deciders: {prefill: prefix-decider}}}
- {type: prefix-decider, parameters: {prefixMatchInfoProducerName: index}}
- {type: cost-hook}
- {name: a, type: probabilistic-admitter}
- {name: b, type: probabilistic-admitter}
schedulingProfiles:
- {name: decode, plugins: [{pluginRef: prefix-cache-scorer, weight: 3}]}
flowControl: {maxRequests: 5}
`;

describe("the fingerprint of a configuration", () => {
  it("is twelve hexadecimal characters, the same every time", () => {
    expect(of(TEXT)).toMatch(/^[0-9a-f]{12}$/);
    expect(of(TEXT)).toBe(of(TEXT));
    expect(of("")).toBe(configFingerprint(load(HEAD.trim())));
  });

  it.each([
    ["comments and layout", TEXT.replace("- {type: cost-hook}", "# What it costs.\n-   type: cost-hook")],
    [
      "the order of keys",
      TEXT.replace(
        "{prefixMatchInfoProducerName: index, matchLengthWeight: 0.5}",
        "{matchLengthWeight: 0.5, prefixMatchInfoProducerName: index}",
      ),
    ],
    ["a parameter that says its default", TEXT.replace("cost-hook}", "cost-hook, parameters: {factor: 1}}")],
    ["a name that is the type", TEXT.replace("{type: cost-hook}", "{name: cost-hook, type: cost-hook}")],
    ["what has no effect", TEXT.replace("maxRequests: 5", "maxRequests: 6")],
    ["a plugin without effect", TEXT.replace("- {type: cost-hook}", "- {type: cost-hook}\n- {type: queue-scorer}")],
  ])("does not change with %s", (_what, text) => {
    expect(text).not.toBe(TEXT);
    expect(of(text)).toBe(of(TEXT));
  });

  it.each([
    ["a parameter", TEXT.replace("64", "65")],
    ["a weight", TEXT.replace("weight: 3", "weight: 3.5")],
    ["a plugin more", TEXT.replace("- {type: cost-hook}", "- {type: cost-hook}\n- {type: agent-identity}")],
    [
      "the order in which plugins work",
      TEXT.replace("{name: a,", "{name: c,").replace("name: b", "name: a").replace("name: c", "name: b"),
    ],
    [
      "a plugin that is referred to",
      TEXT.replace("prefill: prefix-decider", "prefill: d").replace(
        "{type: prefix-decider",
        "{name: d, type: prefix-decider",
      ),
    ],
    ["the name of a profile", TEXT.replace("name: decode", "name: main")],
    ["the handler", TEXT.replace("{prefill: prefix-decider}", '{prefill: ""}')],
    ["where metrics come from", `${TEXT}dataLayer: {injectDefaults: false}\n`],
    [
      "the detector",
      TEXT.replace(
        "- {type: cost-hook}",
        "- {type: cost-hook}\n- {type: utilization-detector, parameters: {queueDepthThreshold: 9}}",
      ),
    ],
  ])("changes with %s", (_what, text) => {
    expect(text).not.toBe(TEXT);
    expect(of(text)).not.toBe(of(TEXT));
  });

  it("changes with the parameters of a plugin that only the handler refers to", () => {
    const decider = TEXT.replace(
      "{type: prefix-decider, parameters: {prefixMatchInfoProducerName: index}}",
      "{type: prefix-decider}",
    );
    expect(of(decider)).not.toBe(of(TEXT));
  });

  describe("with flow control", () => {
    const QUEUES = `featureGates: [flowControl]
plugins:
- {name: turns, type: round-robin-fairness-policy}
- {name: tight, type: soft-reflective-ceiling-policy, parameters: {threshold: 0.5}}
flowControl:
  usageLimitPolicyPluginRef: tight
  priorityBands: [{priority: 1, fairnessPolicyRef: turns}, {priority: 2}]
`;

    it.each([
      [
        "the order of the bands",
        QUEUES.replace(/\[\{priority: 1(.*)\}, \{priority: 2\}\]/, "[{priority: 2}, {priority: 1$1}]"),
      ],
      ["defaults that are spelt out", QUEUES.replace("{priority: 2}", "{priority: 2, maxBytes: 1G, maxRequests: 0}")],
      ["another notation of a time", `${QUEUES}  noEndpointRequestTTL: 1m\n  defaultRequestTTL: 60s\n`],
      ["a negative template that equals the other", `${QUEUES}  defaultNegativePriorityBand: {maxBytes: 1G}\n`],
    ])("does not change with %s", (_what, text) => {
      expect(text).not.toBe(QUEUES);
      expect(of(text)).toBe(of(QUEUES));
    });

    it.each([
      ["the gate", QUEUES.replace("[flowControl]", "[flowControl=false]")],
      ["a policy of a band", QUEUES.replace(", fairnessPolicyRef: turns", "")],
      ["a parameter of the usage limit", QUEUES.replace("0.5", "0.6")],
      ["the priority of a band", QUEUES.replace("{priority: 2}", "{priority: 3}")],
      ["a limit of a band", QUEUES.replace("{priority: 2}", "{priority: 2, maxRequests: 4}")],
      ["the bytes of a band", QUEUES.replace("{priority: 2}", "{priority: 2, maxBytes: 4}")],
      ["the time to live of a band", QUEUES.replace("{priority: 2}", "{priority: 2, defaultRequestTTL: 4s}")],
      [
        "the ordering of a band",
        QUEUES.replace("- {name: turns", "- {type: edf-ordering-policy}\n- {name: turns").replace(
          "{priority: 2}",
          "{priority: 2, orderingPolicyRef: edf-ordering-policy}",
        ),
      ],
      ["a limit over all bands", `${QUEUES}  maxRequests: 7\n`],
      ["the bytes over all bands", `${QUEUES}  maxBytes: 7\n`],
      ["the time without endpoints", `${QUEUES}  noEndpointRequestTTL: 2m\n`],
      ["the template", `${QUEUES}  defaultPriorityBand: {maxRequests: 7}\n`],
      ["the negative template", `${QUEUES}  defaultNegativePriorityBand: {maxRequests: 7}\n`],
    ])("changes with %s", (_what, text) => {
      expect(text).not.toBe(QUEUES);
      expect(of(text)).not.toBe(of(QUEUES));
    });
  });

  it("changes with the code of a plugin of the user, and stays with that", () => {
    const withCode = (code: string | undefined): string => {
      const config = load(HEAD + TEXT);
      const hooks = config.hooks.map((hook) => ({ ...hook, definition: { ...hook.definition, code } }));
      return configFingerprint({ ...config, hooks });
    };
    expect(withCode("1")).toBe(withCode("1"));
    expect(withCode("1")).not.toBe(withCode("2"));
    expect(withCode(undefined)).toBe(of(TEXT));
  });
});
