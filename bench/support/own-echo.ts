/** The floor of bench/extproc.ts: the answers of bare-echo.ts over Sluice's own HTTP/2. It decodes nothing and decides nothing. */
import { realClock } from "../../src/base/clock/real.ts";
import { createH2Server } from "../../src/base/grpc/h2/server.ts";
import type { GrpcHandler } from "../../src/base/grpc/transport.ts";
import { answerTo } from "./echo-answers.ts";

const echo: GrpcHandler = (stream) => ({
  message(bytes) {
    const answer = answerTo(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
    if (answer !== undefined) stream.sendFramed(answer);
  },
  halfClosed: () => stream.end(0),
  closed() {},
});
const handlers = new Map([["/envoy.service.ext_proc.v3.ExternalProcessor/Process", echo]]);
const { port } = await createH2Server({ host: "127.0.0.1", port: 0, handlers }, realClock).listen();
process.stdout.write(`listening name=floor address=127.0.0.1:${port} pid=${process.pid}\n`);
