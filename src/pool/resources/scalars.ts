import { z } from "zod";
import { explainIssue } from "../../base/document/validate.ts";

/**
 * How a key is treated that a kind doesn't know. `refuse`: an error with the nearest key, as kubectl does with a file. `drop`:
 * silently left out, as the API server does when an object is created. `stored`: left out, too, for objects that a server
 * holds. The definition of another release may have admitted those, older or newer than this one. Limits and rules of this
 * definition do not make them void (api-resources ).
 */
export type UnknownKeys = "refuse" | "drop" | "stored";

/**
 * The patterns of the shared scalar types (api-resources 1.1). The label key is the corrected form: the published one
 * doubles a backslash and would refuse `example.com/path`, its own example.
 */
export const PATTERN = {
  group: /^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/,
  kind: /^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$/,
  namespace: /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/,
  labelValue: /^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$/,
  labelKey:
    /^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$/,
} as const;

/** The largest value of an int32 field. */
const MAX_INT32 = 2 ** 31 - 1;

/** The number of characters of a text as the API counts them: Unicode code points. */
export function codePoints(text: string): number {
  let count = 0;
  for (const _ of text) count++;
  return count;
}

/** A rule for texts; lengths in Unicode code points. */
interface TextRule {
  readonly min?: number;
  readonly max?: number;
  readonly pattern?: RegExp;
  /** The shape that the pattern requires, as text behind "must be". */
  readonly shape?: string;
  /** End of the message when the text is missing. */
  readonly missing?: string;
}

/** A string. Only the first violation is reported. */
export function text({ min = 0, max, pattern, shape, missing }: TextRule) {
  return z.string({ error: ({ input }) => explainType(input, missing) }).superRefine((value, context) => {
    const refuse = (message: string) => context.addIssue({ code: "custom", message });
    // The cheap test comes first: a code point takes one or two units.
    const tooLong = max !== undefined && value.length > max && codePoints(value) > max;
    if (value === "" && min > 0) refuse("must not be empty");
    else if (tooLong) refuse(`must have at most ${max} characters, has ${codePoints(value)}`);
    else if (pattern !== undefined && !pattern.test(value)) refuse(`must be ${shape}, got ${quote(value)}`);
  });
}

function explainType(input: unknown, missing: string | undefined): string | undefined {
  if (input === undefined || input === null) return missing && `is missing; ${missing}`;
  if (typeof input === "number" || typeof input === "boolean")
    return `expected a string, got ${String(input)}; put it in quotes`;
  return undefined;
}

function quote(value: string): string {
  return JSON.stringify(value.length <= 80 ? value : `${value.slice(0, 77)}...`);
}

/** A whole number. @param missing end of the message when it is missing */
export function whole({ min, max, missing }: { min?: number; max?: number; missing?: string }) {
  const schema = z.int({
    error: ({ input }) => {
      if (input === undefined || input === null) return missing && `is missing; ${missing}`;
      return typeof input === "string" && /^[+-]?\d+$/.test(input)
        ? `expected a whole number, got the string ${quote(input)}; remove the quotes`
        : undefined;
    },
  });
  return schema.min(min ?? Number.MIN_SAFE_INTEGER).max(max ?? Number.MAX_SAFE_INTEGER);
}

/** A mapping with known keys. @param example end of the message when it is missing or another kind of value */
export function mapping<S extends z.core.$ZodLooseShape>(shape: S, unknownKeys: UnknownKeys, example?: string) {
  const error = (issue: z.core.$ZodRawIssue): string | undefined => {
    if (issue.code !== "invalid_type" || example === undefined) return undefined;
    const missing = issue.input === undefined || issue.input === null;
    return `${missing ? "is missing" : explainIssue(issue)}; ${example}`;
  };
  return (unknownKeys === "refuse" ? z.strictObject(shape, { error }) : z.object(shape, { error })) as z.ZodObject<S>;
}

