import { oneLine } from "../../base/inference/errors.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { AnswerFormat, ByteRange, ParsedBody } from "../../base/inference/request.ts";
import type { JsonKind, JsonMembers } from "./json/members.ts";
import { decodeString, isTokenList, readCount } from "./json/ranges.ts";
import type { JsonScanner } from "./json/scanner.ts";

/** The members of every JSON API (epp-protocol 10.3). */
export const COMMON_MEMBERS = ["model", "stream", "cache_salt"] as const;

/**
 * Returns a parsed body from its own members, which the caller has checked, and the common members. A `model` that is absent,
 * null or empty is no error here, because a rewrite may supply one (E-109). A `model` that is no string is an error.
 *
 * @param members filled from the body that `scanner` walks over
 */
export function parsedJson<Name extends string>(
  members: JsonMembers<Name | (typeof COMMON_MEMBERS)[number]>,
  scanner: JsonScanner,
  prompts: ParsedBody["prompts"],
  maxTokens: number,
  { answerFormat = "http", answers = 1 }: { readonly answerFormat?: AnswerFormat; readonly answers?: number } = {},
): ParsedBody | Rejection {
  const kind = members.kind("model");
  if (kind !== undefined && kind !== "string" && kind !== "null") return modelMissing();
  const body = scanner.bytes;
  // A splice replaces a null too. Of two members the last one counts, so a new one before the null would not.
  const modelRange = kind === undefined ? undefined : members.range("model");
  return {
    model: modelRange !== undefined && kind === "string" ? decodeString(body, modelRange.start, modelRange.end) : "",
    modelRange,
    modelInsertAt: scanner.skipSpace(0) + 1,
    answerFormat,
    streaming: members.kind("stream") === "true",
    cacheSalt: textMember(members, "cache_salt", body),
    prompts,
    escapeBytes: scanner.escapeBytes === 0 ? 0 : members.escapeBytesOf(prompts),
    maxTokens,
    answers,
  };
}

/** The most answers to one prompt. Model servers accept fewer; a figure of a client must not grow without a bound. */
export const MAX_ANSWERS = 16_384;

/** The answers to one prompt that counts ask for, such as `n`; NaN counts as 1. */
export function answersFor(...counts: readonly number[]): number {
  let most = 1;
  for (const count of counts) if (count > most) most = count;
  return Math.min(most, MAX_ANSWERS);
}

/** Returns the text of a string member; "" when it is absent or no string. */
export function textMember<Name extends string>(members: JsonMembers<Name>, name: Name, body: Uint8Array): string {
  if (members.kind(name) !== "string") return "";
  const { start, end } = members.range(name);
  return decodeString(body, start, end);
}

/** Returns the count in a number member; NaN when it is absent, no number or negative. */
export function countMember<Name extends string>(members: JsonMembers<Name>, name: Name, body: Uint8Array): number {
  if (members.kind(name) !== "number") return Number.NaN;
  const { start, end } = members.range(name);
  return readCount(body, start, end);
}

/** Returns the ranges of those `names` that are present and not null, in the order of `names`. */
export function rangesOf<Name extends string>(members: JsonMembers<Name>, ...names: readonly Name[]): ByteRange[] {
  const ranges: ByteRange[] = [];
  for (const name of names) if (members.has(name)) ranges.push(members.range(name));
  return ranges;
}

/**
 * The most separate prompts of one request. A body of 32 MiB has room for ten million prompts. The bytes of further prompts
 * join the last one, so that sizes stay right and equal requests stay equal.
 */
export const MAX_PROMPTS = 256;

/**
 * Returns the prompts in a member. The member holds a string, a list of strings, a list of token ids or a list of such lists.
 * Each string (its bytes between the quotes) and each list of ids (its bytes as received) is a prompt.
 *
 * @param range of the member's value, in valid JSON
 * @returns undefined when the member has another shape
 */
export function readPrompts(
  scanner: JsonScanner,
  kind: JsonKind | undefined,
  { start, end }: ByteRange,
): readonly (readonly ByteRange[])[] | undefined {
  if (kind === "string") return [[inside(start, end)]];
  if (kind !== "array") return undefined;
  const first = scanner.firstElement(start);
  // The model server decides whether it accepts an empty list.
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

/** Returns a string's range without its quotes. */
export function inside(start: number, end: number): ByteRange {
  return { start: start + 1, end: end - 1 };
}

/**
 * Returns the refusal of a body that is not a JSON object (epp-protocol 9.3, 10.2, E-81).
 *
 * @param cause the error in the words of Go's decoder
 * @param what the name of the body in the words of the API's reference parser
 */
export function notJson(cause: string, what: "bodyMap" | "body" = "bodyMap"): Rejection {
  return new Rejection("bad_request", oneLine(`error unmarshaling request ${what}: ${cause}`), oneLine(plain(cause)));
}

/** Returns the error in plain words instead of those of Go's decoder. */
function plain(cause: string): string {
  const kind = /^json: cannot unmarshal (\w+) into/.exec(cause)?.[1];
  if (kind !== undefined) return `the request body must be a JSON object, but is ${KINDS[kind] ?? `a ${kind}`}`;
  return cause === "unexpected end of JSON input"
    ? "the request body is empty or ends too early; send a complete JSON object"
    : `the request body is not valid JSON: ${cause}`;
}

/** Kinds of JSON values by their name in Go's decoder. */
const KINDS: Readonly<Record<string, string>> = {
  array: "an array",
  string: "a string",
  number: "a number",
  bool: "true or false",
};

/** Returns the refusal of a body without a usable `model` (epp-protocol 9.3, E-82). */
function modelMissing(): Rejection {
  return new Rejection("model_missing", "model not found in request body");
}
