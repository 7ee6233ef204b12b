/** The longest literal of a token count; it also bounds the work of converting one to a number. */
const LONGEST_NUMBER = 32;

/** Returns the same memory as a Buffer, for its native search and decoding. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/**
 * Returns the value of a JSON string.
 *
 * @param start the offset of the opening quote, in valid JSON
 * @param end the offset after the closing quote
 */
export function decodeString(bytes: Uint8Array, start: number, end: number): string {
  const text = asBuffer(bytes).toString("utf8", start, end);
  return text.includes("\\") ? (JSON.parse(text) as string) : text.slice(1, -1);
}

/**
 * Returns a count from a valid JSON number.
 *
 * @returns NaN for a negative or much too long number
 */
export function readCount(bytes: Uint8Array, start: number, end: number): number {
  if (end - start > LONGEST_NUMBER) return Number.NaN;
  const value = Number(asBuffer(bytes).toString("latin1", start, end));
  return value >= 0 && Number.isFinite(value) ? value : Number.NaN;
}

/**
 * Whether an array in valid JSON holds only token ids, that is integers without sign, or is empty.
 *
 * @param start the offset of the opening bracket
 * @param end the offset after the closing bracket
 */
export function isTokenList(bytes: Uint8Array, start: number, end: number): boolean {
  for (let i = start + 1; i < end - 1; i++) {
    const c = bytes[i]!;
    // In valid JSON, an array of token ids has only digits, commas and white space between the brackets.
    if (c > 0x39 || (c < 0x30 && c !== 0x2c && c > 0x20)) return false;
  }
  return true;
}
