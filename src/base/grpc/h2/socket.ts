import net from "node:net";

/**
 * Where all clear-text connections read into: reading is synchronous from the system's call to the end of the callback.
 * Without it every read allocates 64 KiB outside the heap, which makes V8 collect the whole heap ten times a second under
 * load (docs/adr/0003).
 */
const READ_BUFFER = Buffer.allocUnsafeSlow(256 * 1024);

/** What is read at a time on a server with many connections: each may have to keep what it has read for a later turn. */
const SMALL_BUFFER = READ_BUFFER.subarray(0, 16 * 1024);

/**
 * Lets `read` take what arrives on an accepted clear-text socket. The bytes it gets are valid during the call.
 *
 * Node offers reading into one's own buffer (`onread`) for sockets that one creates, not for those a server accepts, so the
 * connection is moved to a socket made for it. The server keeps counting the accepted one until the other is closed.
 * @param accepted a socket that has not been read from (`pauseOnConnect`)
 * @param many whether the server has many connections at the moment
 * @returns the socket to use in place of `accepted`
 */
export function readInto(accepted: net.Socket, read: (chunk: Buffer) => void, many: () => boolean): net.Socket {
  const holder = accepted as unknown as { _handle?: { useUserBuffer?: unknown } | null };
  const handle = holder._handle;
  if (typeof handle?.useUserBuffer !== "function") {
    // A Node that works otherwise inside: chunks are allocated.
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
