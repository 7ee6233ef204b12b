import { oneLine } from "../../inference/errors.ts";
import { Rejection } from "../../inference/outcomes.ts";
import type { BodyParser } from "../../plugin/kinds.ts";
import { chatCompletions } from "./chat-completions.ts";
import { completions } from "./completions.ts";

/** Every parser there is. */
export const PARSERS: readonly BodyParser[] = [chatCompletions, completions];

/**
 * The parser for a request path: the one with the longest suffix that matches, query string and one trailing slash cut
 * (epp-protocol 10.1, E-100).
 *
 * @param path value of `:path`
 * @returns the 400 of 9.3 when none matches; it shows the path without its query, which may hold secrets
 */
export function selectParser(path: string, parsers: readonly BodyParser[] = PARSERS): BodyParser | Rejection {
  const query = path.indexOf("?");
  const bare = query < 0 ? path : path.slice(0, query);
  const trimmed = bare.endsWith("/") ? bare.slice(0, -1) : bare;
  let found: BodyParser | undefined;
  let longest = 0;
  for (const parser of parsers) {
    for (const suffix of parser.suffixes) {
      if (suffix.length > longest && trimmed.endsWith(suffix)) {
        found = parser;
        longest = suffix.length;
      }
    }
  }
  return found ?? new Rejection("no_parser", oneLine(`no parser registered matching path suffix for: ${bare}`));
}
