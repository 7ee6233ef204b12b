import type { z } from "zod";
import { messageOf, SluiceError } from "../inference/errors.ts";
import { type Document, formatPath, formatPosition, type Path } from "./document.ts";
import { didYouMean } from "./nearest.ts";

/** Most violations that one message lists; the message counts the rest. */
const MAX_LISTED = 50;

/** One violation in a document: its place and its text. */
export interface Violation {
  readonly path: Path;
  readonly problem: string;
}

/**
 * Checks a document against a schema.
 * @param options.what the kind of file, for the message: "endpoints file"
 * @returns the schema's output
 * @throws SluiceError DOCUMENT_INVALID: the message lists every violation as `file:line:column: path: problem`
 */
export function validate<S extends z.ZodType>(
  document: Document,
  schema: S,
  { what }: { readonly what: string },
): z.output<S> {
  const violations: Violation[] = [];
  const value = check(document.value, schema, [], violations);
  if (value === undefined) throw invalid(document, violations, what);
  return value.output;
}

/**
 * Checks a part of a document, for callers that collect violations of several parts.
 * @param at path of `value` in its document
 * @param into receives the violations found
 * @returns the schema's output, or undefined when there were violations
 */
export function check<S extends z.ZodType>(
  value: unknown,
  schema: S,
  at: Path,
  into: Violation[],
): { readonly output: z.output<S> } | undefined {
  let result: z.ZodSafeParseResult<z.output<S>>;
  try {
    result = schema.safeParse(value, { reportInput: true, error: explainIssue });
  } catch (error) {
    // A user's schema may hold the user's code, which may fail or return a promise.
    into.push({ path: at, problem: `the check of this value failed: ${messageOf(error)}` });
    return undefined;
  }
  if (result.success) return { output: result.data };
  collect(result.error.issues, schema, at, [], into);
  return undefined;
}

/** Whether a problem from `check` is a key that the schema does not know. */
export function isUnknownKey(problem: string): boolean {
  return problem.startsWith("unknown key ");
}

/** The error for violations of one document, listed in the order of the file. */
export function invalid(document: Document, violations: readonly Violation[], what: string): SluiceError {
  return invalidParts([{ document, violations }], what);
}

/** The error for violations of several documents of one file. */
export function invalidParts(
  parts: Iterable<{ readonly document: Document; readonly violations: readonly Violation[] }>,
  what: string,
): SluiceError {
  const placed = [];
  for (const { document, violations } of parts)
    for (const { path, problem } of violations)
      placed.push({ position: document.positionOf(path), path: formatPath(path), problem });
  placed.sort((a, b) => a.position.line - b.position.line || a.position.column - b.position.column);
  const lines = placed
    .slice(0, MAX_LISTED)
    .map(({ position, path, problem }) => `${formatPosition(position)}: ${path === "" ? "" : `${path}: `}${problem}`);
  if (placed.length > MAX_LISTED) lines.push(`... and ${placed.length - MAX_LISTED} more`);
  const message =
    lines.length === 1
      ? `invalid ${what}: ${lines[0]}`
      : `invalid ${what}, ${placed.length} problems:${lines.map((line) => `\n  ${line}`).join("")}`;
  return new SluiceError("DOCUMENT_INVALID", message);
}

type Issues = readonly z.core.$ZodIssue[];

/** @param within path inside the value that `schema` describes */
function collect(issues: Issues, schema: z.ZodType, at: Path, within: Path, into: Violation[]): void {
  for (const issue of issues) {
    const inner = [...within, ...issue.path.filter((step) => typeof step !== "symbol")];
    if (issue.code === "unrecognized_keys") {
      const known = knownKeys(schema, inner);
      for (const key of issue.keys)
        into.push({
          path: [...at, ...inner, key],
          problem: `unknown key \`${key}\`${missingSpace(key) || didYouMean(key, known)}`,
        });
    } else if (issue.code === "invalid_union") collectUnion(issue, schema, at, inner, into);
    else into.push({ path: [...at, ...inner], problem: issue.message });
  }
}

/** Of a union, only the alternative that matches furthest is reported, and only when a single alternative does. */
function collectUnion(
  issue: z.core.$ZodIssueInvalidUnion,
  schema: z.ZodType,
  at: Path,
  inner: Path,
  into: Violation[],
): void {
  const reached = issue.errors.filter((alternative) =>
    alternative.every(({ path, code }) => path.length > 0 || code !== "invalid_type"),
  );
  const best = reached[0];
  if (reached.length === 1 && best !== undefined) collect(best, schema, at, inner, into);
  else {
    const texts = new Set(issue.errors.flat().map(({ message }) => message));
    into.push({ path: [...at, ...inner], problem: texts.size === 0 ? issue.message : [...texts].join(", or ") });
  }
}

