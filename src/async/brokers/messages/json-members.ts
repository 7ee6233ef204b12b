/** The place of a member's value in a JSON text: start inclusive, end exclusive. */
export interface Range {
  readonly start: number;
  readonly end: number;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_BRACKET = 0x5b;
const OPEN_BRACE = 0x7b;

/**
 * The ranges of the members of the JSON object that begins at `from`, without copies. The caller guarantees valid JSON. Of
 * members with the same name the last counts, as in `JSON.parse`.
 * @param from index of the object's brace or of white space before it
 */
export function memberRanges(text: string, from = 0): Map<string, Range> {
  const found = new Map<string, Range>();
  let at = skipSpace(text, from) + 1;
  for (;;) {
    at = skipSpace(text, at);
    if (text.charCodeAt(at) !== QUOTE) return found;
    const nameEnd = skipString(text, at);
    const name = nameOf(text, at, nameEnd);
    const start = skipSpace(text, skipSpace(text, nameEnd) + 1);
    const end = skipValue(text, start);
    found.set(name, { start, end });
    at = skipSpace(text, end);
    if (text[at] === ",") at++;
  }
}

function skipSpace(text: string, from: number): number {
  let at = from;
  for (;;) {
    const code = text.charCodeAt(at);
    if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return at;
    at++;
  }
}

/** @param from index of the opening quote @returns the index after the closing one */
function skipString(text: string, from: number): number {
  let at = from + 1;
  for (;;) {
    at = text.indexOf('"', at);
    let escapes = 0;
    while (text.charCodeAt(at - 1 - escapes) === BACKSLASH) escapes++;
    at++;
    if (escapes % 2 === 0) return at;
  }
}

/** @param from index of the opening quote @param to index after the closing one */
function nameOf(text: string, from: number, to: number): string {
  const name = text.slice(from + 1, to - 1);
  return name.includes("\\") ? (JSON.parse(text.slice(from, to)) as string) : name;
}

const VALUE_END = /[\s,\]}]/g;
const MARK = /["[\]{}]/g;

function skipValue(text: string, from: number): number {
  const first = text.charCodeAt(from);
  if (first === QUOTE) return skipString(text, from);
  if (first !== OPEN_BRACE && first !== OPEN_BRACKET) {
    VALUE_END.lastIndex = from;
    return VALUE_END.test(text) ? VALUE_END.lastIndex - 1 : text.length;
  }
  let depth = 0;
  MARK.lastIndex = from;
  // `test` keeps its position and creates nothing; `exec` would create an object for each mark.
  while (MARK.test(text)) {
    switch (text.charCodeAt(MARK.lastIndex - 1)) {
      case QUOTE:
        MARK.lastIndex = skipString(text, MARK.lastIndex - 1);
        break;
      case OPEN_BRACE:
      case OPEN_BRACKET:
        depth++;
        break;
      default:
        if (--depth === 0) return MARK.lastIndex;
    }
  }
  return text.length;
}
