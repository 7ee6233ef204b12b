import { once } from "node:events";
import { type FileHandle, open } from "node:fs/promises";
import type { Readable } from "node:stream";
import { Busboy, type BusboyHeaders, type BusboyInstance } from "@fastify/busboy";
import { ApiError, invalidParameter } from "./api-error.ts";

/** Fields besides the file, and bytes of each. */
const MOST_FIELDS = 8;
const FIELD_BYTES = 1024;
/** Characters of the longest name of a file. */
const LONGEST_NAME = 255;

const BROKEN_OFF = new ApiError(400, "invalid_form", "the form is not complete or not well formed");

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
  const form = formOf(type);
  const handle = await open(path, "wx", 0o600).catch((error: unknown) => {
    throw diskError(error);
  });
  try {
    const upload = await received(request.body as AsyncIterable<Uint8Array>, form, handle, admit);
    await handle.sync();
    return upload;
  } finally {
    await handle.close();
  }
}

async function received(
  body: AsyncIterable<Uint8Array>,
  form: BusboyInstance,
  handle: FileHandle,
  admit: (bytes: number) => void,
): Promise<Upload> {
  const fields = new Map<string, string>();
  let file: { readonly filename: string; bytes: number } | undefined;
  let content: Readable | undefined;
  let writing: Promise<void> | undefined;
  let failed: unknown;
  const fault = Promise.withResolvers<never>();
  // Whoever waits for something else hears of it later.
  fault.promise.catch(() => {});
  const fail = (error: unknown): void => {
    failed ??= error;
    fault.reject(error);
  };
  form.on("error", () => fail(BROKEN_OFF));
  form.on("field", (name, value, nameTruncated, valueTruncated) => {
    if (nameTruncated || valueTruncated) fail(invalidParameter(name.slice(0, 100), "the field is too long"));
    else if (fields.has(name)) fail(invalidParameter(name, "the form has the field twice"));
    else fields.set(name, value);
  });
  form.on("file", (name, stream, filename) => {
    if (name !== "file" || file !== undefined) {
      stream.resume();
      fail(invalidParameter(name.slice(0, 100), "the form must have one file, in the field `file`"));
      return;
    }
    file = { filename: (filename ?? "").slice(0, LONGEST_NAME) || "input.jsonl", bytes: 0 };
    content = stream;
    writing = written(stream, handle, file, admit);
    writing.catch((error: unknown) => fail(error));
  });
  for (const event of ["fieldsLimit", "filesLimit", "partsLimit"] as const)
    form.on(event, () => fail(new ApiError(400, "invalid_form", "the form has too many parts")));
  try {
    for await (const piece of body) {
      if (failed !== undefined) throw failed;
      if (!form.write(piece)) await Promise.race([once(form, "drain"), fault.promise]);
    }
    const finished = once(form, "finish");
    form.end();
    await Promise.race([finished, fault.promise]);
    await Promise.race([writing, fault.promise]);
  } catch (error) {
    content?.destroy();
    await writing?.catch(() => {});
    // The first fault is the cause of what failed after it.
    const cause = failed ?? error;
    throw cause instanceof ApiError ? cause : BROKEN_OFF;
  }
  if (file === undefined) throw invalidParameter("file", "the form has no file in the field `file`");
  return { ...file, fields };
}

async function written(
  content: AsyncIterable<Buffer>,
  handle: FileHandle,
  file: { bytes: number },
  admit: (bytes: number) => void,
): Promise<void> {
  for await (const piece of content) {
    file.bytes += piece.length;
    admit(file.bytes);
    try {
      for (let at = 0; at < piece.length; ) at += (await handle.write(piece, at)).bytesWritten;
    } catch (error) {
      throw diskError(error);
    }
  }
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
