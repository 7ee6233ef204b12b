/** Longest number that is read, in bytes; what client libraries print has at most 25. */
const MAX_BYTES = 128;

const POWERS = Float64Array.from({ length: 23 }, (_, i) => 10 ** i);
const DECIMAL = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;
const INFINITE = /^([+-]?)inf(?:inity)?$/i;

/**
 * The number in the bytes [`from`, `to`) of `page`, written as the Prometheus text format allows: decimal with or without
 * exponent, Inf, NaN. `undefined` when it is none, is out of the range of a double, or is longer than 128 bytes.
 */
export function parseNumber(page: Uint8Array, from: number, to: number): number | undefined {
  const fast = parseShort(page, from, to);
  return Number.isNaN(fast) ? parseAny(page, from, to) : fast;
}

/**
 * Numbers of at most 15 digits and a small exponent, NaN for all others: mantissa and power of ten are then exact, so one
 * division or multiplication rounds correctly.
 */
function parseShort(page: Uint8Array, from: number, to: number): number {
  let at = from;
  const negative = page[at] === 0x2d;
  if (negative) at++;
  let mantissa = 0;
  let digits = 0;
  let fraction = 0;
  let point = false;
  for (; at < to; at++) {
    const byte = page[at]!;
    if (byte === 0x2e && !point) {
      point = true;
      continue;
    }
    const digit = byte - 0x30;
    if (digit < 0 || digit > 9) break;
    mantissa = mantissa * 10 + digit;
    digits++;
    if (point) fraction++;
  }
  if (digits === 0 || digits > 15) return Number.NaN;
  let exponent = 0;
  if (at < to) {
    if (page[at] !== 0x65) return Number.NaN;
    at++;
    const sign = at < to ? page[at] : 0;
    const down = sign === 0x2d;
    if (down || sign === 0x2b) at++;
    if (at === to || to - at > 3) return Number.NaN;
    for (; at < to; at++) {
      const digit = page[at]! - 0x30;
      if (digit < 0 || digit > 9) return Number.NaN;
      exponent = exponent * 10 + digit;
    }
    if (down) exponent = -exponent;
  }
  exponent -= fraction;
  if (exponent < -22 || exponent > 22) return Number.NaN;
  const size = exponent < 0 ? mantissa / POWERS[-exponent]! : mantissa * POWERS[exponent]!;
  return negative ? -size : size;
}

function parseAny(page: Uint8Array, from: number, to: number): number | undefined {
  if (to <= from || to - from > MAX_BYTES) return undefined;
  let text = "";
  for (let at = from; at < to; at++) text += String.fromCharCode(page[at]!);
  if (DECIMAL.test(text)) {
    const value = Number(text);
    return Number.isFinite(value) ? value : undefined;
  }
  const infinite = INFINITE.exec(text);
  if (infinite !== null) return infinite[1] === "-" ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  return text.toLowerCase() === "nan" ? Number.NaN : undefined;
}
