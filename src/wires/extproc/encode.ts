import { prependPrefix } from "../../base/grpc/frames.ts";
import type { Writer } from "../../base/grpc/protobuf.ts";
import type { CommonReply, HeaderChanges, ImmediateReply, Phase, Struct } from "./messages.ts";
import { writeStruct } from "./struct.ts";

// Tags: field number << 3 | wire type. The writer works back to front, so every function names the last field first.
const LEN_1 = 0x0a;
const LEN_2 = 0x12;
const LEN_3 = 0x1a;
const VARINT_1 = 0x08;
const VARINT_2 = 0x10;
const VARINT_3 = 0x18;
const IMMEDIATE_RESPONSE = 0x3a;
const DYNAMIC_METADATA = 0x42;
const OVERRIDE_MESSAGE_TIMEOUT = 0x52;
const CLEAR_ROUTE_CACHE = 0x28;
const HEADERS_RESPONSE = { request: 0x0a, response: 0x12 } as const;
const TRAILERS_RESPONSE = { request: 0x2a, response: 0x32 } as const;

const OVERWRITE_IF_EXISTS_OR_ADD = 2;

/** The reply to request or response headers, with its gRPC prefix. */
export function encodeHeadersReply(writer: Writer, phase: Phase, reply: CommonReply): Uint8Array {
  writer.begin();
  writeMetadata(writer, reply.dynamicMetadata);
  const response = writer.length;
  writeChanges(writer, reply);
  writer.close(LEN_1, response);
  writer.close(HEADERS_RESPONSE[phase], response);
  return finishFramed(writer);
}

/** The reply to request or response trailers, with its gRPC prefix. Legal only when trailers were received. */
export function encodeTrailersReply(
  writer: Writer,
  phase: Phase,
  changes: HeaderChanges & { readonly dynamicMetadata?: Struct | undefined },
): Uint8Array {
  writer.begin();
  writeMetadata(writer, changes.dynamicMetadata);
  const response = writer.length;
  writeHeaderMutation(writer, LEN_1, changes);
  writer.close(TRAILERS_RESPONSE[phase], response);
  return finishFramed(writer);
}

/**
 * Asks for more time before the next reply, with its gRPC prefix: a response that holds nothing else (data-plane 1.6).
 * @param ms whole milliseconds, at least 1
 */
export function encodeTimeoutOverride(writer: Writer, ms: number): Uint8Array {
  writer.begin();
  const nanos = (ms % 1000) * 1_000_000;
  if (nanos > 0) {
    writer.varint(nanos);
    writer.byte(VARINT_2);
  }
  const seconds = Math.floor(ms / 1000);
  if (seconds > 0) {
    writer.varint(seconds);
    writer.byte(VARINT_1);
  }
  writer.close(OVERRIDE_MESSAGE_TIMEOUT, 0);
  return finishFramed(writer);
}

/** An answer in place of the model server's, with its gRPC prefix. Nothing may follow it on the stream. */
export function encodeImmediateReply(writer: Writer, reply: ImmediateReply): Uint8Array {
  writer.begin();
  writer.bytes(reply.body);
  if (reply.body.length > 0) writer.close(LEN_3, 0);
  writeHeaderMutation(writer, LEN_2, reply);
  const status = writer.length;
  writer.varint(reply.status);
  writer.byte(VARINT_1);
  writer.close(LEN_1, status);
  writer.close(IMMEDIATE_RESPONSE, 0);
  return finishFramed(writer);
}

/** The field `dynamic_metadata`; nothing at all without metadata. */
export function writeMetadata(writer: Writer, metadata: Struct | undefined): void {
  if (metadata === undefined) return;
  const mark = writer.length;
  writeStruct(writer, metadata);
  writer.close(DYNAMIC_METADATA, mark);
}

/** What a `CommonResponse` says about headers and route. */
export function writeChanges(writer: Writer, reply: CommonReply): void {
  if (reply.clearRouteCache === true) {
    writer.byte(1);
    writer.byte(CLEAR_ROUTE_CACHE);
  }
  writeHeaderMutation(writer, LEN_2, reply);
}

/** A `HeaderMutation` in the field `tag`; nothing at all when nothing changes. */
function writeHeaderMutation(writer: Writer, tag: number, changes: HeaderChanges): void {
  const { set, remove } = changes;
  const mutation = writer.length;
  if (remove !== undefined) {
    for (let at = remove.length - 1; at >= 0; at--) {
      const name = writer.length;
      writer.latin1(remove[at]!);
      writer.close(LEN_2, name);
    }
  }
  if (set !== undefined) {
    for (let at = set.length - 1; at >= 0; at--) {
      const option = writer.length;
      if (changes.literalAppendAction === true) {
        writer.byte(OVERWRITE_IF_EXISTS_OR_ADD);
        writer.byte(VARINT_3);
      }
      const header = writer.length;
      // Always raw_value: a value in field 2 arrives as an empty header (envoy-data-plane 1.3, E-03).
      writeText(writer, LEN_3, set.values[at]!);
      writeText(writer, LEN_1, set.keys[at]!);
      writer.close(LEN_1, header);
      writer.close(LEN_1, option);
    }
  }
  if (writer.length > mutation) writer.close(tag, mutation);
}

/** A text of one byte per character; an empty one is left out, as in every canonical encoding. */
function writeText(writer: Writer, tag: number, text: string): void {
  if (text === "") return;
  const mark = writer.length;
  writer.latin1(text);
  writer.close(tag, mark);
}

/**
 * The message with its gRPC prefix.
 * @param following bytes of the message that are sent right behind, without being copied
 */
export function finishFramed(writer: Writer, following = 0): Uint8Array {
  prependPrefix(writer, following);
  return writer.finish();
}
