import { z } from "zod";

/** Milliseconds per unit of a Go duration. */
const UNITS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  "\u00b5s": 1e-3,
  "\u03bcs": 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};
const DURATION = /^(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+$/;
const PART = /(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)/g;

/** A positive duration parameter: a Go duration such as `200ms` or `1m30s`, or a number of milliseconds. */
export function positiveDuration(name: string) {
  const message = `${name} must be a duration above 0, such as 200ms`;
  return z
    .union([z.number(), z.string()], message)
    .transform((value) => (typeof value === "number" ? value : parseGoDuration(value)))
    .refine((ms) => ms > 0 && ms < Number.POSITIVE_INFINITY, message);
}

/** Milliseconds of an unsigned Go duration; NaN when `text` is none. */
function parseGoDuration(text: string): number {
  if (!DURATION.test(text)) return Number.NaN;
  let ms = 0;
  for (const [, amount, unit] of text.matchAll(PART)) ms += Number(amount) * UNITS[unit!]!;
  return ms;
}
