import { Document, isCollection, type Node, type Pair, Scalar, YAMLMap, YAMLSeq } from "yaml";
import type { SocketAddress } from "./options.ts";

/** A part of a configuration, as plain values; members that are undefined are left out. */
export type Tree =
  | string
  | number
  | boolean
  | Commented
  | readonly Tree[]
  | { readonly [key: string]: Tree | undefined };

/** A member with the reason for it. The YAML shows the reason above the key, or above the item in a list. */
class Commented {
  readonly comment: string;
  readonly value: Tree;

  constructor(comment: string, value: Tree) {
    this.comment = comment;
    this.value = value;
  }
}

/** Attaches a comment, one line or several; long lines are wrapped. */
export function commented(comment: string, value: Tree): Tree {
  return new Commented(comment, value);
}

/** Widest comment and widest collection on one line, in characters without the indentation. */
const WIDTH = 100;
const INLINE = 76;

/**
 * Writes a tree as YAML: small collections on one line, everything else in blocks, members in the order given.
 * @param heading the comment at the top of the file
 */
export function toYaml(root: Tree, heading: string): string {
  const document = new Document();
  document.commentBefore = comment(heading);
  document.contents = node(root) as typeof document.contents;
  return document.toString({ lineWidth: 0, indentSeq: false });
}

function node(tree: Tree): Node {
  if (tree instanceof Commented) return node(tree.value);
  if (typeof tree !== "object") {
    const scalar = new Scalar(tree);
    if (typeof tree === "string" && tree.includes("\n")) scalar.type = Scalar.BLOCK_LITERAL;
    return scalar;
  }
  const made = isList(tree) ? list(tree) : mapping(tree);
  made.flow = fitsOneLine(made);
  return made;
}

function isList(tree: object): tree is readonly Tree[] {
  return Array.isArray(tree);
}

function list(items: readonly Tree[]): YAMLSeq {
  const made = new YAMLSeq();
  for (const item of items) {
    const child = node(item);
    if (item instanceof Commented) child.commentBefore = comment(item.comment);
    made.items.push(child);
  }
  return made;
}

function mapping(members: { readonly [key: string]: Tree | undefined }): YAMLMap {
  const made = new YAMLMap();
  for (const [key, member] of Object.entries(members)) {
    if (member === undefined) continue;
    const name = new Scalar(key);
    if (member instanceof Commented) name.commentBefore = comment(member.comment);
    made.add({ key: name, value: node(member) } as Pair);
  }
  return made;
}

/** Collections that are nested deeper than two levels stay in blocks, because people edit them. */
function fitsOneLine(collection: YAMLMap | YAMLSeq): boolean {
  const parts = childrenOf(collection);
  if (parts.some((part) => part.commentBefore || (isCollection(part) && !part.flow))) return false;
  if (parts.some((part) => part instanceof Scalar && (part.value === "@type" || part.type === Scalar.BLOCK_LITERAL)))
    return false;
  return depth(collection) <= 3 && JSON.stringify(collection.toJSON()).length <= INLINE;
}

function depth(collection: YAMLMap | YAMLSeq): number {
  const inner = childrenOf(collection).filter((part) => isCollection(part)) as (YAMLMap | YAMLSeq)[];
  return 1 + Math.max(0, ...inner.map(depth));
}

function childrenOf(collection: YAMLMap | YAMLSeq): Node[] {
  if (collection instanceof YAMLSeq) return collection.items as Node[];
  return (collection.items as Pair<Node, Node>[]).flatMap(({ key, value }) => (value === null ? [key] : [key, value]));
}

/**
 * The lines of a comment as `yaml` needs them: each with a leading blank, wrapped between words, without control characters.
 */
function comment(text: string): string {
  const lines: string[] = [];
  for (const paragraph of text.split("\n")) {
    let line = "";
    // An indented line is a command, which must not be wrapped.
    const words = paragraph.startsWith(" ") ? [paragraph] : paragraph.split(" ");
    for (const word of words) {
      if (line !== "" && line.length + 1 + word.length > WIDTH) {
        lines.push(line);
        line = "";
      }
      line += line === "" ? word : ` ${word}`;
    }
    lines.push(line);
  }
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a control character would end the comment
  return lines.map((line) => ` ${line.replace(/[\u0000-\u001f\u007f\u0085\u2028\u2029]/g, " ")}`).join("\n");
}

/** A message of Envoy's API with its type, as `typed_config` needs it. @param type without the leading `envoy.` */
export function typed(type: string, members: { readonly [key: string]: Tree | undefined } = {}): Tree {
  return { "@type": `type.googleapis.com/envoy.${type}`, ...members };
}

/** An address as Envoy's API writes it. */
export function address({ host, port }: SocketAddress): Tree {
  return { socket_address: { address: host, port_value: port } };
}
