import { type Document, isMap, isSeq, parseDocument, YAMLMap, type YAMLSeq } from "yaml";
import { didYouMean } from "../../base/document/nearest.ts";
import { parseDocument as readDocumentIn } from "../../base/document/parse.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { type KeyEntry, keysIn } from "./key-entry.ts";
import { newKey } from "./key-text.ts";

/** What a new key may do, as the file has it. */
export interface NewKeyFields {
  readonly name: string;
  readonly models?: readonly string[] | undefined;
  readonly objective?: string | undefined;
  readonly priority?: number | undefined;
  readonly fairnessId?: string | undefined;
  readonly choosesFlow?: boolean | undefined;
  readonly background?: boolean | undefined;
  /** Unix milliseconds. */
  readonly expires?: number | undefined;
}

/** A changed file. */
export interface Edited {
  readonly text: string;
  readonly entry: KeyEntry;
}

/** The beginning of a new file. */
const HEAD = `# The keys of a gateway: sluice gateway --keys FILE. Change this file with sluice keys add, revoke and rotate;
# a running gateway reads each change. The file holds hashes of the keys; a hash does not reveal its key.
`;

/**
 * Changes the text of a keys file. Everything else in the text stays, comments included.
 * @throws SluiceError DOCUMENT_... for a text that is no keys file, KEY_NAME
 */
export class KeysEdit {
  readonly #file: string;
  readonly #document: Document;
  readonly #entries: readonly KeyEntry[];

  /** @param text "" for a new file @param file for messages */
  constructor(text: string, file: string) {
    this.#file = file;
    this.#entries = keysIn(readDocumentIn(text, { file }));
    this.#document = parseDocument(text === "" ? HEAD : text);
  }

  /** Adds a key. @param now Unix milliseconds @returns the secret, too, which is in no file */
  add(fields: NewKeyFields, now: number): Edited & { readonly key: string } {
    const { name } = fields;
    if (this.#entries.some((entry) => entry.name === name))
      throw new SluiceError(
        "KEY_NAME",
        `${this.#file} already has a key ${JSON.stringify(name)}; take another name, or give this key a new secret: sluice keys rotate`,
      );
    const { id, key, hash } = newKey(undefined);
    const { models, objective, priority, fairnessId, choosesFlow, background, expires } = fields;
    const entry = {
      ...{ id, name, hash, models, objective, priority, fairnessId },
      choosesFlow: choosesFlow === true ? true : undefined,
      background: background === true ? true : undefined,
      createdAt: timeText(now),
      expires: expires === undefined ? undefined : timeText(expires),
    };
    const given = Object.fromEntries(Object.entries(entry).filter(([, value]) => value !== undefined));
    const node = this.#document.createNode(given);
    this.#list().add(node);
    return { ...this.#edited(id), key };
  }

  /** Refuses a key from now on. @param which name or id */
  revoke(which: string, now: number): Edited {
    const { id, node } = this.#find(which);
    if (!node.has("revoked")) node.set("revoked", timeText(now));
    node.delete("previous");
    return this.#edited(id);
  }

  /** Takes a key out of the file. @param which name or id */
  remove(which: string): Edited {
    const { at, entry } = this.#find(which);
    this.#list().delete(at);
    return { text: this.#text(), entry };
  }

  /**
   * Gives a key a new secret; id, name and rights stay.
   * @param grace milliseconds in which the old secret still counts
   */
  rotate(which: string, grace: number, now: number): Edited & { readonly key: string } {
    const { id, node, entry } = this.#find(which);
    if (entry.revoked !== undefined)
      throw new SluiceError("KEY_NAME", `the key ${JSON.stringify(entry.name)} was revoked; add a new key`);
    const { key, hash } = newKey(id);
    node.delete("previous");
    if (grace > 0) node.set("previous", this.#document.createNode({ hash: entry.hash, until: timeText(now + grace) }));
    node.set("hash", hash);
    return { ...this.#edited(id), key };
  }

  #find(which: string): { id: string; at: number; node: YAMLMap; entry: KeyEntry } {
    const at = this.#entries.findIndex(({ id, name }) => id === which || name === which);
    const entry = this.#entries[at];
    const node = entry && this.#list().items[at];
    if (entry !== undefined && isMap(node)) return { id: entry.id, at, node, entry };
    const names = this.#entries.map(({ name }) => name);
    const where =
      names.length === 0
        ? "; the file is empty or does not exist: name another file with --file"
        : "; sluice keys list shows the names";
    const hint = didYouMean(which, names) || where;
    throw new SluiceError("KEY_NAME", `${this.#file} has no key ${JSON.stringify(which.slice(0, 100))}${hint}`);
  }

  #list(): YAMLSeq {
    const document = this.#document;
    if (!isMap(document.contents)) document.contents = new YAMLMap(document.schema) as never;
    const list = document.get("keys");
    if (isSeq(list)) return list;
    document.set("keys", document.createNode([]));
    return document.get("keys") as YAMLSeq;
  }

  /** The new text, checked as a gateway would. */
  #edited(id: string): Edited {
    const text = this.#text();
    const entry = keysIn(readDocumentIn(text, { file: this.#file })).find((found) => found.id === id);
    return { text, entry: entry! };
  }

  #text(): string {
    return this.#document.toString({ lineWidth: 0 });
  }
}

/** A moment as the file has it: whole seconds, UTC. */
export function timeText(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}
