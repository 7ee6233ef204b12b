import type { Target } from "./call.ts";
import { checkRules, hasRules } from "./cel.ts";
import { crdProblems } from "./crd.ts";
import { dropNulls, fillDefaults, prune } from "./decode.ts";
import { CRD_KIND } from "./kind.ts";
import { type ApiObject, isObject } from "./object.ts";
import { type Cause, invalid, Refusal } from "./refusal.ts";
import { validate } from "./validate.ts";

const SKIPPED: Cause = {
  reason: "FieldValueInvalid",
  field: "<nil>",
  message:
    'Invalid value: "null": some validation rules were not checked because the object was invalid; correct the existing ' +
    "errors to complete validation",
};

/**
 * Brings an object, in place, into the form in which it is kept, and holds it against the rules of its kind: unknown
 * fields, nulls, defaults, schema, rules in CEL, in this order (api-resources 1.10).
 * @param old what it replaces
 * @param strict refuse unknown fields
 * @returns unknown fields that were dropped
 * @throws Refusal 400 for unknown fields, 422
 */
export function admit(
  { kind, version }: Target,
  object: ApiObject,
  old: ApiObject | undefined,
  strict: boolean,
): string[] {
  const { schema } = version;
  const unknown = prune(schema, object);
  if (strict && unknown.length > 0) {
    const list = unknown.map((path) => `unknown field "${path}"`).join(", ");
    const head = `${kind.kind} in version "${version.name}" cannot be handled as a ${kind.kind}`;
    throw new Refusal(400, `${head}: strict decoding error: ${list}`);
  }
  dropNulls(schema, object);
  fillDefaults(schema, object);
  const { causes, blocking } = validate(schema, object);
  if (hasRules(schema)) causes.push(...(blocking ? [SKIPPED] : checkRules(schema, object, old)));
  if (kind === CRD_KIND) causes.push(...crdProblems(object));
  causes.push(...metadataProblems(object));
  if (causes.length > 0) throw invalid(kind, object.metadata.name, causes);
  return unknown;
}

const LABEL_VALUE = /^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$/;
const LABEL_KEY = /^([a-z0-9]([-a-z0-9.]*[a-z0-9])?\/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$/;
const NAME = /^[a-z0-9]([-a-z0-9.:]*[a-z0-9])?$/;

function metadataProblems({ metadata }: ApiObject): Cause[] {
  const causes: Cause[] = [];
  const bad = (field: string, value: unknown, why: string): void => {
    causes.push({ reason: "FieldValueInvalid", field, message: `Invalid value: ${JSON.stringify(value)}: ${why}` });
  };
  if (metadata.name.length > 253 || !NAME.test(metadata.name)) {
    const why = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'";
    bad("metadata.name", metadata.name, `${why}, and must start and end with an alphanumeric character`);
  }
  for (const [key, value] of Object.entries(isObject(metadata.labels) ? metadata.labels : {})) {
    if (!LABEL_KEY.test(key))
      bad("metadata.labels", key, "name part must consist of alphanumeric characters, '-', '_' or '.'");
    if (typeof value !== "string" || value.length > 63 || !LABEL_VALUE.test(value)) {
      bad("metadata.labels", value, "a valid label must be an empty string or consist of alphanumeric characters");
    }
  }
  return causes;
}
