import { Reader, WIRE } from "../../../base/grpc/protobuf.ts";
import { MessageStream } from "./message-stream.ts";
import { mergeUsage, NO_USAGE, type Usage, type UsageReader, withTotal } from "./usage.ts";

// Fields, as number << 3 | wire type (epp-protocol Appendix C).
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
