import { isObject, type Json, same } from "./object.ts";
import type { Cause } from "./refusal.ts";
import { fieldSchema, type Schema } from "./schema.ts";

/** What breaks a schema. */
export interface Verdict {
  readonly causes: Cause[];
  /** Rules in CEL cannot be asked: a field is missing, of another type, too long or too many. */
  blocking: boolean;
}

const BLOCKING = ["FieldValueRequired", "FieldValueTypeInvalid", "FieldValueTooLong", "FieldValueTooMany"];
const INT32 = 2 ** 31;

/** Holds a value against its schema, rules in CEL excepted. Messages are worded as the API server's. */
export function validate(schema: Schema, value: unknown, path = ""): Verdict {
  const verdict: Verdict = { causes: [], blocking: false };
  check(schema, value, path, verdict);
  verdict.blocking = verdict.causes.some(({ reason }) => BLOCKING.includes(reason));
  return verdict;
}

function check(schema: Schema, value: unknown, path: string, verdict: Verdict): void {
  const say = (reason: string, message: string, field = path): void => {
    verdict.causes.push({ reason: `FieldValue${reason}`, message, field: field === "" ? "<nil>" : field });
  };
  const wrong = (rule: string, shown: unknown = value): void =>
    say("Invalid", `Invalid value: ${JSON.stringify(shown)}: ${path} in body ${rule}`);
  if (value === null && schema.nullable) return;
  if (!hasType(schema, value)) {
    const actual = typeOf(value);
    say("TypeInvalid", `Invalid value: "${actual}": ${path} in body must be of type ${schema.type}: "${actual}"`);
    return;
  }
  if (schema.enum !== undefined && !schema.enum.some((each) => same(each, value))) {
    const supported = schema.enum.map((each) => JSON.stringify(each)).join(", ");
    say("NotSupported", `Unsupported value: ${JSON.stringify(value)}: supported values: ${supported}`);
  }
  if (typeof value === "number") checkNumber(schema, value, path, wrong, say);
  else if (typeof value === "string") checkText(schema, value, path, wrong, say);
  else if (Array.isArray(value)) checkList(schema, value, path, verdict, wrong, say);
  else if (isObject(value)) checkFields(schema, value, path, verdict, wrong, say);
  checkJunctors(schema, value, path, verdict, wrong);
}

type Wrong = (rule: string, shown?: unknown) => void;
type Say = (reason: string, message: string, field?: string) => void;

function checkNumber(schema: Schema, value: number, path: string, wrong: Wrong, say: Say): void {
  const { minimum, maximum, multipleOf } = schema;
  if (minimum !== undefined && (schema.exclusiveMinimum ? value <= minimum : value < minimum)) {
    wrong(`should be greater than ${schema.exclusiveMinimum ? "" : "or equal to "}${minimum}`);
  }
  if (maximum !== undefined && (schema.exclusiveMaximum ? value >= maximum : value > maximum)) {
    wrong(`should be less than ${schema.exclusiveMaximum ? "" : "or equal to "}${maximum}`);
  }
  if (multipleOf !== undefined && value % multipleOf !== 0) wrong(`should be a multiple of ${multipleOf}`);
  if (schema.format === "int32" && (value < -INT32 || value >= INT32)) {
    const rule = `Checked value must be of type integer with format int32 in ${path}`;
    say("TypeInvalid", `Invalid value: ${value}: ${rule}`);
  }
}

const FORMATS: Readonly<Record<string, RegExp>> = {
  "date-time": /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$/,
  // Of built-in kinds: a time that is not written so cannot be read.
  "micro-time": /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)$/,
};

function checkText(schema: Schema, value: string, path: string, wrong: Wrong, say: Say): void {
  const { minLength, maxLength, pattern, format } = schema;
  const length = [...value].length;
  if (maxLength !== undefined && length > maxLength)
    say("TooLong", `Too long: may not be more than ${maxLength} bytes`);
  if (minLength !== undefined && length < minLength) wrong(`should be at least ${minLength} chars long`);
  if (pattern !== undefined && !new RegExp(pattern, "u").test(value)) wrong(`should match '${pattern}'`);
  if (format !== undefined && FORMATS[format] !== undefined && !FORMATS[format].test(value)) {
    const shown = JSON.stringify(value);
    say("TypeInvalid", `Invalid value: ${shown}: ${path} in body must be of type ${format}: ${shown}`);
  }
}

function checkList(schema: Schema, list: unknown[], path: string, verdict: Verdict, wrong: Wrong, say: Say): void {
  const { minItems, maxItems, items } = schema;
  if (maxItems !== undefined && list.length > maxItems) {
    say("TooMany", `Too many: ${list.length}: must have at most ${maxItems} items`);
  }
  if (minItems !== undefined && list.length < minItems) wrong(`should have at least ${minItems} items`, list.length);
  const identities = list.map((item) => identity(schema, item));
  for (const [at, item] of list.entries()) {
    const own = identities[at];
    if (own !== undefined && identities.slice(0, at).some((other) => same(own, other))) {
      say("Duplicate", `Duplicate value: ${JSON.stringify(own)}`, `${path}[${at}]`);
    }
    if (items !== undefined) check(items, item, `${path}[${at}]`, verdict);
  }
}

/** What no two items of a list may share; undefined = nothing. */
function identity(schema: Schema, item: unknown): unknown {
  if (schema["x-kubernetes-list-type"] === "set" || schema.uniqueItems) return item;
  if (schema["x-kubernetes-list-type"] !== "map" || !isObject(item)) return undefined;
  return Object.fromEntries((schema["x-kubernetes-list-map-keys"] ?? []).map((key) => [key, item[key]]));
}

function checkFields(schema: Schema, object: Json, path: string, verdict: Verdict, wrong: Wrong, say: Say): void {
  const inner = (name: string): string => (path === "" ? name : `${path}.${name}`);
  const names = Object.keys(object);
  const { minProperties, maxProperties } = schema;
  if (maxProperties !== undefined && names.length > maxProperties) {
    say("TooMany", `Too many: ${names.length}: must have at most ${maxProperties} items`);
  }
  if (minProperties !== undefined && names.length < minProperties) {
    wrong(`should have at least ${minProperties} properties`, names.length);
  }
  for (const name of schema.required ?? []) {
    if (object[name] === undefined) say("Required", "Required value", inner(name));
  }
  for (const name of names) {
    const known = fieldSchema(schema, name);
    if (known !== undefined) check(known, object[name], inner(name), verdict);
  }
}

function checkJunctors(schema: Schema, value: unknown, path: string, verdict: Verdict, wrong: Wrong): void {
  const fits = (each: Schema): boolean => validate(each, value, path).causes.length === 0;
  for (const each of schema.allOf ?? []) check(each, value, path, verdict);
  if (schema.anyOf !== undefined && !schema.anyOf.some(fits)) wrong("must validate at least one schema (anyOf)");
  if (schema.oneOf !== undefined && schema.oneOf.filter(fits).length !== 1) {
    wrong("must validate one and only one schema (oneOf)");
  }
  if (schema.not !== undefined && fits(schema.not)) wrong("must not validate the schema (not)");
}

function hasType(schema: Schema, value: unknown): boolean {
  if (schema["x-kubernetes-int-or-string"]) return typeof value === "string" || Number.isInteger(value);
  switch (schema.type) {
    case undefined:
      return true;
    case "integer":
      return Number.isInteger(value);
    default:
      return schema.type === typeOf(value) || (schema.type === "number" && typeof value === "number");
  }
}

function typeOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return Number.isInteger(value) ? "integer" : typeof value;
}
