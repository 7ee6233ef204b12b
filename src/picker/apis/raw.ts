import type { ParsedBody } from "../../base/inference/request.ts";
import type { BodyParser } from "../../base/plugin/kinds.ts";

/** What is known of a body that nobody looks into: neither model nor prompt nor usage. */
const RAW: ParsedBody = {
  model: "",
  modelRange: undefined,
  modelInsertAt: -1,
  answerFormat: "opaque",
  streaming: false,
  cacheSalt: "",
  prompts: [],
  maxTokens: Number.NaN,
};

/** Takes any body as it is. */
export function raw(): ParsedBody {
  return RAW;
}

/** Takes every path and every body as it is (epp-protocol 10.2, E-102). */
export const passthrough: BodyParser = { name: "passthrough", suffixes: [], parse: raw };
