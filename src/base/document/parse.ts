import { Composer, Lexer, LineCounter, Parser, type YAMLError, type Document as YamlDocument } from "yaml";
import { oneLine, type Position, SluiceError } from "../inference/errors.ts";
import { type Document, formatPosition } from "./document.ts";
import { explainSyntax } from "./syntax-text.ts";
import { checkTree, type SyntaxFailure } from "./tree.ts";

/** Deepest nesting accepted. */
const MAX_DEPTH = 100;
/** Most documents one text may hold. */
const MAX_DOCUMENTS = 1_000;

/**
 * Reads one YAML 1.2 or JSON document, keeping positions. Merge keys (`<<`) work. Refused: tags outside the core schema,
 * keys that aren't plain values, a key twice in one mapping, the key `__proto__`, a second document, nesting beyond 100 levels,
 * aliases that multiply.
 * @param options.file name for messages
 * @throws SluiceError DOCUMENT_SYNTAX, message `file:line:column: what is wrong`
 */
export function parseDocument(text: string, { file }: { readonly file: string }): Document {
  const source = new Source(text, file);
  let first: YamlDocument.Parsed | undefined;
  for (const tree of source.trees()) {
    if (first !== undefined) throw source.failure(tree.range[0], "a second document begins here; write one per file");
    first = tree;
  }
  return first === undefined
    ? { file, value: null, positionOf: () => ({ file, line: 1, column: 1 }) }
    : source.document(first);
}

/**
 * Reads the documents of a text that may hold several, separated by `---`, each as `parseDocument` does. Anchors don't
 * reach from one into the next. A document of comments only has the value null.
 * @param options.file name for messages
 * @returns in the order of the text; none for a text without any
 * @throws SluiceError DOCUMENT_SYNTAX, message `file:line:column: what is wrong`; also beyond 1,000 documents
 */
export function parseDocuments(text: string, { file }: { readonly file: string }): readonly Document[] {
  const source = new Source(text, file);
  const documents: Document[] = [];
  for (const tree of source.trees()) {
    if (documents.length === MAX_DOCUMENTS)
      throw source.failure(tree.range[0], `more than ${MAX_DOCUMENTS} documents in one file; split the file`);
    documents.push(source.document(tree));
  }
  return documents;
}

/** One text while it is read. */
class Source {
  readonly #text: string;
  readonly #file: string;
  readonly #lines = new LineCounter();

  constructor(text: string, file: string) {
    this.#text = text;
    this.#file = file;
  }

  /** The syntax trees of its documents, one after the other. */
  *trees(): Generator<YamlDocument.Parsed, void, undefined> {
    const composer = new Composer({
      schema: "core",
      resolveKnownTags: false,
      merge: true,
      // Looked for in checkTree: the library's own search is quadratic and doesn't name the key.
      uniqueKeys: false,
      logLevel: "silent",
    });
    const text = this.#text;
    for (const tree of composer.compose(tokens(text, this.#lines, this.failure), false, text.length)) {
      const problem: YAMLError | undefined = tree.errors[0] ?? tree.warnings[0];
      if (problem !== undefined) {
        const explained = explainSyntax(text, problem, (offset) => this.#lines.linePos(offset).line);
        throw this.failure(explained.offset, explained.problem);
      }
      yield tree as YamlDocument.Parsed;
    }
  }

  document(tree: YamlDocument.Parsed): Document {
    const offsetOf = checkTree(tree.contents, MAX_DEPTH, this.failure);
    // Aliases were bounded by checkTree, and they share one object here.
    const value = tree.toJS({ maxAliasCount: -1 }) as unknown;
    return { file: this.#file, value, positionOf: (path) => this.#at(offsetOf(path)) };
  }

  readonly failure: SyntaxFailure = (offset, problem) =>
    new SluiceError("DOCUMENT_SYNTAX", `${formatPosition(this.#at(offset))}: ${oneLine(problem)}`);

  #at(offset: number): Position {
    const { line, col } = this.#lines.linePos(offset);
    return { file: this.#file, line: Math.max(1, line), column: Math.max(1, col) };
  }
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
