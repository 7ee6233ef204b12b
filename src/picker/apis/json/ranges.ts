/** Longer literals are no token count; also bounds the work of turning one into a number. */
const LONGEST_NUMBER = 32;

/** The same memory as a Buffer, for its native searches and decoding. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/**
 * The value of a JSON string.
 *
 * @param start of the opening quote, in JSON known to be valid
 * @param end behind the closing quote
 */
export function decodeString(bytes: Uint8Array, start: number, end: number): string {
  const text = asBuffer(bytes).toString("utf8", start, end);
  return text.includes("\\") ? (JSON.parse(text) as string) : text.slice(1, -1);
}

/**
 * A count of something, from a JSON number known to be valid.
 *
 * @returns NaN for what is negative or absurdly long
 */
export function readCount(bytes: Uint8Array, start: number, end: number): number {
  if (end - start > LONGEST_NUMBER) return Number.NaN;
  const value = Number(asBuffer(bytes).toString("latin1", start, end));
  return value >= 0 && Number.isFinite(value) ? value : Number.NaN;
}

/**
 * Whether an array, known to be valid JSON, holds nothing but token ids: integers without sign, or nothing at all.
 *
 * @param start of the opening bracket
 * @param end behind the closing bracket
 */
export function isTokenList(bytes: Uint8Array, start: number, end: number): boolean {
  for (let i = start + 1; i < end - 1; i++) {
    const c = bytes[i]!;
    // In valid JSON only digits, commas and white space between the brackets can mean just that.
    if (c > 0x39 || (c < 0x30 && c !== 0x2c && c > 0x20)) return false;
  }
  return true;
}
