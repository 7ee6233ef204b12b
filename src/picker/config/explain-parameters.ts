import { z } from "zod";
import type { Path } from "../../base/document/document.ts";
import type { PluginDefinition } from "../../base/plugin/kinds.ts";

/**
 * Completes given parameters with the defaults of the schema.
 * @param where returns the origin of a given value, by its path in the parameters
 * @param note called with the origin of each value, by its path in the parameters
 * @returns undefined when there are none
 */
export function completeParameters(
  { parameters: schema }: PluginDefinition,
  given: Readonly<Record<string, unknown>>,
  where: (path: Path) => string,
  note: (path: Path, origin: string) => void,
): Readonly<Record<string, unknown>> | undefined {
  const known = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }) as Known;
  const complete = (value: unknown, described: Known | undefined, path: Path, origin: typeof where): unknown => {
    if (value === undefined || value === null)
      return described?.default === undefined
        ? undefined
        : complete(described.default, { ...described, default: undefined }, path, () => "default");
    const inside = Array.isArray(value)
      ? value.map((item, at) => [at, item, described?.items] as const)
      : parts(value, described);
    const out: Record<string | number, unknown> = Array.isArray(value) ? ([] as never) : {};
    for (const [key, part, known] of inside) {
      const inner = complete(part, known, [...path, key], origin);
      if (inner !== undefined) out[key] = inner;
    }
    if (typeof value === "object" && Object.keys(out).length > 0) return out;
    note(path, origin(path));
    return value;
  };
  const parameters = parts(given, known).map(
    ([key, part, inner]) => [key, complete(part, inner, [key], where)] as const,
  );
  const there = parameters.filter(([, value]) => value !== undefined);
  return there.length === 0 ? undefined : Object.fromEntries(there);
}

/** Returns the entries of a mapping and the further ones that its schema knows, each with its schema; none for other values. */
function parts(value: unknown, known: Known | undefined): (readonly [string, unknown, Known | undefined])[] {
  if (typeof value !== "object" || value === null) return [];
  const keys = new Set([...Object.keys(value), ...Object.keys(known?.properties ?? {})]);
  return [...keys].map((key) => [key, (value as Readonly<Record<string, unknown>>)[key], known?.properties?.[key]]);
}

/** The parts of a JSON Schema that this file reads. */
interface Known {
  readonly default?: unknown;
  readonly items?: Known;
  readonly properties?: Readonly<Record<string, Known>>;
}
