import { Environment, type ParseResult } from "@marcbachmann/cel-js";
import { isObject, type Json, same } from "./object.ts";
import type { Cause } from "./refusal.ts";
import { type CelRule, fieldSchema, type Schema } from "./schema.ts";

const environment = new Environment({ enableOptionalTypes: true })
  .registerVariable("self", "dyn")
  .registerVariable("oldSelf", "dyn");
const programs = new Map<string, ParseResult>();

function program(text: string): ParseResult {
  let found = programs.get(text);
  if (found === undefined) {
    found = environment.parse(text);
    programs.set(text, found);
  }
  return found;
}

/** Why a rule cannot be compiled; undefined = it can. */
export function ruleProblem({ rule }: CelRule): string | undefined {
  try {
    const { valid, error } = program(rule).check();
    return valid ? undefined : (error?.message ?? "not valid");
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** Whether a schema has rules anywhere. */
export function hasRules(schema: Schema): boolean {
  if ((schema["x-kubernetes-validations"] ?? []).length > 0) return true;
  const inner = [...Object.values(schema.properties ?? {}), schema.items, schema.additionalProperties];
  return inner.some((each) => typeof each === "object" && hasRules(each));
}

/**
 * Asks the rules in CEL of a schema.
 * @param old the value that is replaced; undefined = there is none, and rules that speak of it are not asked
 */
export function checkRules(schema: Schema, value: unknown, old: unknown, path = ""): Cause[] {
  if (value === undefined || value === null) return [];
  const causes: Cause[] = [];
  for (const rule of schema["x-kubernetes-validations"] ?? []) {
    const cause = ask(rule, schema, value, old, path);
    if (cause !== undefined) causes.push(cause);
  }
  if (Array.isArray(value) && schema.items !== undefined) {
    for (const [at, item] of value.entries()) {
      causes.push(...checkRules(schema.items, item, oldItem(schema, old, item), `${path}[${at}]`));
    }
  } else if (isObject(value)) {
    for (const [name, inner] of Object.entries(value)) {
      const known = fieldSchema(schema, name);
      if (known === undefined) continue;
      causes.push(
        ...checkRules(known, inner, isObject(old) ? old[name] : undefined, path === "" ? name : `${path}.${name}`),
      );
    }
  }
  return causes;
}

function ask(rule: CelRule, schema: Schema, value: unknown, old: unknown, path: string): Cause | undefined {
  if (/\boldSelf\b/.test(rule.rule) && (old === undefined || old === null)) return undefined;
  const field = path + (rule.fieldPath ?? "");
  const variables = { self: celValue(schema, value), oldSelf: celValue(schema, old ?? null) };
  const cause = (message: string): Cause => ({
    reason: rule.reason ?? "FieldValueInvalid",
    message: `Invalid value: "${schema.type}": ${message}`,
    field: field === "" ? "<nil>" : field,
  });
  try {
    if (program(rule.rule)(variables) === true) return undefined;
    const told = rule.messageExpression && program(rule.messageExpression)(variables);
    return cause(typeof told === "string" ? told : (rule.message ?? `failed rule: ${rule.rule}`));
  } catch (error) {
    const why = error instanceof Error ? error.message.split("\n")[0] : String(error);
    return cause(`${why} evaluating rule: ${rule.message ?? rule.rule}`);
  }
}

/** A value with the types of CEL: whole numbers are ints unless the schema has doubles. */
function celValue(schema: Schema | undefined, value: unknown): unknown {
  if (typeof value === "number") {
    return schema?.type !== "number" && Number.isInteger(value) ? BigInt(value) : value;
  }
  if (Array.isArray(value)) return value.map((item) => celValue(schema?.items, item));
  if (!isObject(value)) return value;
  const object: Json = {};
  for (const [name, inner] of Object.entries(value)) object[name] = celValue(fieldSchema(schema, name), inner);
  return object;
}

/** Items are told again only in lists whose items have keys. */
function oldItem(schema: Schema, old: unknown, item: unknown): unknown {
  if (schema["x-kubernetes-list-type"] !== "map" || !Array.isArray(old) || !isObject(item)) return undefined;
  const keys = schema["x-kubernetes-list-map-keys"] ?? [];
  return old.find((other) => isObject(other) && keys.every((key) => same(other[key], item[key])));
}
