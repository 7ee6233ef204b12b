import { createHttp2Server } from "../../../test/support/grpc/node-http2.ts";
import { transportCases } from "../../../test/support/grpc/transport.cases.ts";
import { realClock } from "../clock/real.ts";

transportCases("http2", (options) => createHttp2Server(options, realClock));
