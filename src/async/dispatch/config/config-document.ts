import { dirname, resolve } from "node:path";
import type { Document } from "../../../base/document/document.ts";
import { parseDocument } from "../../../base/document/parse.ts";
import { readDocument } from "../../../base/document/read.ts";

/** The largest configuration file, bytes. */
const MAX_BYTES = 4 * 1024 * 1024;

/** One of the reference's files, or a section of another file with the content of one. */
export interface ConfigDocument extends Document {
  /** Relative paths in it start here. */
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

/** The value of `key` as a document of its own, with the positions of the file it stands in. */
export function sectionOf(document: ConfigDocument, key: string): ConfigDocument {
  return {
    file: document.file,
    folder: document.folder,
    value: (document.value as Readonly<Record<string, unknown>>)[key],
    positionOf: (path) => document.positionOf([key, ...path]),
  };
}
