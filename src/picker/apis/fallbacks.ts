import { Rejection } from "../../base/inference/outcomes.ts";
import type { ByteRange, ParsedBody } from "../../base/inference/request.ts";
import type { BodyParser } from "../../base/plugin/kinds.ts";
import { JsonMembers } from "./json/members.ts";
import { JsonScanner } from "./json/scanner.ts";
import { COMMON_MEMBERS, countMember, parsedJson, readPrompts } from "./json-body.ts";

/** The result for a body that Sluice does not read: no model, no prompt and no usage. */
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

/** Accepts any body unchanged. */
export function raw(): ParsedBody {
  return RAW;
}

/** Accepts every path and every body unchanged (epp-protocol 10.2, E-102). */
export const passthrough: BodyParser = { name: "passthrough", suffixes: [], parse: raw };

const members = new JsonMembers([...COMMON_MEMBERS, "prompt", "messages", "tools", "max_tokens"]);

/**
 * For paths of no known API. A JSON object that names a model is read like a completion, without other required members. Any
 * other body is accepted unchanged (epp-protocol 10.1 last paragraph, E-101, E-102).
 */
export const anyJson: BodyParser = {
  name: "any-json",
  suffixes: [],
  parse(body: Uint8Array): ParsedBody {
    const scanner = new JsonScanner(body);
    if (members.read(scanner) !== undefined) return raw();
    const parsed = parsedJson(members, scanner, promptsOf(scanner), countMember(members, "max_tokens", body));
    return parsed instanceof Rejection || parsed.model === "" ? raw() : parsed;
  },
};

function promptsOf(scanner: JsonScanner): readonly (readonly ByteRange[])[] {
  if (members.kind("messages") === "array") {
    const messages = members.range("messages");
    return [members.has("tools") ? [members.range("tools"), messages] : [messages]];
  }
  return readPrompts(scanner, members.kind("prompt"), members.range("prompt")) ?? [];
}
