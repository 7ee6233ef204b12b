import type { BigIntStats } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { type Document, formatPath, formatPosition, type Path } from "../../base/document/document.ts";
import { parseDocuments } from "../../base/document/parse.ts";
import { readText } from "../../base/document/read.ts";
import { invalidParts, type Violation } from "../../base/document/validate.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import { objectId, type ResourceObject } from "./objects.ts";
import { isList, itemOf, type ReadOptions, readResource } from "./read.ts";

/** The content of a file of manifests. */
export interface Manifests {
  /** In the order of the file. */
  readonly objects: readonly ResourceObject[];
  /** One sentence for each part that is allowed but probably a mistake, beginning with `file:line:column: `. */
  readonly warnings: readonly string[];
}

/**
 * The objects of Sluice's kinds in a file of Kubernetes manifests: YAML with any number of documents, or JSON. Items of lists
 * count too; objects of other kinds are left out.
 * @param file name for messages
 * @throws SluiceError DOCUMENT_SYNTAX, DOCUMENT_INVALID: the message lists every violation of the file as `file:line:column:
 * path: problem`
 */
export function readResources(text: string, file: string, options: ReadOptions = {}): Manifests {
  const objects: ResourceObject[] = [];
  const warnings: string[] = [];
  const wrong: { document: Document; violations: readonly Violation[] }[] = [];
  for (const document of parseDocuments(text, { file })) {
    if (document.value === null) continue;
    const violations: Violation[] = [];
    const read = (value: unknown, at: Path): void => {
      if (isList(value)) {
        const { items } = value;
        if (!Array.isArray(items))
          violations.push({ path: [...at, "items"], problem: "a list of objects needs `items: [...]`" });
        else for (const [i, item] of items.entries()) read(itemOf(value, item), [...at, "items", i]);
        return;
      }
      const reading = readResource(value, options);
      if (reading.outcome === "usable") objects.push(reading.object);
      if (reading.outcome === "invalid") violations.push(...reading.violations.map((found) => below(at, found)));
      if (reading.outcome === "usable" || reading.outcome === "empty")
        for (const found of reading.warnings) warnings.push(sentence(document, below(at, found)));
    };
    read(document.value, []);
    if (violations.length > 0) wrong.push({ document, violations });
  }
  if (wrong.length > 0) throw invalidParts(wrong, "manifest");
  return { objects, warnings };
}

function below(at: Path, { path, problem }: Violation): Violation {
  return { path: [...at, ...path], problem };
}

function sentence(document: Document, { path, problem }: Violation): string {
  const where = formatPosition(document.positionOf(path));
  return path.length === 0 ? `${where}: ${problem}` : `${where}: ${formatPath(path)}: ${problem}`;
}

/** Bounds of a folder of manifests; sizes in bytes. */
export const MAX_FILES = 1_000;
export const MAX_MANIFEST_BYTES = 1024 * 1024;
const MAX_FOLDER_BYTES = 16 * 1024 * 1024;

/** The content of a folder of manifests. */
export interface FolderContent {
  readonly objects: readonly ResourceObject[];
  /** How many files were found. */
  readonly files: number;
  /** Parts that are allowed but probably a mistake, in files that are new or changed since the last reading. */
  readonly warnings: readonly string[];
  /** One per file that is new or changed and cannot be used. Its last usable content is still in `objects`. */
  readonly problems: readonly string[];
}

interface KnownFile {
  readonly signature: string;
  /** The file's last usable content; empty when it was never usable. */
  readonly objects: readonly ResourceObject[];
}

/**
 * The manifests in a folder: every file in it whose name ends in `.yaml`, `.yml` or `.json` and does not begin with a dot.
 * Subfolders are left out, as by `kubectl apply -f`: those of a mounted ConfigMap hold each file once more. An unchanged file
 * is not read again.
 */
export class ManifestFolder {
  readonly #path: string;
  readonly #namespace: string;
  #known = new Map<string, KnownFile>();

  /** @param namespace of objects that name none */
  constructor(path: string, namespace = "default") {
    this.#path = path;
    this.#namespace = namespace;
  }

