import { realClock } from "../clock/real.ts";
import { createHttp2Server } from "./http2.ts";
import { transportCases } from "./transport.cases.ts";

transportCases("http2", (options) => createHttp2Server(options, realClock));
