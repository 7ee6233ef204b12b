/**
 * The answers of both echo servers of bench/extproc.ts: what an ext_proc server must send, without a decision. A pick that never
 * changes, and every body handed back behind another prefix (HttpBody and StreamedBodyResponse have the same bytes).
 */
import { field } from "./wire.ts";

const framed = (message: Uint8Array): Buffer => {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
};

const KEY = Buffer.from("x-gateway-destination-endpoint");
const ADDRESS = Buffer.from("127.0.0.1:8000");
const header = field(1, Buffer.concat([field(1, KEY), field(3, ADDRESS)]));
const mutation = field(2, field(1, header));
const entry = field(1, Buffer.concat([field(1, KEY), field(2, field(3, ADDRESS))]));
const metadata = field(8, field(1, Buffer.concat([field(1, Buffer.from("envoy.lb")), field(2, field(5, entry))])));
const PICK = framed(Buffer.concat([field(1, field(1, Buffer.concat([mutation, Buffer.from([0x28, 1])]))), metadata]));
const RESPONSE_HEADERS = framed(field(2, field(1, new Uint8Array(0))));

/** `tag length bytes...` of a message's first field, as a reply: BodyResponse{CommonResponse{BodyMutation{streamed_response}}}. */
function handBack(message: Buffer, number: number): Buffer {
  let at = 1;
  let size = 0;
  for (let shift = 0; ; shift += 7) {
    const byte = message[at++]!;
    size |= (byte & 127) << shift;
    if (byte < 128) break;
  }
  return framed(field(number, field(1, field(3, field(3, message.subarray(at, at + size))))));
}

/** The answer to one message of the proxy, with its gRPC prefix; undefined for a message that needs none. */
export function answerTo(message: Buffer): Buffer | undefined {
  switch (message[0]) {
    case 0x12:
      return PICK;
    case 0x22:
      return handBack(message, 3);
    case 0x1a:
      return RESPONSE_HEADERS;
    case 0x2a:
      return handBack(message, 4);
    default:
      return undefined;
  }
}
