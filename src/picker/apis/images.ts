import { Rejection } from "../../base/inference/outcomes.ts";
import type { ParsedBody } from "../../base/inference/request.ts";
import type { BodyParser } from "../../base/plugin/kinds.ts";
import { JsonMembers } from "./json/members.ts";
import { JsonScanner } from "./json/scanner.ts";
import { COMMON_MEMBERS, jsonBody } from "./json-body.ts";
import { notJson } from "./parser.ts";
import { inside } from "./prompts.ts";

const members = new JsonMembers([...COMMON_MEMBERS, "prompt"]);

/** OpenAI image generation (epp-protocol 10.2, 10.3): `prompt` is a text that is not empty. */
export const images: BodyParser = {
  name: "images",
  suffixes: ["/images/generations"],
  parse(body: Uint8Array): ParsedBody | Rejection {
    const scanner = new JsonScanner(body);
    const wrong = members.read(scanner);
    if (wrong !== undefined) return notJson(wrong);
    const { start, end } = members.range("prompt");
    if (members.kind("prompt") !== "string" || end - start <= 2) {
      return new Rejection("bad_request", "invalid images generations request: must have prompt field");
    }
    return jsonBody(members, scanner, [[inside(start, end)]], Number.NaN);
  },
};
