import net from "node:net";

/**
 * The read buffer of all clear-text connections: reading is synchronous from the system's call to the end of the callback.
 * Without it every read allocates 64 KiB outside the heap. V8 then collects the whole heap ten times a second under load
 * (docs/adr/0003).
 * 256 KiB hold most of a large body: with a quarter of that, an exchange with 400 KB takes a tenth more CPU time.
 */
const READ_BUFFER = Buffer.allocUnsafeSlow(256 * 1024);

/**
 * Bytes of one read by the number of connections: each connection may have to keep a read for a later turn, and all together
 * keep 16 MiB, or 16 KiB each.
 */
const PIECES = [
  { most: 64, buffer: READ_BUFFER },
  { most: 256, buffer: READ_BUFFER.subarray(0, 64 * 1024) },
  { most: Number.POSITIVE_INFINITY, buffer: READ_BUFFER.subarray(0, 16 * 1024) },
] as const;

/**
 * Passes the bytes that arrive on an accepted clear-text socket to `read`. The bytes are valid during the call.
 *
 * Node can read into a caller's buffer (`onread`) for sockets that the caller creates, but not for those that a server accepts.
 * So the connection is moved to a socket made for it. The server keeps counting the accepted one until the other is closed.
 * @param accepted a socket that has not been read from (`pauseOnConnect`)
 * @param connections the number of connections that the server has at the moment
 * @param allowHalfOpen the other side may end its half and still read
 * @returns the socket to use in place of `accepted`
 */
export function readInto(
  accepted: net.Socket,
  read: (chunk: Buffer) => void,
  connections: () => number,
  allowHalfOpen = false,
): net.Socket {
  const holder = accepted as unknown as { _handle?: { useUserBuffer?: unknown } | null };
  const handle = holder._handle;
  if (typeof handle?.useUserBuffer !== "function") {
    // In a Node with other internals, each read allocates its chunk.
    accepted.on("data", read);
    accepted.resume();
    return accepted;
  }
  holder._handle = null;
  const options = {
    handle,
    allowHalfOpen,
    onread: {
      buffer() {
        const count = connections();
        return PIECES.find(({ most }) => count <= most)!.buffer;
      },
      callback(length: number) {
        read(READ_BUFFER.subarray(0, length));
        return true;
      },
    },
  };
  const socket = new net.Socket(options as unknown as net.SocketConstructorOpts);
  socket.setNoDelay(true);
  socket.on("close", () => accepted.destroy());
  return socket;
}
