import { Rejection } from "../../base/inference/outcomes.ts";
import type { ParsedBody } from "../../base/inference/request.ts";
import type { BodyParser } from "../../base/plugin/kinds.ts";
import { JsonMembers } from "./json/members.ts";
import { JsonScanner } from "./json/scanner.ts";
import { COMMON_MEMBERS, jsonBody } from "./json-body.ts";
import { notJson } from "./parser.ts";
import { readPrompts } from "./prompts.ts";

const members = new JsonMembers([...COMMON_MEMBERS, "input"]);

/**
 * Embeddings (epp-protocol 10.2, 10.3). Each string or list of token ids of `input` is a prompt; what else servers take
 * there (lists of images, say) is one prompt, its bytes as received.
 */
export const embeddings: BodyParser = {
  name: "embeddings",
  suffixes: ["/embeddings"],
  parse(body: Uint8Array): ParsedBody | Rejection {
    const scanner = new JsonScanner(body);
    const wrong = members.read(scanner);
    if (wrong !== undefined) return notJson(wrong);
    if (!members.has("input")) {
      return new Rejection("bad_request", "invalid embeddings request: must have input field");
    }
    const range = members.range("input");
    return jsonBody(members, scanner, readPrompts(scanner, members.kind("input"), range) ?? [[range]], Number.NaN);
  },
};
