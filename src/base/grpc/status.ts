/** The gRPC status codes that this code uses (the numbers of the gRPC specification). */
export const GRPC_STATUS = {
  ok: 0,
  cancelled: 1,
  unknown: 2,
  invalidArgument: 3,
  notFound: 5,
  resourceExhausted: 8,
  failedPrecondition: 9,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
} as const;

/** Names as the gRPC libraries print them, by number. Labels of metrics have the same spelling. */
const NAMES = [
  ...["OK", "Canceled", "Unknown", "InvalidArgument", "DeadlineExceeded", "NotFound", "AlreadyExists"],
  ...["PermissionDenied", "ResourceExhausted", "FailedPrecondition", "Aborted", "OutOfRange", "Unimplemented"],
  ...["Internal", "Unavailable", "DataLoss", "Unauthenticated"],
] as const;

/** The name of a gRPC status; Unknown for any other number. */
export function statusName(status: number): string {
  return NAMES[status] ?? NAMES[GRPC_STATUS.unknown];
}

const UNESCAPED = /^[\x20-\x24\x26-\x7e]*$/;

/**
 * The value of `grpc-message`: printable ASCII except `%` stays, every other byte of the UTF-8 text becomes `%XX`
 * (gRPC over HTTP/2, "Status-Message"). Lone surrogates become U+FFFD, as in every UTF-8 encoder.
 */
export function encodeGrpcMessage(text: string): string {
  if (UNESCAPED.test(text)) return text;
  let out = "";
  for (const byte of Buffer.from(text, "utf8")) {
    out +=
      byte >= 0x20 && byte <= 0x7e && byte !== 0x25
        ? String.fromCharCode(byte)
        : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }
  return out;
}

/**
 * The text of a `grpc-message` value. A `%` that starts no valid escape means itself, and bytes that are no UTF-8 become
 * U+FFFD: the specification asks receivers never to fail on this value.
 */
export function decodeGrpcMessage(value: string): string {
  if (!value.includes("%")) return value;
  const bytes: number[] = [];
  for (let at = 0; at < value.length; at++) {
    const digits = value.slice(at + 1, at + 3);
    if (value[at] === "%" && /^[0-9a-fA-F]{2}$/.test(digits)) {
      bytes.push(Number.parseInt(digits, 16));
      at += 2;
    } else {
      bytes.push(...Buffer.from(value[at]!, "utf8"));
    }
  }
  return Buffer.from(bytes).toString("utf8");
}
