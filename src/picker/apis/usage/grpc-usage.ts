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

  /** The merged usage of all messages so far. */
  get usage(): Usage | undefined {
    return this.#usage === undefined ? undefined : withTotal(this.#usage);
  }

  feed(chunk: Uint8Array): void {
    this.#messages.feed(chunk, this.#read);
  }

  /** An unfinished message has no usage. */
  finish(): void {}

  drop(): void {}
}

/**
 * Returns the usage in a `GenerateResponse`. Protobuf does not send counts of zero. They count as unknown and do not replace
 * the counts of earlier messages.
 *
 * @throws SluiceError PROTOBUF_MALFORMED
 */
export function generateUsage(message: Uint8Array): Usage | undefined {
  const reader = new Reader(message);
  let usage: Usage | undefined;
  while (reader.more) {
    const tag = reader.tag();
    // The counts are fields 2 to 4 in a chunk, and fields 3 to 5 in the complete answer.
    if (tag === CHUNK) usage = counts(reader, 2);
    else if (tag === COMPLETE) usage = counts(reader, 3);
    else reader.skip(tag);
  }
  return usage;
}

/** Returns the usage in an `EmbedResponse`. @throws SluiceError PROTOBUF_MALFORMED */
export function embedUsage(message: Uint8Array): Usage | undefined {
  const reader = new Reader(message);
  let tokens = 0;
  while (reader.more) {
    const tag = reader.tag();
    if (tag === EMBED_PROMPT_TOKENS) tokens = reader.varint();
    else reader.skip(tag);
  }
  // An embedding has no output, so all tokens are prompt tokens.
  return tokens > 0 ? { ...NO_USAGE, promptTokens: tokens, totalTokens: tokens } : undefined;
}

/** @param first field number of the prompt tokens; output tokens and cached tokens are the next two fields */
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
 * Bytes; the reader stops at a longer message. One message has room for 350,000 token ids. The limit also bounds the memory for
 * a message that spans chunks.
 */
export const MAX_ANSWER_MESSAGE = 1024 * 1024;

/** Cuts a passing answer into gRPC messages; never throws, for any bytes. */
export class MessageStream {
  #deframer: Deframer | undefined = new Deframer(MAX_ANSWER_MESSAGE);

  /**
   * Calls `read` for each complete message. It skips compressed messages and messages for which `read` throws. After a broken
   * frame it cannot find another message.
   *
   * @param read gets a view that is valid only during the call
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
        // The message is malformed, but the next frame begins at its place.
      }
    }
  }
}
