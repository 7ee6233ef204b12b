/** What the reference says of a document that ends too early (Go's encoding/json, epp-protocol 9.3). */
export const UNEXPECTED_END = "unexpected end of JSON input";

const SHORT_ESCAPES: Readonly<Record<number, string>> = {
  7: "\\a",
  8: "\\b",
  9: "\\t",
  10: "\\n",
  11: "\\v",
  12: "\\f",
  13: "\\r",
  39: "\\'",
  92: "\\\\",
};

/**
 * The text of a syntax error in the words of Go's decoder, which clients of the reference see and its tests compare.
 *
 * @param byte the offending byte, shown as the character with that code, as Go does, also inside a UTF-8 sequence
 * @param context what the decoder was doing, for example `looking for beginning of value`
 */
export function invalidCharacter(byte: number, context: string): string {
  return `invalid character '${quoted(byte)}' ${context}`;
}

function quoted(byte: number): string {
  const short = SHORT_ESCAPES[byte];
  if (short !== undefined) return short;
  const hex = byte.toString(16).padStart(2, "0");
  if (byte < 0x20 || byte === 0x7f) return `\\x${hex}`;
  // C1 controls, the no-break space and the soft hyphen are the characters of Latin-1 that Go calls unprintable.
  if ((byte >= 0x80 && byte <= 0xa0) || byte === 0xad) return `\\u00${hex}`;
  return String.fromCharCode(byte);
}
