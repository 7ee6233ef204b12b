import { FRAME_PREFIX } from "../../base/grpc/frames.ts";

/**
 * Whether a complete body is one gRPC message, not compressed: a flag of 0, the length, and as many bytes
 * (epp-protocol 10.4). The message is what follows the prefix.
 */
export function isOneMessage(body: Uint8Array): boolean {
  if (body.length < FRAME_PREFIX || body[0] !== 0) return false;
  const length = body[1]! * 0x1000000 + ((body[2]! << 16) | (body[3]! << 8) | body[4]!);
  return length === body.length - FRAME_PREFIX;
}
