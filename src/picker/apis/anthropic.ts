import { Rejection } from "../../base/inference/outcomes.ts";
import type { ParsedBody } from "../../base/inference/request.ts";
import type { BodyParser } from "../../base/plugin/kinds.ts";
import { raw } from "./fallbacks.ts";
import { JsonMembers } from "./json/members.ts";
import { JsonScanner } from "./json/scanner.ts";
import { COMMON_MEMBERS, countMember, notJson, parsedJson, rangesOf } from "./json-body.ts";

const members = new JsonMembers([...COMMON_MEMBERS, "messages", "system", "tools", "max_tokens"]);

/** Anthropic messages (epp-protocol 10.2, 10.3). The prefix consists of `tools`, `system`, `messages` (epp-protocol 10.5). */
export const messages: BodyParser = {
  name: "messages",
  suffixes: ["/messages"],
  parse(body: Uint8Array): ParsedBody | Rejection {
    const scanner = new JsonScanner(body);
    const wrong = members.read(scanner);
    if (wrong !== undefined) return notJson(wrong, "body");
    if (members.has("messages") && members.kind("messages") !== "array") {
      return new Rejection("bad_request", "error parsing messages request: messages must be a list");
    }
    if (!members.has("messages") || scanner.firstElement(members.range("messages").start) < 0) {
      return new Rejection("bad_request", "invalid messages request: must have at least one message");
    }
    const prompt = rangesOf(members, "tools", "system", "messages");
    return parsedJson(members, scanner, [prompt], countMember(members, "max_tokens", body));
  },
};

const countMembers = new JsonMembers([...COMMON_MEMBERS]);

/**
 * Anthropic's token count. Only its model matters, for the choice of a server that has it: the answer holds no usage, and a body
 * that is not a JSON object passes untouched (epp-protocol 10.2).
 */
export const countTokens: BodyParser = {
  name: "count-tokens",
  suffixes: ["/messages/count_tokens"],
  parse(body: Uint8Array): ParsedBody {
    const scanner = new JsonScanner(body);
    if (countMembers.read(scanner) !== undefined) return raw();
    const parsed = parsedJson(countMembers, scanner, [], Number.NaN);
    return parsed instanceof Rejection || parsed.model === "" ? raw() : parsed;
  },
};
