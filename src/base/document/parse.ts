import {
  type Alias,
  Composer,
  isAlias,
  isCollection,
  isMap,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  type Node,
  Parser,
  type YAMLError,
  type YAMLMap,
  type Document as YamlDocument,
} from "yaml";
import { oneLine, type Position, SluiceError } from "../inference/errors.ts";
import { type Document, formatPosition, type Path } from "./document.ts";
import { explainSyntax } from "./syntax-text.ts";

/** Deepest nesting accepted. */
const MAX_DEPTH = 100;
/** Most documents one text may hold. */
const MAX_DOCUMENTS = 1_000;

/**
 * Reads one YAML 1.2 or JSON document and keeps positions. Merge keys (`<<`) work. Refused:
 * - tags outside the core schema
 * - keys that aren't plain values, a key twice in one mapping, the key `__proto__`
 * - a second document
 * - nesting beyond 100 levels
 * - aliases that multiply
 * @param options.file name for messages
 * @throws SluiceError DOCUMENT_SYNTAX, message `file:line:column: what is wrong`
 */
export function parseDocument(text: string, { file }: { readonly file: string }): Document {
  const source = new Source(text, file);
  let first: YamlDocument.Parsed | undefined;
  for (const tree of source.trees()) {
    if (first !== undefined) throw source.failure(tree.range[0], "a second document begins here; split the file");
    first = tree;
  }
  return first === undefined
    ? { file, text, value: null, positionOf: () => ({ file, line: 1, column: 1 }) }
    : source.document(first);
}

/**
 * Reads the documents of a text, separated by `---`, each as `parseDocument` does. An anchor is valid in its own document only.
 * A document of comments only has the value null.
 * @param options.file name for messages
 * @returns in the order of the text; empty for a text without a document
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
      // checkTree looks for duplicate keys: the library's own search is quadratic and doesn't name the key.
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
    // checkTree has bounded the aliases, and they share one object here.
    const value = tree.toJS({ maxAliasCount: -1 }) as unknown;
    return { file: this.#file, text: this.#text, value, positionOf: (path) => this.#at(offsetOf(path)) };
  }

  readonly failure: SyntaxFailure = (offset, problem) =>
    new SluiceError("DOCUMENT_SYNTAX", `${formatPosition(this.#at(offset))}: ${oneLine(problem)}`);

  #at(offset: number): Position {
    const { line, col } = this.#lines.linePos(offset);
    return { file: this.#file, line: Math.max(1, line), column: Math.max(1, col) };
  }
}

/**
 * The library's token stream with a check of nesting. The library composes recursively, and some nestings cost it quadratic
 * time. Therefore this code counts open brackets and indicators on one line (`- - -`) before the library sees them. Nesting by
 * indentation needs no count: it grows with the square root of the text.
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

/** Makes the error for a problem at an offset of the text. */
type SyntaxFailure = (offset: number, problem: string) => SluiceError;

/** How many values aliases may add to the values of the text: enough for people, too few for a bomb. */
const MAX_ALIASED = 100_000;

/**
 * Checks what the YAML grammar allows and a configuration must not have:
 * - duplicate keys, keys that aren't plain values, the key `__proto__`
 * - aliases without an anchor, to themselves or beyond 100,000 values in all
 * - nesting beyond `maxDepth`
 * @returns the offset in the text at which the part at a path begins, as `Document.positionOf` describes it
 * @throws what `failure` makes
 */
function checkTree(top: Node | null, maxDepth: number, failure: SyntaxFailure): (path: Path) => number {
  const anchors = new Map<string, Node>();
  const sizes = new Map<Node, number>();
  const targets = new Map<Alias, Node>();
  let aliased = 0;

  function check(node: Node, depth: number): number {
    if (depth > maxDepth) throw failure(start(node), `nested more than ${maxDepth} levels deep`);
    if (isAlias(node)) {
      const target = anchors.get(node.source);
      if (target === undefined) throw failure(start(node), `\`*${node.source}\` has no \`&${node.source}\` above it`);
      const size = sizes.get(target);
      if (size === undefined) throw failure(start(node), `\`*${node.source}\` contains itself`);
      aliased += size;
      if (aliased > MAX_ALIASED)
        throw failure(start(node), `aliases expand to more than ${MAX_ALIASED} values; write the values out`);
      targets.set(node, target);
      return size;
    }
    if (node.anchor !== undefined) anchors.set(node.anchor, node);
    let size = 1;
    if (isMap(node)) {
      const seen = new Set<string>();
      for (const { key, value } of node.items) {
        const name = keyName(key);
        if (name === undefined) throw failure(start(key as Node), keyProblem(node, key));
        if (seen.has(name)) throw failure(start(key as Node), `key \`${name}\` appears twice in this mapping`);
        seen.add(name);
        // An object in JavaScript silently loses this key and the value below it.
        if (name === "__proto__")
          throw failure(start(key as Node), "the key `__proto__` is not allowed; use another name");
        if (name === "<<" && !isMergeable(value as Node | null))
          throw failure(start(key as Node), "`<<` takes a mapping, an alias of a mapping, or a list of such aliases");
        if (value !== null) size += check(value as Node, depth + 1);
      }
    } else if (isSeq(node)) for (const item of node.items) size += check(item as Node, depth + 1);
    sizes.set(node, size);
    return size;
  }

  /** An alias can mean only an anchor above it, and all of those are known here. */
  function isMergeable(value: Node | null): boolean {
    const isMapping = (node: unknown): boolean => isMap(isAlias(node) ? anchors.get(node.source) : node);
    return isSeq(value) ? value.items.every(isMapping) : isMapping(value);
  }

  if (top !== null) check(top, 1);

  return (path) => {
    let node: Node | undefined = top ?? undefined;
    let offset = start(node);
    for (const step of path) {
      if (node !== undefined && isAlias(node)) node = targets.get(node);
      if (node === undefined || !isCollection(node)) break;
      if (isMap(node)) {
        const pair = node.items.find((item) => keyName(item.key) === String(step));
        if (pair === undefined) break;
        offset = start(pair.key as Node);
        node = (pair.value as Node | null) ?? undefined;
      } else {
        const item = node.items[Number(step)] as Node | undefined;
        if (item === undefined) break;
        offset = start(item);
        node = item;
      }
    }
    return offset;
  };
}

function start(node: Node | null | undefined): number {
  return node?.range?.[0] ?? 0;
}

/** Why a key has no name. In YAML the `{{ ... }}` of a template is a mapping inside a mapping, as its only key. */
function keyProblem({ flow, items }: YAMLMap, key: unknown): string {
  const isTemplate =
    flow && items.length === 1 && isMap(key) && key.flow && key.items.every(({ value }) => value === null);
  return isTemplate
    ? "`{{ ... }}` is an unfilled template placeholder; fill it in, or quote it if it is plain text"
    : "a key must be a plain value such as a word";
}

/** The property name that a key gets in an object; undefined for a key that has none. */
function keyName(key: unknown): string | undefined {
  if (!isScalar(key) || key.value === null) return undefined;
  // The library turns a merge key into a symbol.
  return typeof key.value === "symbol" ? key.value.description : String(key.value);
}
