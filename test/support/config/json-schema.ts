/** The words of JSON Schema that schemas for editors use. */
interface Schema {
  readonly [keyword: string]: unknown;
}

/**
 * Paths at which a value breaks a JSON Schema, as an editor marks them: slow and plain, for the words that our schemas use.
 * @throws Error for a word that it does not know
 */
export function schemaFaults(value: unknown, schema: unknown, root: unknown = schema, path = ""): readonly string[] {
  if (schema === true) return [];
  if (schema === false) return [path];
  const rules = schema as Schema;
  const inside = (inner: unknown, at = path): readonly string[] => schemaFaults(value, inner, root, at);
  const fits = (inner: unknown): boolean => inside(inner).length === 0;
  const faults: string[] = [];
  const must = (holds: boolean): void => {
    if (!holds) faults.push(path);
  };
  const members = isObject(value) ? value : {};
  for (const [word, rule] of Object.entries(rules)) {
    switch (word) {
      case "$ref":
        faults.push(...inside(lookUp(root, String(rule))));
        break;
      case "type":
        must([rule].flat().some((type) => isOf(value, String(type))));
        break;
      case "const":
        must(value === rule);
        break;
      case "enum":
        must((rule as readonly unknown[]).includes(value));
        break;
      case "minimum":
        must(typeof value !== "number" || value >= Number(rule));
        break;
      case "maximum":
        must(typeof value !== "number" || value <= Number(rule));
        break;
      case "exclusiveMinimum":
        must(typeof value !== "number" || value > Number(rule));
        break;
      case "minLength":
        must(typeof value !== "string" || value.length >= Number(rule));
        break;
      case "pattern":
        must(typeof value !== "string" || new RegExp(String(rule)).test(value));
        break;
      case "minItems":
        must(!Array.isArray(value) || value.length >= Number(rule));
        break;
      case "maxItems":
        must(!Array.isArray(value) || value.length <= Number(rule));
        break;
      case "anyOf":
        must((rule as readonly unknown[]).some(fits));
        break;
      case "allOf":
        for (const inner of rule as readonly unknown[]) faults.push(...inside(inner));
        break;
      case "if":
        faults.push(...inside((fits(rule) ? rules["then"] : rules["else"]) ?? true));
        break;
      case "required":
        for (const name of rule as readonly string[])
          if (isObject(value) && !Object.hasOwn(value, name)) faults.push(`${path}/${name}`);
        break;
      case "properties":
        for (const [name, inner] of Object.entries(rule as Schema))
          if (Object.hasOwn(members, name)) faults.push(...schemaFaults(members[name], inner, root, `${path}/${name}`));
        break;
      case "additionalProperties":
        for (const [name, member] of Object.entries(members))
          if (!Object.hasOwn((rules["properties"] as object) ?? {}, name))
            faults.push(...schemaFaults(member, rule, root, `${path}/${name}`));
        break;
      case "items":
        if (Array.isArray(value))
          value.forEach((item, at) => {
            faults.push(...schemaFaults(item, rule, root, `${path}/${at}`));
          });
        break;
      // The pattern beside it says the same.
      case "format":
      case "propertyNames":
      case "then":
      case "else":
      case "$schema":
      case "$defs":
      case "title":
      case "description":
      case "default":
        break;
      default:
        throw new Error(`unknown word ${word} at ${path}`);
    }
  }
  return [...new Set(faults)];
}

function lookUp(root: unknown, reference: string): unknown {
  const parts = reference.replace(/^#\//, "").split("/");
  return parts.reduce((at, part) => (at as Schema)[part], root);
}

function isOf(value: unknown, type: string): boolean {
  switch (type) {
    case "object":
      return isObject(value);
    case "array":
      return Array.isArray(value);
    case "null":
      return value === null;
    case "integer":
      return Number.isInteger(value);
    default:
      return { string: "string", number: "number", boolean: "boolean" }[type] === typeof value;
  }
}

function isObject(value: unknown): value is Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
