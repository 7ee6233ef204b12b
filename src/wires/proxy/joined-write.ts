import type { Socket } from "node:net";

/** So many bytes leave in one buffer: a copy costs less than the pieces, each with objects of its own. */
export const JOINED = 32 * 1024;

/**
 * Bytes on their way to a socket. Nearly every write is over when it returns: the system has taken all bytes, and the next write
 * may use the buffer again. A buffer that a socket still holds is left to that socket.
 */
let shared = Buffer.allocUnsafeSlow(2 * JOINED);

/**
 * Writes text, pieces and text, at most `JOINED` bytes of pieces and as many of text, in one write.
 * @param before every character is a byte
 * @param length of all pieces
 * @param left as the callback of `socket.write`
 * @returns as `socket.write`
 */
export function writeJoined(
  socket: Socket,
  before: string,
  pieces: Iterable<Uint8Array>,
  length: number,
  after: string,
  left?: (error?: Error | null) => void,
): boolean {
  const size = before.length + length + after.length;
  // TLS holds the bytes until the encrypted ones have left.
  const own = "encrypted" in socket || socket.writableLength > 0 || size > shared.length;
  const bytes = own ? Buffer.allocUnsafe(size) : shared;
  let at = bytes.write(before, 0, "latin1");
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  if (after !== "") bytes.write(after, at, "latin1");
  const goesOn = socket.write(own ? bytes : bytes.subarray(0, size), left);
  if (!own && socket.writableLength > 0) shared = Buffer.allocUnsafeSlow(2 * JOINED);
  return goesOn;
}
