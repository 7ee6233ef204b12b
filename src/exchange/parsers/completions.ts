import { Rejection } from "../../inference/outcomes.ts";
import type { ByteRange, ParsedBody } from "../../inference/request.ts";
import type { BodyParser } from "../../plugin/kinds.ts";
import { JsonMembers } from "../json/members.ts";
import { isTokenList } from "../json/ranges.ts";
import { JsonScanner } from "../json/scanner.ts";
import { COMMON_MEMBERS, countMember, stringMember } from "./common-members.ts";
import { modelMissing, notJson } from "./parser.ts";

/**
 * Prompts of one request that are told apart. A body of 32 MiB has room for ten million; the bytes of those beyond are
 * joined to the last one, so that sizes stay right and equal requests stay equal.
 */
export const MAX_PROMPTS = 256;

const members = new JsonMembers([...COMMON_MEMBERS, "prompt", "max_tokens"]);

/**
 * OpenAI completions (epp-protocol 10.2, 10.3). `prompt` is a string, a list of strings, a list of token ids or a list
 * of such lists; each string (its bytes between the quotes) and each list of ids (its bytes as received) is a prompt.
 */
export const completions: BodyParser = {
  name: "completions",
  suffixes: ["/completions"],
  parse(body: Uint8Array): ParsedBody | Rejection {
    const scanner = new JsonScanner(body);
    const wrong = members.read(scanner);
    if (wrong !== undefined) return notJson(wrong);
    if (!members.has("prompt")) {
      return new Rejection("bad_request", "invalid completions request: must have prompt field");
    }
    const prompts = readPrompts(scanner);
    if (prompts === undefined) {
      const detail = "invalid completions request: prompt must be a string, a list of strings or token ids";
      return new Rejection("bad_request", detail);
    }
    const model = stringMember(members, "model", body);
    if (model === "") return modelMissing();
    return {
      model,
      modelRange: members.range("model"),
      modelInsertAt: scanner.skipSpace(0) + 1,
      answerFormat: "http",
      streaming: members.kind("stream") === "true",
      cacheSalt: stringMember(members, "cache_salt", body),
      prompts,
      maxTokens: countMember(members, "max_tokens", body),
    };
  },
};

/** @returns undefined when `prompt` is of no accepted shape */
function readPrompts(scanner: JsonScanner): readonly (readonly ByteRange[])[] | undefined {
  const { start, end } = members.range("prompt");
  const kind = members.kind("prompt");
  if (kind === "string") return [[inside(start, end)]];
  if (kind !== "array") return undefined;
  const first = scanner.firstElement(start);
  // Whether an empty list is acceptable is the model server's to say.
  if (first < 0) return [];
  const bytes = scanner.bytes;
  const opening = bytes[first]!;
  const strings = opening === 0x22;
  if (!strings && opening !== 0x5b) return isTokenList(bytes, start, end) ? [[{ start, end }]] : undefined;
  const prompts: ByteRange[][] = [];
  for (let at = first; at >= 0; ) {
    if (bytes[at] !== opening) return undefined;
    const behind = strings ? scanner.skipString(at + 1) : scanner.skipValue(at);
    if (!strings && !isTokenList(bytes, at, behind)) return undefined;
    if (prompts.length < MAX_PROMPTS) prompts.push([strings ? inside(at, behind) : { start: at, end: behind }]);
    else prompts[MAX_PROMPTS - 1]![1] = { start: prompts[MAX_PROMPTS - 1]![0]!.end, end: behind };
    at = scanner.nextElement(behind);
  }
  return prompts;
}

/** A string's range without its quotes. */
function inside(start: number, end: number): ByteRange {
  return { start: start + 1, end: end - 1 };
}
