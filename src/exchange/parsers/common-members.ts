import type { JsonMembers } from "../json/members.ts";
import { decodeString, readCount } from "../json/ranges.ts";

/** The members every JSON API has (epp-protocol 10.3). */
export const COMMON_MEMBERS = ["model", "stream", "cache_salt"] as const;

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
