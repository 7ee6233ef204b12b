import { Reader, WIRE } from "../../../base/grpc/protobuf.ts";
import type { AnswerFormat } from "../../../base/inference/request.ts";
import { embedUsage, GrpcUsageReader, generateUsage, MessageStream } from "./grpc-usage.ts";
import { JsonUsageReader, usageFromJson } from "./json-usage.ts";
import { SseUsageReader } from "./sse-usage.ts";
import { mergeUsage, type Usage, type UsageReader, withTotal } from "./usage.ts";

const EVENT_STREAM = /text\/event-stream/i;

/**
 * Returns the reader for an answer (epp-protocol 12, E-71, E-72).
 *
 * @param format of the parsed request
 * @param contentType of the answer; "" when it has none
 * @returns undefined when the answer has no usage to read
 */
export function usageReaderFor(format: AnswerFormat, contentType: string): UsageReader | undefined {
  switch (format) {
    case "http":
      return EVENT_STREAM.test(contentType) ? new SseUsageReader() : new JsonUsageReader();
    case "sglang":
      return EVENT_STREAM.test(contentType) ? new SseUsageReader("meta_info") : new JsonUsageReader();
    case "vllm-generate":
      return new GrpcUsageReader(generateUsage);
    case "vllm-embed":
      return new GrpcUsageReader(embedUsage);
    case "http-body":
      return new WrappedUsageReader();
    case "opaque":
      return undefined;
  }
}

/** `data` of `google.api.HttpBody`. */
const DATA = (2 << 3) | WIRE.bytes;

const COLON = 0x3a;
/** The beginnings of an event stream; a JSON document begins in another way. */
const FIELD_NAMES = ["data", "event", "id", "retry", ""];

/**
 * Reads the usage of gRPC answers that wrap HTTP bodies. Either each message is a JSON document, or all messages together are a
 * stream of server-sent events.
 */
class WrappedUsageReader implements UsageReader {
  readonly holding = false;
  readonly #messages = new MessageStream();
  readonly #read = (message: Buffer): void => this.#readMessage(message);
  #events: SseUsageReader | undefined;
  #usage: Usage | undefined;

  get usage(): Usage | undefined {
    if (this.#events !== undefined) return this.#events.usage;
    return this.#usage === undefined ? undefined : withTotal(this.#usage);
  }

  feed(chunk: Uint8Array): void {
    this.#messages.feed(chunk, this.#read);
  }

  finish(): void {
    this.#events?.finish();
  }

  drop(): void {}

  #readMessage(message: Buffer): void {
    const data = dataOf(message);
    if (data === undefined) return;
    if (this.#events === undefined && beginsEventStream(data)) this.#events = new SseUsageReader();
    if (this.#events !== undefined) {
      this.#events.feed(data);
      return;
    }
    const usage = usageFromJson(data);
    if (usage !== undefined) this.#usage = mergeUsage(this.#usage, usage);
  }
}

/** Returns the last field of that number, which counts in protobuf. @throws SluiceError PROTOBUF_MALFORMED */
function dataOf(message: Buffer): Buffer | undefined {
  const reader = new Reader(message);
  let data: Buffer | undefined;
  while (reader.more) {
    const tag = reader.tag();
    if (tag === DATA) data = reader.view();
    else reader.skip(tag);
  }
  return data;
}

function beginsEventStream(data: Buffer): boolean {
  const colon = data.subarray(0, 6).indexOf(COLON);
  return colon >= 0 && FIELD_NAMES.includes(data.toString("latin1", 0, colon));
}
