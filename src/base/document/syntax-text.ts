import { CST, Lexer, type YAMLError } from "yaml";

/** The fault of a text, and the offset where a person should look. */
interface SyntaxProblem {
  readonly offset: number;
  readonly problem: string;
}

/** The library's terse messages in words for people who seldom write YAML. */
const EXPLAINED: Readonly<Record<string, string>> = {
  TAB_AS_INDENT: "a tab is used for indentation; YAML takes only spaces there",
  BAD_INDENT: "the indentation doesn't fit the lines before it; entries that belong together start in the same column",
  BLOCK_AS_IMPLICIT_KEY: "a second `: ` on one line; put the value in quotes if the colon belongs to it",
  BLOCK_IN_FLOW: "indented entries are not allowed between brackets; use `[...]` or `{...}` inside them too",
  BAD_SCALAR_START: "a plain value can't start with this character; put the value in quotes",
  BAD_DQ_ESCAPE: "no such escape in double quotes; write `\\\\` for a backslash, or use single quotes",
};

/**
 * Says in plain words what the library's error means, and where its cause is. The cause of an open bracket or quote is the
 * place where it opens. The cause of a missing comma is the place before it.
 * @param lineOf the line, from 1, of an offset
 */
export function explainSyntax(text: string, error: YAMLError, lineOf: (offset: number) => number): SyntaxProblem {
  const [from, to] = error.pos;
  const { code, message } = error;
  if (code === "MISSING_CHAR" && message.startsWith("Missing closing")) {
    const offset = quoteEndingAt(text, from);
    if (offset !== undefined) return unclosedQuote(text, offset, lineOf);
  }
  // The library takes the whole contents of a bracket for a key when something is wrong somewhere inside or behind the bracket.
  const wholeKey = code === "MULTILINE_IMPLICIT_KEY" || code === "KEY_OVER_1024_CHARS";
  const limit = wholeKey && /[[{]/.test(text[from] ?? "") ? text.length : to;
  const mistake = findFlowMistake(text, limit);
  if (mistake?.kind === "quote") return unclosedQuote(text, mistake.offset, lineOf);
  if (mistake?.kind === "separator") {
    const missing = mistake.wantsColon ? "a `:`" : `a comma or \`${mistake.closer}\``;
    return { offset: mistake.offset, problem: `${missing} is missing before ${wordAt(text, mistake.offset)}` };
  }
  if (mistake?.kind === "bracket" && / end with a [\]}]$/.test(message)) {
    const { offset, end } = mistake;
    let problem = `\`${text[offset]}\` opened at line ${lineOf(offset)} is not closed`;
    if (text[end] === "]" || text[end] === "}") problem += ` before the \`${text[end]}\` at line ${lineOf(end)}`;
    else if (text.slice(end).trim() !== "") problem += ` before line ${lineOf(end)}, which has too little indentation`;
    return { offset, problem };
  }
  if (code === "MULTILINE_IMPLICIT_KEY" || message === "Implicit map keys need to be followed by map values")
    return { offset: from, problem: noKeyAndValue(text.slice(from, to)) };
  if (code === "UNEXPECTED_TOKEN") {
    if (message.startsWith("Unexpected , in"))
      return { offset: from, problem: "a comma with nothing before it; remove it, or write the missing entry" };
    if (/^Unexpected flow-(seq|map)-end token/.test(message))
      return { offset: from, problem: `\`${text[from]}\` closes no bracket: no matching bracket is open here` };
    if (message.endsWith("at node end"))
      return { offset: from, problem: `${wordAt(text, from)} follows a value that is already complete` };
  }
  if (code === "BLOCK_AS_IMPLICIT_KEY" && !/:(?:\s|$)/.test(lineFrom(text, from))) {
    // A plain value runs on in the deeper lines below it, so the second colon is on one of those.
    const next = from + lineFrom(text, from).length;
    return { offset: next + text.slice(next).search(/\S|$/), problem: EXPLAINED["BAD_INDENT"]! };
  }
  return { offset: from, problem: EXPLAINED[code] ?? message };
}

/** The rest of a line. */
function lineFrom(text: string, offset: number): string {
  return /^[^\r\n]*/.exec(text.slice(offset))![0];
}

function unclosedQuote(text: string, offset: number, lineOf: (offset: number) => number): SyntaxProblem {
  return { offset, problem: `\`${text[offset]}\` opened at line ${lineOf(offset)} is not closed` };
}

/** Where the quoted text that ends at an offset begins. */
function quoteEndingAt(text: string, end: number): number | undefined {
  let offset = 0;
  for (const lexeme of new Lexer().lex(text)) {
    const type = CST.tokenType(lexeme);
    const length = lexemeLength(lexeme);
    if (offset + length >= end && (type === "double-quoted-scalar" || type === "single-quoted-scalar")) return offset;
    offset += length;
    if (offset > end) return undefined;
  }
  return undefined;
}

