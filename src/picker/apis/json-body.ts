import type { Rejection } from "../../base/inference/outcomes.ts";
import type { AnswerFormat, ByteRange, ParsedBody } from "../../base/inference/request.ts";
import type { JsonMembers } from "./json/members.ts";
import { decodeString, readCount } from "./json/ranges.ts";
import type { JsonScanner } from "./json/scanner.ts";
import { modelMissing } from "./parser.ts";

/** The members every JSON API has (epp-protocol 10.3). */
export const COMMON_MEMBERS = ["model", "stream", "cache_salt"] as const;

/**
 * What a JSON body whose own members are in order says: those members, and the common ones. A `model` that is absent,
 * null or empty is no error here, since a rewrite may supply one (E-109); one that is no string is.
 *
 * @param members filled from the body that `scanner` walks over
 */
export function jsonBody<Name extends string>(
  members: JsonMembers<Name | (typeof COMMON_MEMBERS)[number]>,
  scanner: JsonScanner,
  prompts: ParsedBody["prompts"],
  maxTokens: number,
  answerFormat: AnswerFormat = "http",
): ParsedBody | Rejection {
  const kind = members.kind("model");
  if (kind !== undefined && kind !== "string" && kind !== "null") return modelMissing();
  const body = scanner.bytes;
  // A null is replaced, too: a second member before it would be the one that doesn't count.
  const modelRange = kind === undefined ? undefined : members.range("model");
  return {
    model: modelRange !== undefined && kind === "string" ? decodeString(body, modelRange.start, modelRange.end) : "",
    modelRange,
    modelInsertAt: scanner.skipSpace(0) + 1,
    answerFormat,
    streaming: members.kind("stream") === "true",
    cacheSalt: stringMember(members, "cache_salt", body),
    prompts,
    escapeBytes: scanner.escapeBytes === 0 ? 0 : members.escapeBytesOf(prompts),
    maxTokens,
  };
}

/** The text of a string member; "" when it is absent or no string. */
export function stringMember<Name extends string>(members: JsonMembers<Name>, name: Name, body: Uint8Array): string {
  if (members.kind(name) !== "string") return "";
  const { start, end } = members.range(name);
  return decodeString(body, start, end);
}

/** The count in a number member; NaN when it is absent, no number or negative. */
export function countMember<Name extends string>(members: JsonMembers<Name>, name: Name, body: Uint8Array): number {
  if (members.kind(name) !== "number") return Number.NaN;
  const { start, end } = members.range(name);
  return readCount(body, start, end);
}

/** The ranges of those of `names` that are there and not null, in the order of `names`. */
export function rangesOf<Name extends string>(members: JsonMembers<Name>, ...names: readonly Name[]): ByteRange[] {
  const ranges: ByteRange[] = [];
  for (const name of names) if (members.has(name)) ranges.push(members.range(name));
  return ranges;
}
