import type { Random } from "../../base/clock/random.ts";

/** 32 hex digits that tell one submission from every other (async-processor 4.6). */
export function requestToken(random: Random): string {
  let token = "";
  while (token.length < 32) token += random.below(65_536).toString(16).padStart(4, "0");
  return token;
}
