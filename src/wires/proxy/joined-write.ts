import type { Socket } from "node:net";

/** So many bytes leave in one buffer: a copy costs less than the pieces, each with objects of its own. */
export const JOINED = 32 * 1024;

/**
 * Bytes on their way to a socket. Nearly every write is over when it returns: the system has taken all bytes, and the next write
 * may use the buffer again. A buffer that a socket still holds is left to that socket.
 */
let shared = Buffer.allocUnsafeSlow(2 * JOINED);

/**
 * Writes text, pieces and text together: in one buffer up to `JOINED` bytes of pieces, else without a copy of the pieces.
 * @param before every character is a byte, as in `after`
 * @param length of all pieces
 * @param left as the callback of `socket.write`
 * @returns as `socket.write`
 */
export function writeJoined(
  socket: Socket,
  before: string,
  pieces: readonly Uint8Array[],
  length: number,
  after: string,
  left?: (error?: Error | null) => void,
): boolean {
  if (length > JOINED) return writePieces(socket, before, pieces, after, left);
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

function writePieces(
  socket: Socket,
  before: string,
  pieces: readonly Uint8Array[],
  after: string,
  left: ((error?: Error | null) => void) | undefined,
): boolean {
  socket.cork();
  if (before !== "") socket.write(before, "latin1");
  const last = after === "" ? pieces.length - 1 : pieces.length;
  let goesOn = true;
  for (let i = 0; i < pieces.length; i++) goesOn = socket.write(pieces[i]!, i === last ? left : undefined);
  if (after !== "") goesOn = socket.write(after, "latin1", left);
  socket.uncork();
  return goesOn;
}