const NAMES: Readonly<Record<string, string>> = {
  string: "a string",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  array: "a list",
  tuple: "a list",
  object: "a mapping",
  record: "a mapping",
  null: "null",
};

/**
 * Says what is wrong with a value, in words for a person who edits a file: no zod, no JavaScript. A schema's own `error` has
 * precedence.
 * @returns undefined where zod's own text is good enough
 */
export function explainIssue(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case "invalid_type": {
      const expected = NAMES[issue.expected] ?? issue.expected;
      if (issue.input === undefined) return `is missing (${expected})`;
      const hint = expected === "a mapping" ? missingSpace(issue.input) : "";
      return `expected ${expected}, got ${show(issue.input)}${hint}`;
    }
    case "invalid_value": {
      const allowed = issue.values.map((value) => (typeof value === "string" ? value : String(value)));
      const list = allowed.map((value) => `\`${value}\``).join(", ");
      if (issue.input === undefined) return `is missing (${list})`;
      const hint = typeof issue.input === "string" ? didYouMean(issue.input, allowed) : "";
      return `expected ${allowed.length > 1 ? "one of " : ""}${list}, got ${show(issue.input)}${hint}`;
    }
    case "too_small":
      return limit(issue.origin, issue.inclusive === false ? "more than" : "at least", issue.minimum, issue.input);
    case "too_big":
      return limit(issue.origin, issue.inclusive === false ? "less than" : "at most", issue.maximum, issue.input);
    case "not_multiple_of":
      return `must be a multiple of ${issue.divisor}, got ${show(issue.input)}`;
    default:
      return undefined;
  }
}

function limit(origin: string, relation: string, bound: number | bigint, input: unknown): string {
  if (origin === "string")
    return bound === 1 && relation === "at least" ? "must not be empty" : `must have ${relation} ${bound} characters`;
  if (origin === "array")
    return `must have ${relation} ${bound} entries, has ${Array.isArray(input) ? input.length : "?"}`;
  return `must be ${relation} ${bound}, got ${show(input)}`;
}

/** `; write a space after the colon: ...` for `type:x`, which YAML reads as one text; nothing for every other value. */
function missingSpace(value: unknown): string {
  const parts = typeof value === "string" && value.length <= 80 ? /^([\w.-]+):([^\s:/].*)$/.exec(value) : null;
  return parts === null ? "" : `; write a space after the colon: \`${parts[1]}: ${parts[2]}\``;
}

/** A value for a message: short, its kind recognisable. */
function show(value: unknown): string {
  if (value === null) return "nothing";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object") return "a mapping";
  const text = typeof value === "string" ? `the string ${JSON.stringify(value)}` : String(value);
  return text.length <= 80 ? text : `${text.slice(0, 77)}...`;
}

type Schema = z.core.$ZodTypes;

/**
 * The keys that a schema knows at a place. The place is the object at the end of `path`, in every alternative of a union on the
 * way. Empty where the schema hides its keys.
 */
export function knownKeys(schema: z.core.$ZodType, path: Path): string[] {
  let at = [schema];
  for (const step of path) at = at.flatMap(unwrap).flatMap((outer) => child(outer, step));
  const keys = at
    .flatMap(unwrap)
    .flatMap((found) => (found._zod.def.type === "object" ? Object.keys(found._zod.def.shape) : []));
  return [...new Set(keys)];
}

/** The schemas of a value behind defaults, transforms, alternatives and the like. */
function unwrap(schema: z.core.$ZodType): Schema[] {
  const known = schema as Schema;
  const def = known._zod.def;
  switch (def.type) {
    case "optional":
    case "nullable":
    case "default":
    case "prefault":
    case "nonoptional":
    case "readonly":
    case "catch":
      return unwrap(def.innerType);
    case "pipe":
      // A preprocessing step comes first and has no keys. The schema behind it has them.
      return unwrap((def.in as Schema)._zod.def.type === "transform" ? def.out : def.in);
    case "lazy":
      return unwrap(def.getter());
    case "union":
      return def.options.flatMap(unwrap);
    case "intersection":
      return [...unwrap(def.left), ...unwrap(def.right)];
    default:
      return [known];
  }
}

function child(schema: Schema, step: string | number): z.core.$ZodType[] {
  const def = schema._zod.def;
  switch (def.type) {
    case "object": {
      const inner = def.shape[step];
      return inner === undefined ? [] : [inner];
    }
    case "array":
      return [def.element];
    case "tuple": {
      const inner = def.items[Number(step)] ?? def.rest;
      return inner === null || inner === undefined ? [] : [inner];
    }
    case "record":
      return [def.valueType];
    default:
      return [];
  }
}
