import type { z } from "zod";
import { didYouMean } from "./nearest.ts";

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
 * Says what is wrong with a value in words for somebody who edits a file: no zod, no JavaScript. A schema's own `error`
 * goes before it.
 * @returns undefined where zod's own text will do
 */
export function explainIssue(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case "invalid_type": {
      const expected = NAMES[issue.expected] ?? issue.expected;
      return issue.input === undefined ? `is missing (${expected})` : `expected ${expected}, got ${show(issue.input)}`;
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

/** A value as it may stand in a message: short, its kind recognisable. */
function show(value: unknown): string {
  if (value === null) return "nothing";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object") return "a mapping";
  const text = typeof value === "string" ? `the string ${JSON.stringify(value)}` : String(value);
  return text.length <= 80 ? text : `${text.slice(0, 77)}...`;
}
