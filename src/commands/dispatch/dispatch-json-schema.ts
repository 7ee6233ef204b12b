import { z } from "zod";
import { POOL } from "../../async/dispatch/config/options.ts";
import {
  queueList,
  TRANSPORT_SCHEMAS,
  TRANSPORTS,
  type TransportName,
} from "../../async/dispatch/config/transport-fields.ts";
import { MERGE_POLICIES } from "../../async/dispatch/merge/policy-file.ts";
import { GCS_PARAMETERS } from "../../async/dispatch/transforms/gcs-uri-multipart.ts";
import { METRIC_GATES, VERDICT_GATES } from "../../async/gates/builtin-gates.ts";
import type { FlagRow } from "../common/go-flags.ts";
import { FILE_FLAGS } from "./dispatch-settings.ts";

type Json = Readonly<Record<string, unknown>>;

const GATES = [...VERDICT_GATES, ...METRIC_GATES];
const TYPE = { enum: ["", null, ...GATES.map(({ type }) => type).sort()] };

/**
 * Returns the JSON Schema (draft 2020-12) of a dispatch.yaml for editors: flags, transports, gates inside gates. It accepts errors
 * that only `sluice validate` can find, such as a queue of a worker pool that does not exist.
 */
export function dispatchJsonSchema(): Json {
  const lists = [...new Set(TRANSPORTS.map(queueList))];
  const known = { items: { properties: { gate_type: TYPE } } };
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "dispatch.yaml of sluice dispatch",
    type: "object",
    additionalProperties: false,
    properties: {
      ...Object.fromEntries(FILE_FLAGS.map((row) => [row.name, flagOf(row)])),
      transport: { enum: TRANSPORTS, description: "Store of the queues." },
      "transport-config": { type: "object", description: "The queues." },
      "pool-config": { type: "array", description: "Worker pools.", items: gated(objectOf(POOL)) },
      "request-merge-policy-config": mergePolicy(),
      "transform-config": transforms(),
      plugins: {
        type: "array",
        description: "Modules with your own gates and metric sources.",
        items: { type: "string", minLength: 1 },
      },
    },
    allOf: [
      ...TRANSPORTS.map((name) => when({ transport: name }, { "transport-config": transport(name) })),
      {
        // Modules may have further types of gates.
        if: { required: ["plugins"] },
        else: {
          properties: {
            "pool-config": known,
            "transport-config": { properties: Object.fromEntries(lists.map((list) => [list, known])) },
          },
        },
      },
    ],
    $defs: {
      gate: gated({
        type: "object",
        additionalProperties: false,
        required: ["gate_type"],
        properties: { gate_type: { type: "string", minLength: 1 }, gate_params: {} },
      }),
    },
  };
}

/** A value in a file as `flagSchema` takes it. */
function flagOf({ type, choices, min, max, help, default: standard }: FlagRow): Json {
  const bounds = { ...(min === undefined ? {} : { minimum: min }), ...(max === undefined ? {} : { maximum: max }) };
  const described = { description: help };
  switch (type) {
    case "bool":
      return { type: "boolean", ...described, default: standard === "true" };
    case "int":
      return { type: "integer", ...bounds, ...described, ...(standard === "" ? {} : { default: Number(standard) }) };
    case "duration":
      return { anyOf: [{ type: "string" }, { const: 0 }], ...described, default: standard };
    case "quantity":
      return { type: ["string", "integer"], ...described, default: standard };
    case "list":
      return { type: "array", items: { type: "string" }, ...described };
    case "string":
      return { ...(choices === undefined ? { type: "string" } : { enum: choices }), ...described, default: standard };
  }
}

function transport(name: TransportName): Json {
  const list = queueList(name);
  const schema: z.ZodObject = TRANSPORT_SCHEMAS[name];
  const whole = objectOf(schema);
  const entry = objectOf((schema.shape[list] as z.ZodArray<z.ZodObject>).element);
  const entries = { ...(whole["properties"] as Record<string, Json>)[list], items: gated(entry) };
  return { ...whole, properties: { ...(whole["properties"] as object), [list]: entries } };
}

