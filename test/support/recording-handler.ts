import { Deframer } from "../../src/base/grpc/frames.ts";
import type { GrpcHandler, GrpcStream, GrpcStreamEvents } from "../../src/base/grpc/transport.ts";
import type { Line } from "./recording.ts";

/**
 * A handler that does what `handler` does and notes every message and event of each stream.
 * @param onRecorded told of a stream once it is over, with its lines in order
 */
export function recordingHandler(handler: GrpcHandler, onRecorded: (lines: readonly Line[]) => void): GrpcHandler {
  return (stream) => {
    const lines: Line[] = [];
    return new RecordedEvents(handler(new RecordedStream(stream, lines)), lines, onRecorded);
  };
}

/** What the picker does. */
class RecordedStream implements GrpcStream {
  readonly path: string;
  readonly encoding: "identity" | "gzip";
  readonly #stream: GrpcStream;
  readonly #lines: Line[];
  /** A reply may be sent in pieces. */
  readonly #deframer = new Deframer();

  constructor(stream: GrpcStream, lines: Line[]) {
    this.path = stream.path;
    this.encoding = stream.encoding;
    this.#stream = stream;
    this.#lines = lines;
  }

  send(message: Uint8Array): boolean {
    this.#lines.push({ from: "picker", bytes: Buffer.from(message).toString("base64") });
    return this.#stream.send(message);
  }

  sendFramed(range: Uint8Array, from = 0, to: number = range.length): boolean {
    const bytes = range.subarray(from, to);
    this.#deframer.push(Buffer.from(bytes));
    for (let message = this.#deframer.next(); message !== undefined; message = this.#deframer.next())
      this.#lines.push({ from: "picker", bytes: message.toString("base64") });
    return this.#stream.sendFramed(bytes);
  }

  whenWritable(callback: () => void): void {
    this.#stream.whenWritable(callback);
  }

  pause(): void {
    this.#stream.pause();
  }

  recycle(message: Uint8Array): void {
    this.#stream.recycle(message);
  }

  resume(): void {
    this.#stream.resume();
  }

  end(status: number, message?: string): void {
    this.#stream.end(status, message);
  }
}

/** What the proxy does. */
class RecordedEvents implements GrpcStreamEvents {
  readonly #events: GrpcStreamEvents;
  readonly #lines: Line[];
  readonly #onRecorded: (lines: readonly Line[]) => void;

  constructor(events: GrpcStreamEvents, lines: Line[], onRecorded: (lines: readonly Line[]) => void) {
    this.#events = events;
    this.#lines = lines;
    this.#onRecorded = onRecorded;
  }

  message(bytes: Uint8Array): void {
    this.#lines.push({ from: "proxy", bytes: Buffer.from(bytes).toString("base64") });
    this.#events.message(bytes);
  }

  halfClosed(): void {
    this.#lines.push({ from: "proxy", event: "half-close" });
    this.#events.halfClosed();
  }

  closed(cause: "ended" | "cancelled"): void {
    if (cause === "cancelled") this.#lines.push({ from: "proxy", event: "reset" });
    this.#events.closed(cause);
    this.#onRecorded(this.#lines);
  }
}
