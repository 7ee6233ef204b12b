/** Just enough protobuf to write messages by hand. */
const length = (n: number): number[] => (n < 128 ? [n] : [(n & 127) | 128, ...length(n >>> 7)]);

/** A length-delimited field. */
export function field(number: number, bytes: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from([(number << 3) | 2, ...length(bytes.length)]), bytes]);
}
