import { describe, expect, it } from "vitest";
import { defineScorer } from "../../base/plugin/define.ts";
import { z } from "../../base/plugin/index.ts";
import { PluginRegistry } from "../../base/plugin/registry.ts";
import { configJsonSchema } from "./json-schema.ts";

const REGISTRY = new PluginRegistry([
  defineScorer({ type: "plain-scorer", describe: "Likes all.", create: () => ({ score() {} }) }),
  defineScorer({
    type: "eager-scorer",
    describe: "Likes some.",
    parameters: z.object({ speed: z.number().min(1).default(3).describe("How fast."), mode: z.enum(["a", "b"]) }),
    create: () => ({ score() {} }),
  }),
]);

interface Plugins {
  readonly items: {
    readonly additionalProperties: boolean;
    readonly properties: Readonly<Record<string, unknown>>;
    readonly if: unknown;
    readonly else: { readonly properties: { readonly type: { readonly oneOf: readonly unknown[] } } };
    readonly allOf: readonly { readonly if: unknown; readonly then: unknown }[];
  };
}

describe("the JSON Schema of a configuration", () => {
  const schema = configJsonSchema(REGISTRY) as {
    readonly properties: Readonly<Record<string, unknown>>;
    readonly required: readonly string[];
    readonly additionalProperties: boolean;
  };
  const { items } = schema.properties["plugins"] as Plugins;

  it("knows every section, and nothing else", () => {
    expect(schema.required).toEqual(["apiVersion", "kind"]);
    expect(schema.additionalProperties).toBe(false);
    expect(Object.keys(schema.properties).sort()).toEqual([
      "apiVersion",
      "data",
      "dataLayer",
      "featureGates",
      "flowControl",
      "kind",
      "parser",
      "plugins",
      "requestHandler",
      "saturationDetector",
      "schedulingProfiles",
    ]);
    expect(schema.properties["apiVersion"]).toMatchObject({
      enum: ["llm-d.ai/v1alpha1", "llm-d.ai/v1", "inference.networking.x-k8s.io/v1alpha1"],
    });
  });

  it("offers the plugin types with what each is for", () => {
    const { oneOf } = items.else.properties.type;
    expect(oneOf.slice(0, 2)).toEqual([
      { const: "eager-scorer", description: "scorer: Likes some." },
      { const: "plain-scorer", description: "scorer: Likes all." },
    ]);
    expect(oneOf[2]).toEqual({
      const: "sheddable-eviction-filter",
      description:
        "without effect: with flowControl.enableEviction, flow control evicts requests of negative priority: the lowest priority first, then the newest",
    });
    expect(items.additionalProperties).toBe(false);
  });

  it("leaves the types of modules open", () => {
    expect(items.if).toEqual({ required: ["module"] });
    expect(items.properties["type"]).toEqual({ type: "string" });
    expect(items.properties["module"]).toMatchObject({ type: ["string", "null"], minLength: 1 });
  });

  it("knows the sources of metrics", () => {
    expect(schema.properties["dataLayer"]).toMatchObject({
      anyOf: [
        {
          properties: {
            injectDefaults: { type: ["boolean", "null"] },
            sources: {
              anyOf: [
                { items: { required: ["pluginRef"], properties: { extractors: { anyOf: [{ type: "array" }, {}] } } } },
                {},
              ],
            },
          },
        },
        { type: "null" },
      ],
    });
  });

  it("has the parameters of each type as a file gives them: defaults may be left away, unknown keys are none", () => {
    expect(items.allOf.slice(0, 2)).toEqual([
      {
        if: { required: ["type"], properties: { type: { const: "eager-scorer" } } },
        // biome-ignore lint/suspicious/noThenProperty: it is a keyword of JSON Schema
        then: {
          properties: {
            parameters: {
              anyOf: [
                {
                  type: "object",
                  properties: {
                    speed: { type: "number", minimum: 1, default: 3, description: "How fast." },
                    mode: { type: "string", enum: ["a", "b"] },
                  },
                  required: ["mode"],
                  additionalProperties: false,
                },
                { type: "null" },
              ],
            },
          },
        },
      },
      {
        if: { required: ["type"], properties: { type: { const: "plain-scorer" } } },
        // biome-ignore lint/suspicious/noThenProperty: it is a keyword of JSON Schema
        then: {
          properties: {
            parameters: { anyOf: [{ type: "object", properties: {}, additionalProperties: false }, { type: "null" }] },
          },
        },
      },
    ]);
  });
});
