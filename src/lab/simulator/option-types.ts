import { z } from "zod";
import { parseDuration } from "../../base/document/duration.ts";

/** The kind of an option's value; a duration is a number of milliseconds or a Go duration such as "1.5s". */
export type OptionType = "string" | "number" | "boolean" | "list" | "duration";

/** The properties of an option beside its schema, for the table of options and `/admin/config`. */
export interface OptionMeta {
  readonly type: OptionType;
  readonly help: string;
  /** Whether it may change while the server runs: failures and latency. */
  readonly live: boolean;
  /** Whether an `X-Sim-*` request header may set it for one request: faults. */
  readonly fault: boolean;
}

type Flags = { readonly live?: boolean; readonly fault?: boolean };

/** Milliseconds of a Go duration ("1m30s", "50ms"). Any other value stays unchanged, and the schema refuses it. */
function milliseconds(value: unknown): unknown {
  if (typeof value !== "string") return value;
  if (/^\d+(\.\d+)?$/.test(value)) return Number(value);
  try {
    return parseDuration(value);
  } catch {
    return value;
  }
}

function fromText(value: unknown): unknown {
  if (typeof value !== "string") return value;
  return /^-?\d+(\.\d+)?(e[+-]?\d+)?$/i.test(value) ? Number(value) : value;
}

function meta(type: OptionType, help: string, flags: Flags = {}): OptionMeta {
  return { type, help, live: flags.live ?? flags.fault ?? false, fault: flags.fault ?? false };
}

/** A text option. */
export function textOption(fallback: string, help: string, flags?: Flags) {
  return z.preprocess((v) => v, z.string().max(4096).default(fallback)).meta({ ...meta("string", help, flags) });
}

/** An option with a fixed list of values. */
export function choice<const V extends readonly [string, ...string[]]>(
  values: V,
  fallback: V[number],
  help: string,
  flags?: Flags,
) {
  const schema = z.enum(values as readonly [V[number], ...V[number][]]).default(fallback as never);
  return z.preprocess((v) => v, schema).meta({ ...meta("string", help, flags) });
}

/** A whole number from `min` to `max`. */
export function integer(fallback: number, min: number, max: number, help: string, flags?: Flags) {
  return z.preprocess(fromText, z.int().min(min).max(max).default(fallback)).meta({ ...meta("number", help, flags) });
}

/** Any number from `min` to `max`. */
export function real(fallback: number, min: number, max: number, help: string, flags?: Flags) {
  return z
    .preprocess(fromText, z.number().min(min).max(max).default(fallback))
    .meta({ ...meta("number", help, flags) });
}

/** An option that is on or off. In: a boolean, or the text "true" or "false". Out: a boolean. */
export function flag(fallback: boolean, help: string, flags?: Flags) {
  const schema = z.boolean().default(fallback);
  return z
    .preprocess((v) => (v === "true" ? true : v === "false" ? false : v), schema)
    .meta({ ...meta("boolean", help, flags) });
}

/** A duration. In: milliseconds or a Go duration such as "1.5s". Out: milliseconds, 0 to 86,400,000. @param fallback milliseconds */
export function durationOption(fallback: number, help: string, flags?: Flags) {
  const schema = z.number().min(0).max(86_400_000).default(fallback);
  return z.preprocess(milliseconds, schema).meta({ ...meta("duration", help, flags) });
}

/** Up to 256 values; a single value counts as a list of one. */
export function list<T extends z.ZodType<string>>(item: T, help: string, flags?: Flags) {
  const schema = z.array(item).max(256).default([]);
  return z.preprocess((v) => (typeof v === "string" ? [v] : v), schema).meta({ ...meta("list", help, flags) });
}
