import { randomInt } from "node:crypto";
import { freePort as freePortFrom } from "../../src/app/free-port.ts";

/** Below the ports that systems give to outgoing connections: one of those would take a port between choice and use. */
const FIRST_PORT = 20_000;
const LAST_PORT = 31_900;

/** A port that nobody listened on a moment ago; where the search begins is chance, so that two in a row differ. */
export function freePort(): Promise<number> {
  return freePortFrom("127.0.0.1", randomInt(FIRST_PORT, LAST_PORT));
}
