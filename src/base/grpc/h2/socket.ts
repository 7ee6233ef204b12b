import net from "node:net";

/**
 * The read buffer of all clear-text connections: reading is synchronous from the system's call to the end of the callback.
 * Without it every read allocates 64 KiB outside the heap. V8 then collects the whole heap ten times a second under load
 * (docs/adr/0003).
 * 256 KiB hold most of a large body: with a quarter of that, an exchange with 400 KB takes a tenth more CPU time.
 */
const READ_BUFFER = Buffer.allocUnsafeSlow(256 * 1024);

/** Bytes of one read on a server with many connections: each connection may have to keep a read for a later turn. */
const SMALL_BUFFER = READ_BUFFER.subarray(0, 16 * 1024);

/**
 * Passes the bytes that arrive on an accepted clear-text socket to `read`. The bytes are valid during the call.
 *
 * Node can read into a caller's buffer (`onread`) for sockets that the caller creates, but not for those that a server accepts.
 * So the connection is moved to a socket made for it. The server keeps counting the accepted one until the other is closed.
 * @param accepted a socket that has not been read from (`pauseOnConnect`)
 * @param many whether the server has many connections at the moment
 * @returns the socket to use in place of `accepted`
 */
export function readInto(accepted: net.Socket, read: (chunk: Buffer) => void, many: () => boolean): net.Socket {
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
    onread: {
      buffer: () => (many() ? SMALL_BUFFER : READ_BUFFER),
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
