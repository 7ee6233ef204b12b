import { Rejection } from "../../base/inference/outcomes.ts";
import type { ByteRange, ParsedBody } from "../../base/inference/request.ts";
import type { BodyParser } from "../../base/plugin/kinds.ts";
import { JsonMembers } from "./json/members.ts";
import { JsonScanner } from "./json/scanner.ts";
import { COMMON_MEMBERS, countMember, jsonBody } from "./json-body.ts";
import { notJson } from "./parser.ts";

const members = new JsonMembers([...COMMON_MEMBERS, "messages", "tools", "max_completion_tokens", "max_tokens"]);

/**
 * OpenAI chat completions, and vLLM's rendering of them (epp-protocol 10.2, 10.3). Prefixes are those of the bytes of
 * `tools`, then `messages`, as received: chat templates put the tools before the conversation, and the turns of one
 * conversation come from one client, which writes its earlier turns the same way each time.
 */
export const chatCompletions: BodyParser = {
  name: "chat-completions",
  suffixes: ["/chat/completions", "/chat/completions/render"],
  parse(body: Uint8Array): ParsedBody | Rejection {
    const scanner = new JsonScanner(body);
    const wrong = members.read(scanner);
    if (wrong !== undefined) return notJson(wrong);
    const messages = members.kind("messages") === "array" ? members.range("messages") : undefined;
    if (messages === undefined || scanner.firstElement(messages.start) < 0) {
      return new Rejection("bad_request", "invalid chat completions request: must have valid messages field");
    }
    const prompt: ByteRange[] = members.has("tools") ? [members.range("tools"), messages] : [messages];
    const cap = countMember(members, "max_completion_tokens", body);
    return jsonBody(members, scanner, [prompt], Number.isNaN(cap) ? countMember(members, "max_tokens", body) : cap);
  },
};
