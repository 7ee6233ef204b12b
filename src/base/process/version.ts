import { readFileSync } from "node:fs";

/** The version in package.json, which lies three folders up in the sources and in dist/ alike. */
export const VERSION: string = (
  JSON.parse(readFileSync(new URL("../../../package.json", import.meta.url), "utf8")) as { version: string }
).version;
