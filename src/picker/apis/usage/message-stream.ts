import { Deframer } from "../../../base/grpc/frames.ts";

/**
 * Bytes; a stream with a longer message is not read on. Room for 350,000 token ids in one message, and a bound to what is
 * kept of one that spans chunks.
 */
export const MAX_MESSAGE = 1024 * 1024;

/** The gRPC messages of an answer that passes by in chunks; never throws, whatever the bytes. */
export class MessageStream {
  #deframer: Deframer | undefined = new Deframer(MAX_MESSAGE);

  /**
   * Calls `read` for each message that is complete now. Compressed ones are left out, and so is one that `read` throws
   * for; behind a broken frame nothing can be found any more.
   *
   * @param read gets a view that is good only during the call
   */
  feed(chunk: Uint8Array, read: (message: Buffer) => void): void {
    const deframer = this.#deframer;
    if (deframer === undefined) return;
    deframer.push(chunk);
    for (;;) {
      let message: Buffer | undefined;
      try {
        message = deframer.next();
      } catch {
        this.#deframer = undefined;
        return;
      }
      if (message === undefined) return;
      if (deframer.compressed) continue;
      try {
        read(message);
      } catch {
        // Malformed; the next frame begins where it should all the same.
      }
    }
  }
}
