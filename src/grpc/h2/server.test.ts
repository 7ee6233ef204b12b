import { realClock } from "../../clock/real.ts";
import { transportCases } from "../transport.cases.ts";
import { createH2Server } from "./server.ts";

transportCases("h2", (options) => createH2Server(options, realClock));
