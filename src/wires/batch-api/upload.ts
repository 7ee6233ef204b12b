import { createWriteStream } from "node:fs";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { Busboy, type BusboyHeaders, type BusboyInstance } from "@fastify/busboy";
import { ApiError, invalidParameter } from "./api-error.ts";

/** Fields besides the file, and bytes of each. */
const MOST_FIELDS = 8;
const FIELD_BYTES = 1024;
/** Characters of the longest name of a file. */
const LONGEST_NAME = 255;

/** An uploaded form whose file is on the disk. */
export interface Upload {
  readonly filename: string;
  readonly bytes: number;
  /** The other fields of the form. */
  readonly fields: ReadonlyMap<string, string>;
}

/**
 * Writes the file of a form to the disk while it comes, and syncs it.
 * @param path where the file goes; nothing may be there
 * @param admit called with the bytes so far before each piece is written @throws ApiError to end the upload
 * @throws ApiError for a form that is wrong or breaks off
 */
export async function receiveUpload(request: Request, path: string, admit: (bytes: number) => void): Promise<Upload> {
  const type = request.headers.get("content-type") ?? "";
  if (request.body === null || !/^multipart\/form-data\b/i.test(type))
    throw new ApiError(
      400,
      "invalid_form",
      "send the file as multipart/form-data, with the fields `file` and `purpose`",
    );
  const fields = new Map<string, string>();
  let file: { readonly filename: string; bytes: number } | undefined;
  let writing: Promise<void> | undefined;
  let fault: ApiError | undefined;
  const form = formOf(type);
  const body = Readable.fromWeb(request.body as Parameters<typeof Readable.fromWeb>[0]);
  const stop = (error: ApiError): void => {
    fault ??= error;
    body.destroy(error);
    form.destroy();
  };
  form.on("field", (name, value, nameTruncated, valueTruncated) => {
    if (nameTruncated || valueTruncated) stop(invalidParameter(name.slice(0, 100), "the field is too long"));
    else if (fields.has(name)) stop(invalidParameter(name, "the field is there twice"));
    else fields.set(name, value);
  });
  form.on("file", (name, stream, filename) => {
    if (name !== "file" || file !== undefined) {
      stream.resume();
      stop(invalidParameter(name.slice(0, 100), "the form must have one file, in the field `file`"));
      return;
    }
    const found = { filename: (filename ?? "").slice(0, LONGEST_NAME) || "input.jsonl", bytes: 0 };
    file = found;
    writing = pipeline(
      stream,
      async function* (pieces: AsyncIterable<Buffer>) {
        for await (const piece of pieces) {
          found.bytes += piece.length;
          admit(found.bytes);
          yield piece;
        }
      },
      createWriteStream(path, { flags: "wx", mode: 0o600, flush: true, highWaterMark: 1024 * 1024 }),
    );
    writing.catch((error: unknown) => stop(error instanceof ApiError ? error : diskError(error)));
  });
  for (const event of ["fieldsLimit", "filesLimit", "partsLimit"] as const)
    form.on(event, () => stop(new ApiError(400, "invalid_form", "the form has too many parts")));
  try {
    await pipeline(body, form);
    await writing;
  } catch (error) {
    await writing?.catch(() => {});
    if (fault !== undefined) throw fault;
    throw error instanceof ApiError
      ? error
      : new ApiError(400, "invalid_form", "the form is not complete or not well formed");
  }
  if (fault !== undefined) throw fault;
  if (file === undefined) throw invalidParameter("file", "the form has no file in the field `file`");
  return { ...file, fields };
}

function formOf(type: string): BusboyInstance {
  const limits = {
    files: 1,
    fields: MOST_FIELDS,
    parts: MOST_FIELDS + 2,
    fieldSize: FIELD_BYTES,
    fieldNameSize: 100,
    headerPairs: 50,
  };
  try {
    return new Busboy({ headers: { "content-type": type } as BusboyHeaders, limits });
  } catch {
    throw new ApiError(400, "invalid_form", "the content-type of the form has no boundary");
  }
}

function diskError(error: unknown): ApiError {
  const isFull = (error as { code?: unknown }).code === "ENOSPC";
  return new ApiError(
    503,
    "storage_error",
    isFull ? "the disk of the server is full" : "the file cannot be written on the server",
  );
}
