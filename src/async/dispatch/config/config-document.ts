import { dirname, resolve } from "node:path";
import type { z } from "zod";
import { type Document, formatPath, formatPosition, type Path } from "../../../base/document/document.ts";
import { isObject } from "../../../base/document/json-object.ts";
import { didYouMean } from "../../../base/document/nearest.ts";
import { parseDocument } from "../../../base/document/parse.ts";
import { readDocument } from "../../../base/document/read.ts";
import { check, invalidParts, type Violation } from "../../../base/document/validate.ts";
import { SluiceError } from "../../../base/inference/errors.ts";

/** The largest configuration file, bytes. */
const MAX_BYTES = 4 * 1024 * 1024;

/** One of the reference's files, or a section of another file with the same content. */
export interface ConfigDocument extends Document {
  /** Base of the relative paths in it. */
  readonly folder: string;
}

/**
 * Reads a file; relative paths in it are relative to its folder.
 * @throws SluiceError DOCUMENT_...
 */
export async function readConfigDocument(path: string): Promise<ConfigDocument> {
  return { ...(await readDocument(path, { maxBytes: MAX_BYTES })), folder: dirname(resolve(path)) };
}

/**
 * Reads the content of a file that is given as the value of a flag; relative paths in it are relative to the working
 * directory.
 * @throws SluiceError DOCUMENT_SYNTAX
 */
export function parseConfigDocument(text: string, flag: string): ConfigDocument {
  return { ...parseDocument(text, { file: flag }), folder: process.cwd() };
}

/** The value of `key` as a document of its own, with positions in the file around it. An absent key has the value undefined. */
export function sectionOf(document: ConfigDocument, key: string): ConfigDocument {
  return {
    ...document,
    value: (document.value as Readonly<Record<string, unknown>>)[key],
    positionOf: (path) => document.positionOf([key, ...path]),
  };
}

/** Most unknown keys that an error lists. */
const MAX_UNKNOWN = 10;

/** Collects the errors and the warnings of all documents of a configuration. */
export class Findings {
  readonly #violations = new Map<Document, Violation[]>();
  readonly #warnings: string[] = [];
  /** The warnings about unknown keys. */
  readonly #unknown: string[] = [];

  /** Sentences that begin with `file:line:column: `. */
  get warnings(): readonly string[] {
    return this.#warnings;
  }

  refuse(document: Document, path: Path, problem: string): void {
    this.#of(document).push({ path, problem });
  }

  /** Refuses one of two names of the same setting, both of which the section has. */
  refuseAlias(document: Document, alias: string, usual: string): void {
    this.refuse(document, [alias], `is an alias of ${usual}, and the section has both; keep one`);
  }

  warn(document: Document, path: Path, text: string): void {
    const place = formatPosition(document.positionOf(path));
    this.#warnings.push(path.length === 0 ? `${place}: ${text}` : `${place}: ${formatPath(path)}: ${text}`);
  }

  /** The schema's output, or undefined when the document violates the schema. */
  check<S extends z.ZodType>(document: Document, schema: S): z.output<S> | undefined {
    return check(document.value, schema, [], this.#of(document))?.output;
  }

  /**
   * Warns of unknown keys, which the reference ignores silently (async-processor H-47).
   * @param value mapping at `path`; the schema reports any other value
   * @param because the text for certain keys, instead of the usual one
   */
  warnOfUnknown(
    document: Document,
    path: Path,
    value: unknown,
    known: readonly string[],
    because: Readonly<Record<string, string>> = {},
  ): void {
    if (!isObject(value)) return;
    for (const key of Object.keys(value)) {
      if (known.includes(key)) continue;
      const special = Object.hasOwn(because, key) ? because[key] : undefined;
      this.warn(document, [...path, key], special ?? `unknown key, ignored${didYouMean(key, known)}`);
      if (special === undefined) this.#unknown.push(this.#warnings.at(-1)!);
    }
  }

  /** @throws SluiceError DOCUMENT_INVALID with all that was refused, and the unknown keys, which may be the cause */
  throwIfAny(what: string): void {
    const parts = [...this.#violations].map(([document, violations]) => ({ document, violations }));
    if (!parts.some(({ violations }) => violations.length > 0)) return;
    const { code, message } = invalidParts(parts, what);
    const unknown = this.#unknown.slice(0, MAX_UNKNOWN).map((text) => `\n  ${text}`);
    throw new SluiceError(code, `${message}${unknown.join("")}`);
  }

  #of(document: Document): Violation[] {
    let violations = this.#violations.get(document);
    if (violations === undefined) {
      violations = [];
      this.#violations.set(document, violations);
    }
    return violations;
  }
}
