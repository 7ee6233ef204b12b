import { z } from "zod";
import type { PluginRegistry } from "../../base/plugin/registry.ts";
import { envelopeSchema } from "./envelope.ts";
import { TYPES_WITHOUT_EFFECT, whyNoEffect } from "./published.ts";

/** The parts of a type that the schema describes. */
interface Described {
  readonly type: string;
  readonly kind: string;
  readonly describe: string;
  readonly parameters: z.ZodType;
}

type Json = Readonly<Record<string, unknown>>;

/**
 * Returns the JSON Schema (draft 2020-12) of an EndpointPickerConfig for editors: keys, plugin types and the parameters of
 * each. It accepts errors that only the loader can find, such as wrong references.
 */
export function configJsonSchema(registry: PluginRegistry): Json {
  const schema = jsonSchemaOf(envelopeSchema(registry)) as { properties: Record<string, unknown> };
  const types: readonly Described[] = [
    ...registry.types().map((type) => registry.get(type)!),
    ...TYPES_WITHOUT_EFFECT.map((type) => ({
      ...{ type, kind: "without effect", describe: whyNoEffect(type)! },
      parameters: z.strictObject({}),
    })),
  ];
  const entry = {
    type: "object",
    required: ["type"],
    additionalProperties: false,
    properties: {
      name: { description: "Instance name; the type when absent.", type: ["string", "null"] },
      type: { type: "string" },
      module: { description: "Your file that defines the type.", type: ["string", "null"], minLength: 1 },
      parameters: { type: ["object", "null"] },
    },
    // The types of the author's own modules are unknown here.
    if: { required: ["module"] },
    else: {
      properties: {
        type: {
          oneOf: types.map(({ type, kind, describe }) => ({ const: type, description: `${kind}: ${describe}` })),
        },
      },
    },
    allOf: types.map(({ type, parameters }) => ({
      if: { required: ["type"], properties: { type: { const: type } } },
      // biome-ignore lint/suspicious/noThenProperty: it is a keyword of JSON Schema
      then: { properties: { parameters: { anyOf: [strict(jsonSchemaOf(parameters)), { type: "null" }] } } },
    })),
  };
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "EndpointPickerConfig",
    ...schema,
    properties: { ...schema.properties, plugins: { type: ["array", "null"], items: entry } },
  };
}

function jsonSchemaOf(schema: z.ZodType): Json {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
  return rest;
}

/** Refuses unknown keys, like the loader, even where the plugin's author did not. */
function strict(schema: Json): Json {
  return schema["type"] === "object" && !("additionalProperties" in schema)
    ? { ...schema, additionalProperties: false }
    : schema;
}