function mergePolicy(): Json {
  const types = Object.entries(MERGE_POLICIES);
  return {
    type: "object",
    description: "The order of requests of several queues.",
    required: ["type"],
    additionalProperties: false,
    properties: { type: { enum: types.map(([type]) => type) }, parameters: { type: ["object", "null"] } },
    allOf: types.map(([type, schema]) =>
      when({ type }, { parameters: { anyOf: [objectOf(schema), { type: "null" }] } }),
    ),
  };
}

function transforms(): Json {
  const entry = {
    type: "object",
    required: ["name", "type", "parameters"],
    additionalProperties: false,
    properties: {
      name: { type: "string", minLength: 1 },
      type: { enum: ["gcs_uri_multipart"] },
      parameters: objectOf(GCS_PARAMETERS),
    },
  };
  return {
    type: "object",
    description: "Transforms of request bodies.",
    additionalProperties: false,
    properties: { requestTransforms: { type: ["array", "null"], items: entry } },
  };
}

/** An entry with `gate_type` and `gate_params`: the type decides which parameters there are. */
function gated(entry: Json): Json {
  const { description } = (entry["properties"] as Record<string, Json>)["gate_params"] ?? {};
  const properties = {
    ...(entry["properties"] as object),
    gate_params: { type: ["object", "string", "null"], description },
  };
  const rules = GATES.map(({ type, parameters }) =>
    when({ gate_type: type }, { gate_params: { anyOf: [parametersOf(parameters), { type: ["string", "null"] }] } }),
  );
  return { ...entry, properties, allOf: rules };
}

/** The parameters of a gate. Each may be JSON or its text, and null or an empty text means the default. */
function parametersOf(schema: z.ZodType): Json {
  const { properties = {} } = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }) as {
    properties?: Record<string, { type?: string; words?: string[]; holds?: string; [key: string]: unknown }>;
  };
  const { shape = {} } = schema as z.ZodObject;
  const entries = Object.entries(properties).map(([name, { type = "", words, holds, ...rest }]) => {
    const types = type.split(" or ");
    const others = { type: [...types.filter((each) => each !== "object" && each !== "array"), "null"] };
    const inner = { $ref: "#/$defs/gate" };
    if (words !== undefined) return [name, { enum: [...words, "", null], ...rest }] as const;
    if (holds === undefined) return [name, { type: [...types, "null"], ...rest }] as const;
    return [name, { anyOf: [holds === "gate" ? inner : { type: "array", items: inner }, others], ...rest }] as const;
  });
  const required = Object.keys(shape).filter((name) => !(shape[name] as z.ZodType).safeParse(undefined).success);
  return { type: "object", additionalProperties: false, required, properties: Object.fromEntries(entries) };
}

/** The keys of a section, with the defaults that its schema gives. */
function objectOf(schema: z.ZodObject): Json {
  const { $schema: _dialect, ...json } = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
  const properties = Object.entries(json.properties ?? {}).map(([name, property]) => {
    const absent = (schema.shape[name] as z.ZodType).safeParse(undefined);
    const given = absent.success ? absent.data : undefined;
    return [
      name,
      given === undefined || given === "" ? property : { ...(property as object), default: given },
    ] as const;
  });
  return { ...json, additionalProperties: false, properties: Object.fromEntries(properties) };
}

/** Where the properties have these values, others have these schemas. */
function when(values: Readonly<Record<string, string>>, then: Readonly<Record<string, Json>>): Json {
  const constants = Object.entries(values).map(([key, value]) => [key, { const: value }] as const);
  return {
    if: { required: Object.keys(values), properties: Object.fromEntries(constants) },
    // biome-ignore lint/suspicious/noThenProperty: it is a keyword of JSON Schema
    then: { properties: then },
  };
}
