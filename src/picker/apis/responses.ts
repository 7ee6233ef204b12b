import { Rejection } from "../../base/inference/outcomes.ts";
import type { ParsedBody } from "../../base/inference/request.ts";
import type { BodyParser } from "../../base/plugin/kinds.ts";
import { JsonMembers } from "./json/members.ts";
import { JsonScanner } from "./json/scanner.ts";
import { COMMON_MEMBERS, countMember, jsonBody, rangesOf } from "./json-body.ts";
import { notJson } from "./parser.ts";

const members = new JsonMembers([...COMMON_MEMBERS, "input", "instructions", "tools", "max_output_tokens"]);

/** OpenAI responses (epp-protocol 10.2, 10.3): prefixes are those of `instructions`, `tools`, `input` (10.5). */
export const responses: BodyParser = {
  name: "responses",
  suffixes: ["/responses"],
  parse(body: Uint8Array): ParsedBody | Rejection {
    const scanner = new JsonScanner(body);
    const wrong = members.read(scanner);
    if (wrong !== undefined) return notJson(wrong);
    if (!members.has("input")) return new Rejection("bad_request", "invalid responses request: must have input field");
    const prompt = rangesOf(members, "instructions", "tools", "input");
    return jsonBody(members, scanner, [prompt], countMember(members, "max_output_tokens", body));
  },
};
