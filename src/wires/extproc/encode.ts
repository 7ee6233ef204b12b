import { FRAME_PREFIX, prependPrefix } from "../../base/grpc/frames.ts";
import type { Writer } from "../../base/grpc/protobuf.ts";
import type { GrpcStream } from "../../base/grpc/transport.ts";
import type { CommonReply, EncodedStruct, HeaderChanges, ImmediateReply, Phase, Struct } from "./messages.ts";
import { writeStruct } from "./metadata.ts";

// Tags: field number << 3 | wire type. The writer works back to front, so every function writes the last field first.
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
  changes: HeaderChanges & { readonly dynamicMetadata?: Struct | EncodedStruct | undefined },
): Uint8Array {
  writer.begin();
  writeMetadata(writer, changes.dynamicMetadata);
  const response = writer.length;
  writeHeaderMutation(writer, LEN_1, changes);
  writer.close(TRAILERS_RESPONSE[phase], response);
  return finishFramed(writer);
}

/**
 * Asks for more time before the next reply: a response without any other field, with its gRPC prefix (envoy-data-plane 1.6).
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

/** An answer in place of the model server's answer, with its gRPC prefix. It must be the last message on the stream. */
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

/** Writes the field `dynamic_metadata`; writes nothing without metadata. */
function writeMetadata(writer: Writer, metadata: Struct | EncodedStruct | undefined): void {
  if (metadata === undefined) return;
  const mark = writer.length;
  writeStruct(writer, metadata);
  writer.close(DYNAMIC_METADATA, mark);
}

/** Writes the members of a `CommonResponse` for headers and route. */
function writeChanges(writer: Writer, reply: CommonReply): void {
  if (reply.clearRouteCache === true) {
    writer.byte(1);
    writer.byte(CLEAR_ROUTE_CACHE);
  }
  writeHeaderMutation(writer, LEN_2, reply);
}

