import { Rejection } from "../../base/inference/outcomes.ts";
import type { ByteRange, ParsedBody } from "../../base/inference/request.ts";
import type { BodyParser } from "../../base/plugin/kinds.ts";
import { JsonMembers } from "./json/members.ts";
import { JsonScanner } from "./json/scanner.ts";
import { COMMON_MEMBERS, countMember, parsedJson, readPrompts } from "./json-body.ts";

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

const members = new JsonMembers([...COMMON_MEMBERS, "prompt", "messages", "tools", "max_tokens"]);

/**
 * For paths of no known API: a JSON object that names a model is read like a completion, with nothing else required of
 * it; any other body is taken as it is (epp-protocol 10.1 last paragraph, E-101, E-102).
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