/** A line that should be `key: value` and isn't. */
function noKeyAndValue(source: string): string {
  const line = source.split(/\r?\n/, 1)[0]!.trim();
  if (line === "-") return "a list item (`-`) among the keys of a mapping; write the key of the list on the line above";
  const shown = line.length <= 60 ? line : `${line.slice(0, 57)}...`;
  const parts = line === shown ? /^([\w.-]+)(?:\s+|\s*[:=]\s*)([^\s:=].*)$/.exec(line) : null;
  if (parts === null) return `\`${shown}\` is not a key with a value: write \`key: value\``;
  return `\`${line}\` is not a key with a value: write \`${parts[1]}: ${parts[2]}\``;
}

/** A word of the text for a message: quoted text whole, other text up to a blank or indicator. */
function wordAt(text: string, offset: number): string {
  const word = /^(?:"[^"\n]*"|'[^'\n]*'|[[{]|[^\s,:[\]{}]+|.)/.exec(text.slice(offset, offset + 200))?.[0] ?? "";
  return `\`${word.length <= 40 ? word : `${word.slice(0, 37)}...`}\``;
}

/** The first fault between brackets. */
type FlowMistake =
  /** A quote that has no end: the next quote, which should open a text, closes it. */
  | { readonly kind: "quote"; readonly offset: number }
  /** Two values with nothing between them: `offset` is where the second begins. */
  | { readonly kind: "separator"; readonly offset: number; readonly closer: string; readonly wantsColon: boolean }
  /** A bracket that opens at `offset` and is open when the text between brackets ends, at `end`. */
  | { readonly kind: "bracket"; readonly offset: number; readonly end: number };

/** A bracket that is open, and the parts since its last comma. */
interface Frame {
  readonly offset: number;
  readonly closer: string;
  colon: boolean;
  /** The value that is complete and waits for a comma, a colon or the closing bracket. */
  value: { readonly offset: number; readonly source: string } | undefined;
}

/**
 * Looks between brackets for what people forget: a closing quote, a comma, a closing bracket. The library notices the mistake
 * only where it stumbles, often lines later.
 * @param limit offset at which the library stumbled: a mistake that begins behind it is not the cause
 */
function findFlowMistake(text: string, limit: number): FlowMistake | undefined {
  const open: Frame[] = [];
  let offset = 0;
  for (const lexeme of new Lexer().lex(text)) {
    const type = CST.tokenType(lexeme);
    const frame = open.at(-1);
    const at = offset;
    offset += lexemeLength(lexeme);
    if (at > limit) break;
    switch (type) {
      case "flow-seq-start":
      case "flow-map-start": {
        const mistake = valueAfterValue(frame, at, lexeme);
        if (mistake !== undefined) return mistake;
        open.push({ offset: at, closer: lexeme === "[" ? "]" : "}", colon: false, value: undefined });
        break;
      }
      case "flow-seq-end":
      case "flow-map-end": {
        if (frame === undefined) break;
        if (frame.closer !== lexeme) return { kind: "bracket", offset: frame.offset, end: at };
        open.pop();
        const outer = open.at(-1);
        if (outer !== undefined) outer.value = { offset: frame.offset, source: lexeme };
        break;
      }
      case "flow-error-end":
        if (frame !== undefined) return { kind: "bracket", offset: frame.offset, end: at };
        break;
      case "comma":
        if (frame !== undefined) {
          frame.colon = false;
          frame.value = undefined;
        }
        break;
      case "map-value-ind":
        if (frame === undefined) break;
        if (frame.colon && frame.value !== undefined) {
          const { closer, value } = frame;
          return { kind: "separator", offset: value.offset + lastWord(value.source), closer, wantsColon: false };
        }
        frame.colon = true;
        frame.value = undefined;
        break;
      case "alias":
      case "single-quoted-scalar":
      case "double-quoted-scalar":
      case null: {
        // Plain text: the library's name for this token marks the place before the text.
        if (frame === undefined) break;
        const mistake = valueAfterValue(frame, at, lexeme);
        if (mistake !== undefined) return mistake;
        frame.value = { offset: at, source: lexeme };
        break;
      }
    }
  }
  const frame = open.at(-1);
  return frame === undefined ? undefined : { kind: "bracket", offset: frame.offset, end: text.length };
}

/** Length of a lexeme in the text. The lexer also marks places with characters that aren't in the text. */
function lexemeLength(lexeme: string): number {
  return lexeme === CST.DOCUMENT || lexeme === CST.FLOW_END || lexeme === CST.SCALAR ? 0 : lexeme.length;
}

function valueAfterValue(frame: Frame | undefined, at: number, source: string): FlowMistake | undefined {
  if (frame?.value === undefined) return undefined;
  const { closer, colon, value } = frame;
  const touches = value.offset + value.source.length === at && /^["']/.test(value.source) && /^[^"'[{]/.test(source);
  if (touches) return { kind: "quote", offset: value.offset };
  return { kind: "separator", offset: at, closer, wantsColon: closer === "}" && !colon };
}

/** Where the key begins in plain text that runs from one value into the next key: `1 "b"`, `a\n  port`. */
function lastWord(source: string): number {
  const newline = source.lastIndexOf("\n");
  // Only within one line does the quote show where the key begins.
  if (newline >= 0) return newline + 1 + source.slice(newline + 1).search(/\S/);
  const quoted = source.search(/\s["']/);
  return 1 + (quoted >= 0 ? quoted : Math.max(source.lastIndexOf(" "), source.lastIndexOf("\t")));
}
