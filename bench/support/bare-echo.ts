/**
 * The reference of bench/extproc.ts: node:http2 and nothing else. It answers as an ext_proc server must, but decodes
 * nothing and decides nothing: a pick that never changes, and every body handed back behind another prefix (HttpBody and
 * StreamedBodyResponse have the same bytes).
 */
import { createServer, type ServerHttp2Stream } from "node:http2";
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

const server = createServer({
  streamResetBurst: 1e9,
  streamResetRate: 1e9,
  maxSessionMemory: 1e6,
  settings: { initialWindowSize: 1 << 20, maxConcurrentStreams: 1 << 20 },
});
server.on("session", (session) => session.setLocalWindowSize(16 << 20));
server.on("stream", (stream: ServerHttp2Stream) => {
  let rest: Buffer = Buffer.alloc(0);
  stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
  stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
  stream.on("error", () => {});
  stream.on("end", () => stream.end());
  stream.on("data", (chunk: Buffer) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    while (rest.length >= 5) {
      const size = rest.readUInt32BE(1);
      if (rest.length < 5 + size) return;
      const message = rest.subarray(5, 5 + size);
      rest = rest.subarray(5 + size);
      if (message[0] === 0x12) stream.write(PICK);
      else if (message[0] === 0x22) stream.write(handBack(message, 3));
      else if (message[0] === 0x1a) stream.write(RESPONSE_HEADERS);
      else if (message[0] === 0x2a) stream.write(handBack(message, 4));
    }
  });
});
server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  if (typeof address === "object" && address !== null)
    process.stdout.write(`listening name=echo address=127.0.0.1:${address.port} pid=${process.pid}\n`);
});