  /** A text that changes whenever a file is added, changed or removed; "" when the folder cannot be listed. */
  async signature(): Promise<string> {
    try {
      const files = await this.#list();
      return files.map(({ path, signature }) => `${path}\n${signature}\n`).join("");
    } catch {
      return "";
    }
  }

  /**
   * @throws SluiceError RESOURCES_FOLDER when the folder cannot be listed, RESOURCE_LIMIT beyond 1,000 files or 16 MiB,
   * RESOURCE_TWICE when two files, or one, hold the same object; the known content then stays
   */
  async read(): Promise<FolderContent> {
    const known = new Map<string, KnownFile>();
    const warnings: string[] = [];
    const problems: string[] = [];
    for (const { path, signature } of await this.#list()) {
      const before = this.#known.get(path);
      if (before?.signature === signature) {
        known.set(path, before);
        continue;
      }
      try {
        const text = await readText(path, { maxBytes: MAX_MANIFEST_BYTES });
        const manifests = readResources(text, path, { namespace: this.#namespace });
        known.set(path, { signature, objects: manifests.objects });
        warnings.push(...manifests.warnings);
      } catch (error) {
        known.set(path, { signature, objects: before?.objects ?? [] });
        // Of several lines, one per violation.
        problems.push(error instanceof SluiceError ? error.message : messageOf(error));
      }
    }
    const objects = together(known);
    this.#known = known;
    return { objects, files: known.size, warnings, problems };
  }

  async #list(): Promise<{ readonly path: string; readonly signature: string }[]> {
    const names = (await this.#names()).filter((name) => /^[^.].*\.(ya?ml|json)$/i.test(name)).sort();
    if (names.length > MAX_FILES)
      throw new SluiceError("RESOURCE_LIMIT", `${this.#path} holds ${names.length} manifests; at most ${MAX_FILES}`);
    const files: { path: string; signature: string }[] = [];
    let bytes = 0n;
    for (const name of names) {
      const path = join(this.#path, name);
      const found = await statOf(path);
      // Skips folders, and also pipes: to open a pipe would mean to wait for its writer.
      if (found !== undefined && !found.isFile()) continue;
      bytes += found?.size ?? 0n;
      files.push({ path, signature: found === undefined ? "gone" : signatureOf(found) });
    }
    if (bytes > MAX_FOLDER_BYTES)
      throw new SluiceError(
        "RESOURCE_LIMIT",
        `the manifests in ${this.#path} have ${bytes} bytes together; at most ${MAX_FOLDER_BYTES}`,
      );
    return files;
  }

  async #names(): Promise<string[]> {
    try {
      return await readdir(this.#path);
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException;
      const why =
        code === "ENOENT"
          ? "does not exist"
          : code === "ENOTDIR"
            ? "is a file; give the folder of the manifests"
            : `cannot be read: ${messageOf(cause)}`;
      throw new SluiceError("RESOURCES_FOLDER", `${this.#path} ${why}`, { cause });
    }
  }
}

/** A symlink whose target is missing counts as a file that cannot be read. */
async function statOf(path: string): Promise<BigIntStats | undefined> {
  try {
    return await stat(path, { bigint: true });
  } catch {
    return undefined;
  }
}

function signatureOf({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`;
}

/** All objects. The same object twice is a mistake, and file names would decide which one counts. */
function together(files: ReadonlyMap<string, KnownFile>): ResourceObject[] {
  const places = new Map<string, string>();
  const all: ResourceObject[] = [];
  for (const [path, { objects }] of files)
    for (const object of objects) {
      const group = object.kind === "InferencePool" ? ` of ${object.group}` : "";
      const name = `${object.kind} ${objectId(object.meta)}${group}`;
      const before = places.get(name);
      if (before !== undefined)
        throw new SluiceError(
          "RESOURCE_TWICE",
          before === path
            ? `${path} holds ${name} twice; keep one`
            : `${name} is in ${before} and in ${path}; keep one`,
        );
      places.set(name, path);
      all.push(object);
    }
  return all;
}
