import { SluiceError } from "../inference/errors.ts";

/** Milliseconds per unit. Both spellings of micro: U+00B5 and U+03BC. */
const UNITS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  "\u00b5s": 1e-3,
  "\u03bcs": 1e-3,
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
};
const PART = /(\d+\.?\d*|\.\d+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)/y;
/** Go keeps durations as signed 64-bit nanoseconds: about 292 years. */
const MAX_MS = 2 ** 63 / 1e6;

/**
 * Reads a duration as Go writes them: `50ms`, `1m30s`, `1.5h`, `-2s`, `0`.
 * @returns milliseconds, fractional, possibly negative
 * @throws SluiceError DURATION_SYNTAX
 */
export function parseDuration(text: string): number {
  const signed = /^[+-]/.test(text);
  if (text.length <= 64 && (signed ? text.slice(1) : text) === "0") return 0;
  let total = 0;
  PART.lastIndex = signed ? 1 : 0;
  for (;;) {
    const part = text.length > 64 ? null : PART.exec(text);
    if (part === null) throw malformed(text);
    total += Number(part[1]) * UNITS[part[2]!]!;
    // A sticky pattern keeps its place only while it matches.
    if (PART.lastIndex === text.length) break;
  }
  if (total >= MAX_MS) throw malformed(text);
  return text.startsWith("-") ? -total : total;
}

/** What a message asks for. */
export const DURATION_EXAMPLE = 'a duration with a unit such as "50ms", "5s" or "1m30s"';

function malformed(text: string): SluiceError {
  return new SluiceError("DURATION_SYNTAX", `expected ${DURATION_EXAMPLE}, got ${JSON.stringify(text.slice(0, 80))}`);
}
