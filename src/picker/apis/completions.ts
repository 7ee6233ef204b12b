import { Rejection } from "../../base/inference/outcomes.ts";
import type { ParsedBody } from "../../base/inference/request.ts";
import type { BodyParser } from "../../base/plugin/kinds.ts";
import { JsonMembers } from "./json/members.ts";
import { JsonScanner } from "./json/scanner.ts";
import { COMMON_MEMBERS, countMember, jsonBody } from "./json-body.ts";
import { notJson } from "./parser.ts";
import { readPrompts } from "./prompts.ts";

const members = new JsonMembers([...COMMON_MEMBERS, "prompt", "max_tokens"]);

/** OpenAI completions, and vLLM's rendering of them (epp-protocol 10.2, 10.3). */
export const completions: BodyParser = {
  name: "completions",
  suffixes: ["/completions", "/completions/render"],
  parse(body: Uint8Array): ParsedBody | Rejection {
    const scanner = new JsonScanner(body);
    const wrong = members.read(scanner);
    if (wrong !== undefined) return notJson(wrong);
    if (!members.has("prompt")) {
      return new Rejection("bad_request", "invalid completions request: must have prompt field");
    }
    const prompts = readPrompts(scanner, members.kind("prompt"), members.range("prompt"));
    if (prompts === undefined) {
      const detail = "invalid completions request: prompt must be a string, a list of strings or token ids";
      return new Rejection("bad_request", detail);
    }
    return jsonBody(members, scanner, prompts, countMember(members, "max_tokens", body));
  },
};
