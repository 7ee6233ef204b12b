import { CST, Lexer } from "yaml";

/** The first thing wrong between brackets. */
export type FlowMistake =
  /** A quote that was closed by the one that should have opened the next text. */
  | { readonly kind: "quote"; readonly offset: number }
  /** Two values with nothing between them: `offset` is where the second begins. */
  | { readonly kind: "separator"; readonly offset: number; readonly closer: string; readonly wantsColon: boolean }
  /** A bracket that opens at `offset` and is open when the text between brackets ends, at `end`. */
  | { readonly kind: "bracket"; readonly offset: number; readonly end: number };

/** A bracket that is open, and what has been seen since its last comma. */
interface Frame {
  readonly offset: number;
  readonly closer: string;
  colon: boolean;
  /** The value that is complete and waits for a comma, a colon or the closing bracket. */
  value: { readonly offset: number; readonly source: string } | undefined;
}

/**
 * Looks between brackets for what people forget: a closing quote, a comma, a closing bracket. The library notices only
 * where it stumbles, often lines later.
 * @param limit offset at which the library stumbled: a mistake that begins behind it is not the cause
 */
export function findFlowMistake(text: string, limit: number): FlowMistake | undefined {
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
        // Plain text: the library's name for it marks the place before it.
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

/** How much of the text a lexeme covers: the lexer also marks places with characters that aren't in it. */
export function lexemeLength(lexeme: string): number {
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
  // Only within a line can the key be told by its quote.
  if (newline >= 0) return newline + 1 + source.slice(newline + 1).search(/\S/);
  const quoted = source.search(/\s["']/);
  return 1 + (quoted >= 0 ? quoted : Math.max(source.lastIndexOf(" "), source.lastIndexOf("\t")));
}
