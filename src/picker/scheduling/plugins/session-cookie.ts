import { type HeaderList, withoutBlanks } from "../../../base/inference/headers.ts";

/**
 * The value of a cookie of the request, as it was sent, without blanks around it (RFC 6265 4.2). The pairs may be spread over
 * several headers (RFC 9113 8.2.3); of several cookies of that name the first counts, which is the one with the longest path.
 * @param name compared exactly
 * @returns undefined when there is none, or an empty one
 */
export function cookieOf(headers: HeaderList, name: string): string | undefined {
  for (let at = 0; at < headers.length; at++) {
    if (headers.keys[at] !== "cookie") continue;
    const value = cookieIn(headers.values[at]!, name);
    if (value !== undefined) return value === "" ? undefined : value;
  }
  return undefined;
}

function cookieIn(text: string, name: string): string | undefined {
  for (const pair of text.split(";")) {
    const equals = pair.indexOf("=");
    if (equals >= 0 && withoutBlanks(pair.slice(0, equals)) === name) return withoutBlanks(pair.slice(equals + 1));
  }
  return undefined;
}
