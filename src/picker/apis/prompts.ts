import type { ByteRange } from "../../base/inference/request.ts";
import type { JsonKind } from "./json/members.ts";
import { isTokenList } from "./json/ranges.ts";
import type { JsonScanner } from "./json/scanner.ts";

/**
 * Prompts of one request that are told apart. A body of 32 MiB has room for ten million; the bytes of those beyond are
 * joined to the last one, so that sizes stay right and equal requests stay equal.
 */
export const MAX_PROMPTS = 256;

/**
 * The prompts in a member that holds a string, a list of strings, a list of token ids or a list of such lists: each
 * string (its bytes between the quotes) and each list of ids (its bytes as received) is a prompt.
 *
 * @param range of the member's value, known to be valid JSON
 * @returns undefined when it is of no such shape
 */
export function readPrompts(
  scanner: JsonScanner,
  kind: JsonKind | undefined,
  { start, end }: ByteRange,
): readonly (readonly ByteRange[])[] | undefined {
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
export function inside(start: number, end: number): ByteRange {
  return { start: start + 1, end: end - 1 };
}