/** May be left out or be `null`, which the API server drops before validation. */
export function optional<S extends z.ZodType>(schema: S) {
  return schema.nullish().transform((value) => value ?? undefined);
}

/** Like `optional`, with a default value. */
export function defaulting<S extends z.ZodType>(schema: S, value: z.output<S>) {
  return schema.nullish().transform((given) => given ?? value);
}

export const group = () =>
  text({
    max: 253,
    pattern: PATTERN.group,
    shape: '"" for the core group or a lower-case DNS name such as gateway.networking.k8s.io',
  });

export const kindName = () =>
  text({
    min: 1,
    max: 63,
    pattern: PATTERN.kind,
    shape: "letters, digits and hyphens that begin with a letter, such as Service",
  });

/** @param missing end of the message when the name is missing */
export const objectName = (missing: string) => text({ min: 1, max: 253, missing });

export const namespace = () =>
  text({
    min: 1,
    max: 63,
    pattern: PATTERN.namespace,
    shape: "lower-case letters, digits and hyphens with a letter or digit at both ends, such as team-a",
  });

export const port = (missing?: string) => whole({ min: 1, max: 65_535, ...(missing !== undefined && { missing }) });

/** Older definitions allowed a weight of 0, or set no limit: `TargetDraw` describes which weights count. */
export const weight = (unknownKeys: UnknownKeys): z.ZodType<number> =>
  unknownKeys === "stored" ? z.number() : whole({ min: 1, max: 1_000_000 });

/** int32, as far as a field is declared with that format. */
export const int32 = () => whole({ min: -MAX_INT32 - 1, max: MAX_INT32 });

const labelValue = () =>
  text({
    max: 63,
    pattern: PATTERN.labelValue,
    shape: "letters, digits, hyphens, underscores and dots with a letter or digit at both ends, or empty",
  });

/** A mapping of label keys to label values. Keys aren't checked: the API server doesn't either (api-resources X-5). */
export const labels = (missing?: string) => stringMap(labelValue(), missing);

/**
 * A mapping of any keys to strings. An entry that is `null` is refused, while the API server drops it. In a file it is a
 * mistake, and a selector with one label less selects more pods.
 * @param missing end of the message when the mapping is missing
 */
export function stringMap(value: z.ZodType<string>, missing?: string) {
  const record = z.record(z.string(), value, {
    error: ({ input }) => (input === undefined || input === null ? missing && `is missing; ${missing}` : undefined),
  });
  // The library leaves this key out.
  return z.preprocess((input, context) => {
    if (typeof input === "object" && input !== null && Object.hasOwn(input, "__proto__"))
      context.addIssue({ code: "custom", message: "may not have the key `__proto__`" });
    return input;
  }, record);
}

const TIME = /^(\d{4}-\d\d-\d\d)T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$/;

/** A point in time as Kubernetes writes it (RFC 3339) in wall-clock milliseconds; undefined for any other text. */
export function parseTime(value: string): number | undefined {
  const day = TIME.exec(value)?.[1];
  if (day === undefined) return undefined;
  const midnight = Date.parse(`${day}T00:00:00Z`);
  // The platform reads February 30 as March 1.
  if (Number.isNaN(midnight) || new Date(midnight).toISOString().slice(0, 10) !== day) return undefined;
  return Date.parse(value);
}

/** `2026-01-31T12:00:00Z`: Kubernetes keeps whole seconds. @param ms wall-clock milliseconds */
export function formatTime(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

/** Schema of a point in time: a text in, wall-clock milliseconds out. */
export function time() {
  return z.string().transform((value, context) => {
    const ms = parseTime(value);
    if (ms !== undefined) return ms;
    const got = JSON.stringify(value.slice(0, 80));
    context.addIssue({ code: "custom", message: `expected a time such as 2026-01-31T12:00:00Z, got ${got}` });
    return z.NEVER;
  });
}