/** Writes a `HeaderMutation` in the field `tag`; writes nothing when nothing changes. */
function writeHeaderMutation(writer: Writer, tag: number, changes: HeaderChanges): void {
  const { set, remove, echoed } = changes;
  const mutation = writer.length;
  if (remove !== undefined) {
    for (let at = remove.length - 1; at >= 0; at--) {
      const name = writer.length;
      writer.latin1(remove[at]!);
      writer.close(LEN_2, name);
    }
  }
  const literal = changes.literalAppendAction === true;
  if (echoed !== undefined) {
    const { bytes, ranges, count } = echoed;
    for (let at = 2 * count - 2; at >= 0; at -= 2) {
      const option = writer.length;
      if (literal) writeAppendAction(writer);
      // An entry of a map and the header of an option have the same field number.
      writer.range(bytes, ranges[at]!, ranges[at + 1]!);
      writer.close(LEN_1, option);
    }
  }
  if (set !== undefined) {
    for (let at = set.length - 1; at >= 0; at--) {
      const option = writer.length;
      if (literal) writeAppendAction(writer);
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

function writeAppendAction(writer: Writer): void {
  writer.byte(OVERWRITE_IF_EXISTS_OR_ADD);
  writer.byte(VARINT_3);
}

/** Writes a text of one byte per character. Leaves out an empty text, as every canonical encoding does. */
function writeText(writer: Writer, tag: number, text: string): void {
  if (text === "") return;
  const mark = writer.length;
  writer.latin1(text);
  writer.close(tag, mark);
}

/** The message with its gRPC prefix. */
function finishFramed(writer: Writer): Uint8Array {
  prependPrefix(writer);
  return writer.finish();
}

const BODY_RESPONSE = { request: 0x1a, response: 0x22 } as const;

/** The most body bytes in one reply: some deployments cap messages at 64 KiB (envoy-data-plane 1.4(7), E-18). */
export const MAX_BODY_CHUNK = 62_000;

/**
 * Sends body bytes as `streamed_response` replies of at most 62,000 bytes each. An empty body is one empty reply. The writer gets
 * no copy of the body. FULL_DUPLEX_STREAMED needs this form of reply, and no other mode allows it.
 * @param pieces the bytes in order, cut anywhere
 * @param endOfStream sets the flag on the last reply; legal only after the proxy has set it in this direction
 * @param metadata dynamic metadata on the last reply
 * @returns false when the caller must wait for `whenWritable` before it sends more
 */
export function sendBody(
  stream: GrpcStream,
  writer: Writer,
  phase: Phase,
  pieces: readonly Uint8Array[],
  endOfStream: boolean,
  metadata?: Struct | EncodedStruct,
): boolean {
  let left = 0;
  for (const piece of pieces) left += piece.length;
  let index = 0;
  let at = 0;
  let writable: boolean;
  do {
    const size = Math.min(left, MAX_BODY_CHUNK);
    left -= size;
    const end = endOfStream && left === 0;
    const extra = left === 0 ? metadata : undefined;
    writeChunkHeader(writer, phase, size, end, extra);
    writable = writer.sendTo(stream);
    for (let rest = size; rest > 0; ) {
      const piece = pieces[index]!;
      const taken = Math.min(rest, piece.length - at);
      if (taken > 0) writable = stream.sendFramed(piece, at, at + taken);
      rest -= taken;
      at += taken;
      if (at === piece.length) {
        index++;
        at = 0;
      }
    }
  } while (left > 0);
  return writable;
}

/**
 * Sends one piece of a body that fits in one reply, as `sendBody` does.
 * @param piece at most `MAX_BODY_CHUNK` bytes
 */
export function sendChunk(stream: GrpcStream, writer: Writer, phase: Phase, piece: Uint8Array, end: boolean): boolean {
  const size = piece.length;
  writeChunkHeader(writer, phase, size, end, undefined);
  const writable = writer.sendTo(stream);
  return size === 0 ? writable : stream.sendFramed(piece, 0, size);
}

/**
 * Sends one `body` reply: the whole body of the mode BUFFERED, with the other changes that this reply may make. Without bytes
 * the received body stays unchanged. That is also the reply to a chunk in the mode STREAMED.
 * @param pieces the bytes in order, cut anywhere
 * @returns false when the caller must wait for `whenWritable` before it sends more
 */
export function sendWholeBody(
  stream: GrpcStream,
  writer: Writer,
  phase: Phase,
  pieces: readonly Uint8Array[],
  reply: CommonReply,
): boolean {
  let size = 0;
  for (const piece of pieces) size += piece.length;
  writer.begin();
  if (size > 0) {
    writer.varint(size);
    writer.byte(LEN_1);
    writer.close(LEN_3, 0, size);
  }
  writeChanges(writer, reply);
  writer.close(LEN_1, 0, size);
  writer.close(BODY_RESPONSE[phase], 0, size);
  writeMetadata(writer, reply.dynamicMetadata);
  prependPrefix(writer, size);
  let writable = writer.sendTo(stream);
  for (const piece of pieces) if (piece.length > 0) writable = stream.sendFramed(piece);
  return writable;
}

/**
 * Writes the part of a message in front of the body bytes of a chunk. Flag and metadata come before the body, against the order of
 * the field numbers (decoders must accept any order). So the body is last in the message and needs no copy.
 * @param size body bytes in this reply, which the caller sends behind the message
 */
function writeChunkHeader(
  writer: Writer,
  phase: Phase,
  size: number,
  endOfStream: boolean,
  metadata: Struct | EncodedStruct | undefined,
): void {
  writer.begin();
  if (metadata === undefined && size < MAX_SHORT) {
    writeShortHeader(writer, phase, size, endOfStream);
    return;
  }
  if (size > 0) {
    writer.varint(size);
    writer.byte(LEN_1);
  }
  if (endOfStream) {
    writer.byte(1);
    writer.byte(VARINT_2);
  }
  writer.close(LEN_3, 0, size);
  writer.close(LEN_3, 0, size);
  writer.close(LEN_1, 0, size);
  writer.close(BODY_RESPONSE[phase], 0, size);
  if (metadata !== undefined) writeMetadata(writer, metadata);
  prependPrefix(writer, size);
}

/** Body bytes in a reply whose lengths, and that of its gRPC message, have at most two bytes. */
const MAX_SHORT = 0x3fff - 32;

/** The bytes that a field with a length below 2^14 has in front of its value. */
function headOf(length: number): number {
  return length < 0x80 ? 2 : 3;
}

function putHead(to: Uint8Array, at: number, tag: number, length: number): number {
  to[at] = tag;
  if (length < 0x80) {
    to[at + 1] = length;
    return at + 2;
  }
  to[at + 1] = (length & 0x7f) | 0x80;
  to[at + 2] = length >> 7;
  return at + 3;
}

/** The same from front to back: most chunks of a stream are short, and each costs only these writes. */
function writeShortHeader(writer: Writer, phase: Phase, size: number, endOfStream: boolean): void {
  const body = (endOfStream ? 2 : 0) + (size > 0 ? headOf(size) + size : 0);
  const streamed = headOf(body) + body;
  const mutation = headOf(streamed) + streamed;
  const common = headOf(mutation) + mutation;
  const message = headOf(common) + common;
  let at = writer.claim(FRAME_PREFIX + message - size);
  const to = writer.memory;
  to[at] = 0;
  to[at + 1] = 0;
  to[at + 2] = 0;
  to[at + 3] = message >> 8;
  to[at + 4] = message & 0xff;
  at = putHead(to, at + FRAME_PREFIX, BODY_RESPONSE[phase], common);
  at = putHead(to, at, LEN_1, mutation);
  at = putHead(to, at, LEN_3, streamed);
  at = putHead(to, at, LEN_3, body);
  if (endOfStream) {
    to[at++] = VARINT_2;
    to[at++] = 1;
  }
  if (size > 0) putHead(to, at, LEN_1, size);
}
