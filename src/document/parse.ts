import { Composer, Lexer, LineCounter, Parser, type YAMLError, type Document as YamlDocument } from "yaml";
import { oneLine, type Position, SluiceError } from "../inference/errors.ts";
import { type Document, formatPosition } from "./document.ts";
import { explainSyntax } from "./syntax-text.ts";
import { checkTree, type SyntaxFailure } from "./tree.ts";

/** Deepest nesting accepted. */
const MAX_DEPTH = 100;

/**
 * Reads one YAML 1.2 or JSON document, keeping positions. Merge keys (`<<`) work. Refused: tags outside the core schema,
 * keys that aren't plain values, a key twice in one mapping, a second document, nesting beyond 100 levels, aliases that
 * multiply.
 * @param options.file name for messages
 * @throws SluiceError DOCUMENT_SYNTAX, message `file:line:column: what is wrong`
 */
export function parseDocument(text: string, { file }: { readonly file: string }): Document {
  const lines = new LineCounter();
  const at = (offset: number): Position => {
    const { line, col } = lines.linePos(offset);
    return { file, line: Math.max(1, line), column: Math.max(1, col) };
  };
  const failure: SyntaxFailure = (offset, problem) =>
    new SluiceError("DOCUMENT_SYNTAX", `${formatPosition(at(offset))}: ${oneLine(problem)}`);

  const tree = compose(text, lines, failure);
  if (tree === undefined) return { file, value: null, positionOf: () => ({ file, line: 1, column: 1 }) };
  const offsetOf = checkTree(tree.contents, MAX_DEPTH, failure);
  // Aliases were bounded by checkTree, and they share one object here.
  const value = tree.toJS({ maxAliasCount: -1 }) as unknown;
  return { file, value, positionOf: (path) => at(offsetOf(path)) };
}

function compose(text: string, lines: LineCounter, failure: SyntaxFailure): YamlDocument.Parsed | undefined {
  const composer = new Composer({
    schema: "core",
    resolveKnownTags: false,
    merge: true,
    // Looked for in checkTree: the library's own search is quadratic and doesn't name the key.
    uniqueKeys: false,
    logLevel: "silent",
  });
  let first: YamlDocument.Parsed | undefined;
  for (const tree of composer.compose(tokens(text, lines, failure), false, text.length)) {
    const problem: YAMLError | undefined = tree.errors[0] ?? tree.warnings[0];
    if (problem !== undefined) {
      const explained = explainSyntax(text, problem, (offset) => lines.linePos(offset).line);
      throw failure(explained.offset, explained.problem);
    }
    if (first !== undefined) throw failure(tree.range[0], "a second document begins here; write one per file");
    first = tree as YamlDocument.Parsed;
  }
  return first;
}

/**
 * The library's token stream, watched: it composes recursively and some nestings cost it quadratic time, so brackets that
 * are open and indicators on one line (`- - -`) are counted before it sees them. Nesting by indentation needs no count:
 * it grows with the square root of the text.
 */
function* tokens(text: string, lines: LineCounter, failure: SyntaxFailure): ReturnType<Parser["parse"]> {
  lines.addNewLine(0);
  const parser = new Parser(lines.addNewLine);
  let brackets = 0;
  let indicators = 0;
  for (const lexeme of new Lexer().lex(text)) {
    if (lexeme === "[" || lexeme === "{") brackets++;
    else if (lexeme === "]" || lexeme === "}") brackets--;
    else if (lexeme === "\n" || lexeme === "\r\n") indicators = 0;
    else if (brackets === 0 && (lexeme === "-" || lexeme === "?" || lexeme === ":")) indicators++;
    if (brackets > MAX_DEPTH || indicators > MAX_DEPTH)
      throw failure(parser.offset, `nested more than ${MAX_DEPTH} levels deep`);
    yield* parser.next(lexeme);
  }
  yield* parser.end();
}
