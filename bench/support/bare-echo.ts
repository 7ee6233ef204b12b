/**
 * The reference of bench/extproc.ts: node:http2 and nothing else. It decodes nothing and decides nothing.
 */
import { createServer, type ServerHttp2Stream } from "node:http2";
import { answerTo } from "./echo-answers.ts";

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
      const answer = answerTo(message);
      if (answer !== undefined) stream.write(answer);
    }
  });
});
server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  if (typeof address === "object" && address !== null)
    process.stdout.write(`listening name=echo address=127.0.0.1:${address.port} pid=${process.pid}\n`);
});
