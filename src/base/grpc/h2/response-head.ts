import { encodeGrpcMessage } from "../status.ts";

/** Most bytes of an encoded `grpc-message`, so that trailers always fit one frame. */
const MAX_STATUS_MESSAGE = 8 * 1024;

// Every field is a static-table reference or a plain literal. The peer's dynamic table stays empty, so a block means the same
// in every place of a connection and can be prepared once.
const STATUS_200 = Buffer.of(0x88);
const CONTENT_TYPE = literal("content-type", "application/grpc");

const ACCEPT_ENCODING = literal("grpc-accept-encoding", "identity,gzip");

/** The header block of an answer: `:status 200`, `content-type application/grpc`, and the accepted compressions. */
export const RESPONSE_BLOCK: Buffer = Buffer.concat([STATUS_200, CONTENT_TYPE, ACCEPT_ENCODING]);

const STATUS_BLOCKS: readonly Buffer[] = Array.from({ length: 17 }, (_, status) =>
  literal("grpc-status", String(status)),
);

/**
 * The header block that ends a call.
 * @param trailersOnly nothing was sent before
 */
export function trailerBlock(status: number, message: string, trailersOnly: boolean): Buffer {
  const statusBlock = STATUS_BLOCKS[status] ?? literal("grpc-status", String(status));
  if (message === "" && !trailersOnly) return statusBlock;
  const parts = trailersOnly ? [RESPONSE_BLOCK, statusBlock] : [statusBlock];
  if (message !== "") parts.push(literal("grpc-message", bounded(encodeGrpcMessage(message))));
  return Buffer.concat(parts);
}

/** The header block of an answer that is not gRPC: the HTTP status alone. */
export function statusBlock(httpStatus: number): Buffer {
  return Buffer.concat([Buffer.of(0x08, 3), Buffer.from(String(httpStatus), "latin1")]);
}

/** Never cut within an escape. */
function bounded(encoded: string): string {
  return encoded.length <= MAX_STATUS_MESSAGE ? encoded : encoded.slice(0, MAX_STATUS_MESSAGE).replace(/%.?$/, "");
}

/** A literal field without indexing, its name spelled out. */
function literal(name: string, value: string): Buffer {
  return Buffer.concat([Buffer.of(0), string(name), string(value)]);
}

function string(text: string): Buffer {
  const bytes = Buffer.from(text, "latin1");
  const length: number[] = [];
  if (bytes.length < 0x7f) {
    length.push(bytes.length);
  } else {
    length.push(0x7f);
    let rest = bytes.length - 0x7f;
    for (; rest >= 0x80; rest >>= 7) length.push((rest & 0x7f) | 0x80);
    length.push(rest);
  }
  return Buffer.concat([Buffer.from(length), bytes]);
}
