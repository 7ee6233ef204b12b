import type { Writer } from "../../base/grpc/protobuf.ts";
import type { GrpcStream } from "../../base/grpc/transport.ts";
import { finishFramed, writeChanges, writeMetadata } from "./encode.ts";
import type { CommonReply, Phase, Struct } from "./messages.ts";

// Tags: field number << 3 | wire type. The writer works back to front, so every function names the last field first.
const LEN_1 = 0x0a;
const LEN_3 = 0x1a;
const VARINT_2 = 0x10;
const BODY_RESPONSE = { request: 0x1a, response: 0x22 } as const;

/** The most body bytes in one reply: some deployments cap messages at 64 KiB (envoy-data-plane 1.4(7), E-18). */
export const MAX_BODY_CHUNK = 62_000;

/** A body up to this size is copied behind its header, for one write instead of two; above, it is sent as it is. */
const COPY_LIMIT = 8 * 1024;

/**
 * Sends body bytes as `streamed_response` replies of at most 62,000 bytes each; no bytes at all are one empty reply.
 * Bytes are not copied unless they are few. The only dialect of FULL_DUPLEX_STREAMED, and of no other mode.
 * @param pieces the bytes in order, cut anywhere
 * @param endOfStream sets the flag on the last reply; legal only after the data plane has set it in this direction
 * @param metadata dynamic metadata on the last reply
 * @returns false when more should wait for `whenWritable`
 */
export function sendBody(
  stream: GrpcStream,
  writer: Writer,
  phase: Phase,
  pieces: readonly Uint8Array[],
  endOfStream: boolean,
  metadata?: Struct,
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
    writer.begin();
    const copy = size <= COPY_LIMIT ? writer.space(size) : undefined;
    writable = copy === undefined ? stream.sendFramed(encodeChunkHeader(writer, phase, size, size, end, extra)) : true;
    for (let rest = size; rest > 0; ) {
      const piece = pieces[index]!;
      const taken = Math.min(rest, piece.length - at);
      const part = taken === piece.length ? piece : piece.subarray(at, at + taken);
      if (copy !== undefined) copy.set(part, size - rest);
      else if (taken > 0) writable = stream.sendFramed(part);
      rest -= taken;
      at += taken;
      if (at === piece.length) {
        index++;
        at = 0;
      }
    }
    if (copy !== undefined) writable = stream.sendFramed(encodeChunkHeader(writer, phase, size, 0, end, extra));
  } while (left > 0);
  return writable;
}

/**
 * Sends one `body` reply: the whole body of the mode BUFFERED, with what else that reply may change. Without bytes the
 * received body stays as it is, which is also the reply to a chunk in the mode STREAMED.
 * @param pieces the bytes in order, cut anywhere; not copied unless they are few
 * @returns false when more should wait for `whenWritable`
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
  const following = size > COPY_LIMIT ? size : 0;
  writer.begin();
  if (size > 0) {
    if (following === 0) writer.bytes(pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces));
    writer.varint(size);
    writer.byte(LEN_1);
    writer.close(LEN_3, 0, following);
  }
  writeChanges(writer, reply);
  writer.close(LEN_1, 0, following);
  writer.close(BODY_RESPONSE[phase], 0, following);
  writeMetadata(writer, reply.dynamicMetadata);
  let writable = stream.sendFramed(finishFramed(writer, following));
  if (following > 0) for (const piece of pieces) writable = stream.sendFramed(piece);
  return writable;
}

/**
 * What stands in front of the body bytes of a chunk. Flag and metadata are written before the body, against the order of
 * the field numbers (decoders must not care), so that the body is the last thing in the message and need not be copied.
 * @param size body bytes in this reply
 * @param following how many of them are sent behind it; the others are in the writer already
 */
function encodeChunkHeader(
  writer: Writer,
  phase: Phase,
  size: number,
  following: number,
  endOfStream: boolean,
  metadata: Struct | undefined,
): Uint8Array {
  if (size > 0) {
    writer.varint(size);
    writer.byte(LEN_1);
  }
  if (endOfStream) {
    writer.byte(1);
    writer.byte(VARINT_2);
  }
  writer.close(LEN_3, 0, following);
  writer.close(LEN_3, 0, following);
  writer.close(LEN_1, 0, following);
  writer.close(BODY_RESPONSE[phase], 0, following);
  if (metadata !== undefined) writeMetadata(writer, metadata);
  return finishFramed(writer, following);
}
