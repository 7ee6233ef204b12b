import { crc32 } from "node:zlib";

/** The first byte of a frame: another layout has another one. */
const LAYOUT = 1;
/** The bytes before the message: the layout, and the CRC-32 of the message, big endian. */
const HEAD = 5;

/** Puts the head before a message, which is copied. */
export function framed(message: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(HEAD + message.length);
  frame[0] = LAYOUT;
  frame.writeUInt32BE(crc32(message), 1);
  frame.set(message, HEAD);
  return frame;
}

/**
 * Returns the message of a frame, as a view of its bytes; undefined where the bytes are not what a replica sent. What stands in a
 * shared store may come from anywhere.
 */
export function unframed(frame: Uint8Array): Uint8Array | undefined {
  if (frame.length < HEAD || frame[0] !== LAYOUT) return undefined;
  const message = frame.subarray(HEAD);
  const sum = new DataView(frame.buffer, frame.byteOffset).getUint32(1);
  return crc32(message) === sum ? message : undefined;
}
