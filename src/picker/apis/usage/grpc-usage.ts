import { Deframer } from "../../../base/grpc/frames.ts";
import { Reader, WIRE } from "../../../base/grpc/protobuf.ts";
import { mergeUsage, NO_USAGE, type Usage, type UsageReader, withTotal } from "./usage.ts";

// Fields, as number << 3 | wire type (epp-protocol appendix C).
const CHUNK = (1 << 3) | WIRE.bytes;
const COMPLETE = (2 << 3) | WIRE.bytes;
const EMBED_PROMPT_TOKENS = (2 << 3) | WIRE.varint;

/** Reads the usage of vLLM's gRPC answers: one message or a stream of them (epp-protocol 12, E-72). */
export class GrpcUsageReader implements UsageReader {
  readonly holding = false;
  readonly #messages = new MessageStream();
  readonly #read: (message: Buffer) => void;
  #usage: Usage | undefined;

  /** @param usageOf reads one message; may throw */
  constructor(usageOf: (message: Buffer) => Usage | undefined) {
    this.#read = (message) => {
      const usage = usageOf(message);
      if (usage !== undefined) this.#usage = mergeUsage(this.#usage, usage);
    };
  }

  /** Merged over all messages so far. */
  get usage(): Usage | undefined {
    return this.#usage === undefined ? undefined : withTotal(this.#usage);
  }

  feed(chunk: Uint8Array): void {
    this.#messages.feed(chunk, this.#read);
  }

  /** A message without its end says nothing. */
  finish(): void {}

  drop(): void {}
}

/**
 * The usage in a `GenerateResponse`. Counts of zero are not on the wire and so count as unsaid, which leaves those of
 * earlier messages standing.
 *
 * @throws SluiceError PROTOBUF_MALFORMED
 */
export function generateUsage(message: Uint8Array): Usage | undefined {
  const reader = new Reader(message);
  let usage: Usage | undefined;
  while (reader.more) {
    const tag = reader.tag();
    // In a chunk the counts are fields 2 to 4, in the complete answer 3 to 5.
    if (tag === CHUNK) usage = counts(reader, 2);
    else if (tag === COMPLETE) usage = counts(reader, 3);
    else reader.skip(tag);
  }
  return usage;
}

/** The usage in an `EmbedResponse`. @throws SluiceError PROTOBUF_MALFORMED */
export function embedUsage(message: Uint8Array): Usage | undefined {
  const reader = new Reader(message);
  let tokens = 0;
  while (reader.more) {
    const tag = reader.tag();
    if (tag === EMBED_PROMPT_TOKENS) tokens = reader.varint();
    else reader.skip(tag);
  }
  // An embedding has no output: all tokens are the prompt's.
  return tokens > 0 ? { ...NO_USAGE, promptTokens: tokens, totalTokens: tokens } : undefined;
}

/** @param first field number of the prompt's tokens; those of the output and the cached ones follow it */
function counts(reader: Reader, first: number): Usage | undefined {
  const outer = reader.enter();
  let [promptTokens, completionTokens, cachedTokens] = [Number.NaN, Number.NaN, Number.NaN];
  while (reader.more) {
    const tag = reader.tag();
    if ((tag & 7) !== WIRE.varint) {
      reader.skip(tag);
      continue;
    }
    const value = reader.varint();
    const field = (tag >>> 3) - first;
    if (field === 0) promptTokens = value;
    else if (field === 1) completionTokens = value;
    else if (field === 2) cachedTokens = value;
  }
  reader.end = outer;
  if (Number.isNaN(promptTokens) && Number.isNaN(completionTokens)) return undefined;
  return { promptTokens, completionTokens, totalTokens: Number.NaN, cachedTokens };
}

/**
 * Bytes; a stream with a longer message is not read on. Room for 350,000 token ids in one message, and a bound to what is
 * kept of one that spans chunks.
 */
export const MAX_ANSWER_MESSAGE = 1024 * 1024;

/** The gRPC messages of an answer that passes by in chunks; never throws, whatever the bytes. */
export class MessageStream {
  #deframer: Deframer | undefined = new Deframer(MAX_ANSWER_MESSAGE);

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
