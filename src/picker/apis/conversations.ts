import { Rejection } from "../../base/inference/outcomes.ts";
import type { ParsedBody } from "../../base/inference/request.ts";
import type { BodyParser } from "../../base/plugin/kinds.ts";
import { JsonMembers } from "./json/members.ts";
import { JsonScanner } from "./json/scanner.ts";
import { COMMON_MEMBERS, jsonBody } from "./json-body.ts";
import { notJson } from "./parser.ts";

const members = new JsonMembers([...COMMON_MEMBERS, "items"]);

/** OpenAI conversations (epp-protocol 10.2, 10.3): `items` is a list with something in it. */
export const conversations: BodyParser = {
  name: "conversations",
  suffixes: ["/conversations"],
  parse(body: Uint8Array): ParsedBody | Rejection {
    const scanner = new JsonScanner(body);
    const wrong = members.read(scanner);
    if (wrong !== undefined) return notJson(wrong);
    const items = members.kind("items") === "array" ? members.range("items") : undefined;
    if (items === undefined || scanner.firstElement(items.start) < 0) {
      return new Rejection("bad_request", "invalid conversations request: must have items field");
    }
    return jsonBody(members, scanner, [[items]], Number.NaN);
  },
};
