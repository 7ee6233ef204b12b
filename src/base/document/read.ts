import { readdirSync } from "node:fs";
import { open } from "node:fs/promises";
import { basename, dirname, extname, join } from "node:path";
import { messageOf, SluiceError } from "../inference/errors.ts";
import type { Document } from "./document.ts";
import { nearest } from "./nearest.ts";
import { parseDocument } from "./parse.ts";

/**
 * Reads a YAML or JSON file.
 * @param path as given by the user; messages show it unchanged
 * @param options.maxBytes largest size accepted
 * @throws SluiceError DOCUMENT_MISSING, DOCUMENT_UNREADABLE, DOCUMENT_TOO_BIG, DOCUMENT_ENCODING, DOCUMENT_SYNTAX
 */
export async function readDocument(path: string, { maxBytes }: { readonly maxBytes: number }): Promise<Document> {
  return parseDocument(await readText(path, { maxBytes }), { file: path });
}

/**
 * The text of a file, for callers that parse it in another way, such as files of several YAML documents.
 * @param path as given by the user; messages show it unchanged
 * @param options.maxBytes largest size accepted
 * @throws SluiceError DOCUMENT_MISSING, DOCUMENT_UNREADABLE, DOCUMENT_TOO_BIG, DOCUMENT_ENCODING
 */
export async function readText(path: string, { maxBytes }: { readonly maxBytes: number }): Promise<string> {
  return decode(await readAtMost(path, maxBytes), path);
}

/** Reads to the end and does not trust the size that the file system reports: pipes and mounted configuration report none. */
async function readAtMost(path: string, maxBytes: number): Promise<Uint8Array> {
  const buffer = new Uint8Array(maxBytes + 1);
  let length = 0;
  try {
    await using file = await open(path, "r");
    while (length < buffer.length) {
      const { bytesRead } = await file.read(buffer, length, buffer.length - length);
      if (bytesRead === 0) break;
      length += bytesRead;
    }
  } catch (error) {
    throw unreadable(path, error);
  }
  if (length > maxBytes)
    throw new SluiceError(
      "DOCUMENT_TOO_BIG",
      `${path} is larger than ${maxBytes} bytes, the limit for this kind of file`,
    );
  return buffer.subarray(0, length);
}

function decode(bytes: Uint8Array, path: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new SluiceError("DOCUMENT_ENCODING", `${path} is not UTF-8 text; save it as UTF-8`, { cause });
  }
}

/**
 * The error for a file that cannot be opened or read, in words instead of the error of the system.
 * @returns DOCUMENT_MISSING or DOCUMENT_UNREADABLE, with the error of the system as its cause
 */
export function unreadable(path: string, cause: unknown): SluiceError {
  const code = (cause as NodeJS.ErrnoException).code;
  if (code === "ENOENT" || code === "ENOTDIR")
    return new SluiceError("DOCUMENT_MISSING", `${path} does not exist${nearFile(path)}`, { cause });
  if (code === "EISDIR") return new SluiceError("DOCUMENT_UNREADABLE", `${path} is a directory, not a file`, { cause });
  if (code === "EACCES" || code === "EPERM")
    return new SluiceError("DOCUMENT_UNREADABLE", `this user has no permission to read ${path}`, { cause });
  return new SluiceError("DOCUMENT_UNREADABLE", `${path} cannot be read: ${messageOf(cause)}`, { cause });
}

/** `; did you mean ...?` for a file of the same kind beside a missing one, or nothing. */
function nearFile(path: string): string {
  const [folder, ending] = [dirname(path), extname(path)];
  try {
    // A link without its target has the name of the missing file.
    const beside = readdirSync(folder).filter((name) => extname(name) === ending && name !== basename(path));
    // Without the ending, which would make all names of its kind alike.
    const found = nearest(
      basename(path, ending),
      beside.map((name) => basename(name, ending)),
    );
    return found === undefined ? "" : `; did you mean ${join(folder, found + ending)}?`;
  } catch {
    return "";
  }
}
