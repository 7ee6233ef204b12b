import { readSync } from "node:fs";
import type { Socket } from "node:net";

/**
 * Reads what the system holds for a socket that is not being read, in one call and without a turn of the event loop. To begin to read and to
 * stop again costs two more calls and a wake-up for nothing.
 * @param socket of TCP, whose bytes all go to a buffer of the program (`onread`)
 * @returns bytes; 0 = node must read: nothing waits, or the other side has ended, or node does not show the descriptor
 * @throws Error of the system, which the socket has not seen
 */
export function readWaiting(socket: Socket, into: Buffer): number {
  const fd = (socket as unknown as { _handle?: { fd?: unknown } | null })._handle?.fd;
  if (typeof fd !== "number" || fd < 0) return 0;
  try {
    return readSync(fd, into, 0, into.length, null);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EAGAIN") return 0;
    throw error;
  }
}
