/** Where a member's value stands in a JSON text: start inclusive, end exclusive. */
export interface Range {
  readonly start: number;
  readonly end: number;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/**
 * The ranges of the members of the JSON object that begins at `from`, without copying any of them. The text must be valid
 * JSON: it is not checked here. Of members of one name the last counts, as in `JSON.parse`.
 * @param from index of the object's brace or of white space before it
 */
export function memberRanges(text: string, from = 0): Map<string, Range> {
  const found = new Map<string, Range>();
  let at = skipSpace(text, from) + 1;
  for (;;) {
    at = skipSpace(text, at);
    if (text.charCodeAt(at) !== QUOTE) return found;
    const nameEnd = skipString(text, at);
    const name = JSON.parse(text.slice(at, nameEnd)) as string;
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

/** @param from index of the opening quote @returns the index behind the closing one */
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

const VALUE_END = /[\s,\]}]/g;
const MARK = /["[\]{}]/g;

function skipValue(text: string, from: number): number {
  const first = text.charCodeAt(from);
  if (first === QUOTE) return skipString(text, from);
  if (text[from] !== "{" && text[from] !== "[") {
    VALUE_END.lastIndex = from;
    return VALUE_END.exec(text)?.index ?? text.length;
  }
  let depth = 0;
  let at = from;
  for (;;) {
    MARK.lastIndex = at;
    const mark = MARK.exec(text);
    if (mark === null) return text.length;
    at = mark.index;
    switch (mark[0]) {
      case '"':
        at = skipString(text, at);
        break;
      case "{":
      case "[":
        depth++;
        at++;
        break;
      default:
        at++;
        if (--depth === 0) return at;
    }
  }
}
