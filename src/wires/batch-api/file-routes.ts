import { Readable } from "node:stream";
import { type Context, Hono } from "hono";
import { newId } from "../../async/batch-api/file-table.ts";
import type { BatchLimits, StoredFile } from "../../async/batch-api/records.ts";
import { ApiError, invalidParameter, notFound } from "./api-error.ts";
import { fileObject, listObject } from "./objects.ts";
import { listPart } from "./query.ts";
import type { ApiBindings, BatchApiServices } from "./services.ts";
import { receiveUpload } from "./upload.ts";

/** Uploads at the same time: of one caller, and of all. */
const CALLER_UPLOADS = 8;
const ALL_UPLOADS = 64;
/** Seconds of the shortest life of a file, as OpenAI has it. */
const SHORTEST_LIFE = 3600;

/** The routes of `/v1/files`. */
export function fileRoutes(services: BatchApiServices): Hono<ApiBindings> {
  const { store } = services;
  const uploads = new Uploads(services.limits);
  const app = new Hono<ApiBindings>();

  app.post("/", async (context) => context.json(fileObject(await upload(context, services, uploads))));

  app.get("/", async (context) => {
    const { purpose, ...query } = context.req.query();
    if (purpose !== undefined && purpose !== "batch" && purpose !== "batch_output")
      return context.json(listObject([], false));
    const found = await store.listFiles(
      context.env.caller.id,
      listPart(query, { most: 10_000, usual: 1000 }, ["purpose"]),
      purpose,
    );
    if (found === undefined) throw invalidParameter("after", "you have no file with this id");
    return context.json(listObject(found.entries.map(fileObject), found.hasMore));
  });

  app.get("/:id", async (context) => context.json(fileObject(await found(context))));

  app.get("/:id/content", async (context) => {
    const file = await found(context);
    const headers = { "content-type": "application/octet-stream", "content-length": String(file.bytes) };
    if (context.req.method === "HEAD") return context.body(null, 200, headers);
    const content = await store.readFile(file).catch((error: unknown) => {
      services.onError(error);
      throw new ApiError(503, "storage_error", "the content of the file cannot be read now");
    });
    return context.body(Readable.toWeb(content) as ReadableStream, 200, headers);
  });

  app.delete("/:id", async (context) => {
    const id = context.req.param("id");
    const removal = await store.removeFile(context.env.caller.id, id);
    if (removal === "unknown") throw notFound("file", id);
    if (removal === "in-use")
      throw new ApiError(
        400,
        "file_in_use",
        "the file is the input of a batch that has not ended; cancel the batch first",
        "file_id",
      );
    return context.json({ id, object: "file", deleted: true });
  });

  /** The file of the path. @throws ApiError where the caller has none */
  async function found(context: Context<ApiBindings>): Promise<StoredFile> {
    const id = context.req.param("id") ?? "";
    const file = await store.file(context.env.caller.id, id);
    if (file === undefined) throw notFound("file", id);
    return file;
  }

  return app;
}

async function upload(
  context: Context<ApiBindings>,
  services: BatchApiServices,
  uploads: Uploads,
): Promise<StoredFile> {
  const { store, limits, clock } = services;
  const owner = context.env.caller.id;
  const upload = uploads.begin(owner, await store.usage(owner));
  const id = newId("file-");
  try {
    const { filename, bytes, fields } = await receiveUpload(context.req.raw, store.spool.upload(id), (size) =>
      upload.admit(size),
    );
    const createdAt = clock.wall() / 1000;
    const expiresAt = createdAt + lifeOf(fields, limits);
    const file: StoredFile = { id, owner, purpose: "batch", filename, bytes, createdAt, expiresAt };
    // Uploads of other processes count once they are complete.
    const refusal = await store.addFile(file, limits);
    if (refusal === "too-many-files") throw tooManyFiles(limits);
    if (refusal === "too-many-bytes") throw tooManyBytes(limits);
    return file;
  } catch (error) {
    store.spool.remove(id);
    throw error;
  } finally {
    upload.end();
  }
}

/** Checks the fields of the form. @returns seconds for which the file is kept @throws ApiError */
function lifeOf(fields: ReadonlyMap<string, string>, { keep }: BatchLimits): number {
  const purpose = fields.get("purpose");
  if (purpose !== "batch") throw invalidParameter("purpose", 'purpose must be "batch": other files have no use here');
  for (const name of fields.keys())
    if (!["purpose", "expires_after[anchor]", "expires_after[seconds]"].includes(name))
      throw invalidParameter(
        name,
        "unknown field; known are file, purpose, expires_after[anchor], expires_after[seconds]",
      );
  const [anchor, seconds] = [fields.get("expires_after[anchor]"), fields.get("expires_after[seconds]")];
  if (anchor === undefined && seconds === undefined) return keep;
  if (anchor !== "created_at") throw invalidParameter("expires_after[anchor]", 'the anchor must be "created_at"');
  if (seconds === undefined || !/^\d{1,9}$/.test(seconds) || Number(seconds) < SHORTEST_LIFE || Number(seconds) > keep)
    throw invalidParameter("expires_after[seconds]", `seconds must be a whole number from ${SHORTEST_LIFE} to ${keep}`);
  return Number(seconds);
}

function tooManyFiles({ callerFiles }: BatchLimits): ApiError {
  return new ApiError(429, "quota_exceeded", `you have ${callerFiles} files, the limit; delete some`);
}

function tooManyBytes({ callerBytes }: BatchLimits): ApiError {
  const message = `your files would have more than ${callerBytes} bytes; delete some`;
  return new ApiError(413, "quota_exceeded", message, "file");
}

/** Bytes and number of the uploads under way. */
class Uploads {
  readonly #limits: BatchLimits;
  readonly #byOwner = new Map<string, { bytes: number; uploads: number }>();
  #all = 0;

  constructor(limits: BatchLimits) {
    this.#limits = limits;
  }

  /** @param usage the files that the caller has @throws ApiError */
  begin(
    owner: string,
    usage: { readonly bytes: number; readonly files: number },
  ): { admit(size: number): void; end(): void } {
    const limits = this.#limits;
    const { callerFiles, callerBytes, fileBytes } = limits;
    const own = this.#byOwner.get(owner) ?? { bytes: 0, uploads: 0 };
    if (own.uploads >= CALLER_UPLOADS || this.#all >= ALL_UPLOADS)
      throw new ApiError(429, "too_many_uploads", "too many uploads are running; try again when one has ended");
    if (usage.files + own.uploads >= callerFiles) throw tooManyFiles(limits);
    this.#byOwner.set(owner, own);
    own.uploads++;
    this.#all++;
    let admitted = 0;
    return {
      admit(size) {
        if (size > fileBytes)
          throw new ApiError(413, "file_too_large", `the file has more than ${fileBytes} bytes`, "file");
        own.bytes += size - admitted;
        admitted = size;
        if (usage.bytes + own.bytes > callerBytes) throw tooManyBytes(limits);
      },
      end: () => {
        own.bytes -= admitted;
        own.uploads--;
        this.#all--;
        if (own.uploads === 0) this.#byOwner.delete(owner);
      },
    };
  }
}
