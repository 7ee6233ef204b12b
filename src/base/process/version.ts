import { readFileSync } from "node:fs";

/** The version in package.json, which is three folders up both in the sources and in dist/. */
export const VERSION: string = (
  JSON.parse(readFileSync(new URL("../../../package.json", import.meta.url), "utf8")) as { version: string }
).version;
