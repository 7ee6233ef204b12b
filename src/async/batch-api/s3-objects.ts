import { open } from "node:fs/promises";
import type { Readable } from "node:stream";
import type * as S3 from "@aws-sdk/client-s3";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import type { S3Settings } from "./s3-place.ts";

/** Bytes of a part of a large object: one part is in memory at a time. */
const PART = 8 * 1024 * 1024;
/** The most parts of an object, by S3. */
const MOST_PARTS = 10_000;
/** Milliseconds to connect, and without a byte on a connection. A slow client may hold a download up for as long as the gateway lets it. */
const CONNECT = 5000;
const SILENCE = 300_000;

type S3Package = typeof S3;

/** AWS's client. Only files in S3 need it, and users install it themselves. @throws SluiceError S3_CLIENT_MISSING */
export async function loadS3(load: () => Promise<S3Package> = () => import("@aws-sdk/client-s3")): Promise<S3Package> {
  try {
    return await load();
  } catch (cause) {
    throw new SluiceError(
      "S3_CLIENT_MISSING",
      `files in S3 need the package @aws-sdk/client-s3 (npm install @aws-sdk/client-s3@3): ${messageOf(cause)}`,
      { cause },
    );
  }
}

/** An error of the client, with the status of the answer where one came. */
type Refusal = Error & { readonly $metadata?: { readonly httpStatusCode?: number } };

/** The objects below the prefix of a bucket. */
export class S3Objects {
  readonly #s3: S3Package;
  readonly #client: S3.S3Client;
  readonly #settings: S3Settings;
  readonly #part: number;

  /** @param part bytes; S3 asks for 5 MiB or more */
  constructor(s3: S3Package, settings: S3Settings, part = PART) {
    const { endpoint, region } = settings;
    this.#s3 = s3;
    this.#settings = settings;
    this.#part = part;
    this.#client = new s3.S3Client({
      ...(region === undefined ? {} : { region }),
      requestHandler: { connectionTimeout: CONNECT, socketTimeout: SILENCE },
      ...(endpoint === undefined
        ? {}
        : {
            endpoint,
            // Other servers than AWS have no name for each bucket, and not all of them know the newer checksums.
            forcePathStyle: true,
            requestChecksumCalculation: "WHEN_REQUIRED",
            responseChecksumValidation: "WHEN_REQUIRED",
          }),
    });
  }

  /**
   * Looks whether the bucket is there.
   * @returns a problem that may pass; undefined = none @throws SluiceError BATCH_BUCKET for one that does not pass by itself
   */
  async check(signal: AbortSignal): Promise<SluiceError | undefined> {
    const command = new this.#s3.HeadBucketCommand({ Bucket: this.#settings.bucket });
    try {
      await this.#guard("cannot be used", () => this.#client.send(command, { abortSignal: signal }));
      return undefined;
    } catch (error) {
      const { cause } = error as { readonly cause: Refusal };
      const status = cause.$metadata?.httpStatusCode ?? 0;
      if ((status >= 400 && status < 500) || /^(?:Credentials|Region)/.test(cause.name)) throw error;
      return error as SluiceError;
    }
  }

  /** Stores a file as an object, in place of an older one. @throws SluiceError BATCH_BUCKET, or of the file system */
  async put(id: string, path: string, signal?: AbortSignal): Promise<void> {
    const options = signal && { abortSignal: signal };
    const file = await open(path, "r");
    try {
      const { size } = await file.stat();
      const read = async (at: number, length: number): Promise<Buffer> => {
        const piece = Buffer.allocUnsafe(length);
        for (let filled = 0; filled < length; ) {
          const { bytesRead } = await file.read(piece, filled, length - filled, at + filled);
          if (bytesRead === 0)
            throw new SluiceError("BATCH_STORE", `${path} became shorter while Sluice read the file`);
          filled += bytesRead;
        }
        return piece;
      };
      await this.#guard(`did not store ${id}`, async () => {
        if (size <= this.#part) {
          const place = { ...this.#place(id), Body: await read(0, size) };
          await this.#client.send(new this.#s3.PutObjectCommand(place), options);
        } else await this.#putParts(id, size, read, options);
      });
    } finally {
      await file.close();
    }
  }

  /** The content of an object. @throws SluiceError BATCH_BUCKET, also when there is none */
  async get(id: string, signal?: AbortSignal): Promise<{ readonly content: Readable; readonly bytes: number }> {
    const { GetObjectCommand } = this.#s3;
    return this.#guard(`did not return ${id}`, async () => {
      const command = new GetObjectCommand(this.#place(id));
      const { Body, ContentLength } = await this.#client.send(command, signal && { abortSignal: signal });
      return { content: Body as Readable, bytes: ContentLength ?? 0 };
    });
  }

  /** Removes an object, if it is there. @throws SluiceError BATCH_BUCKET */
  async remove(id: string): Promise<void> {
    const { DeleteObjectCommand } = this.#s3;
    await this.#guard(`did not remove ${id}`, () => this.#client.send(new DeleteObjectCommand(this.#place(id))));
  }

  close(): void {
    this.#client.destroy();
  }

  async #putParts(
    id: string,
    size: number,
    read: (at: number, length: number) => Promise<Buffer>,
    options: { readonly abortSignal: AbortSignal } | undefined,
  ): Promise<void> {
    const { CreateMultipartUploadCommand, UploadPartCommand, CompleteMultipartUploadCommand } = this.#s3;
    const client = this.#client;
    const place = this.#place(id);
    const { UploadId } = await client.send(new CreateMultipartUploadCommand(place), options);
    try {
      const length = Math.max(this.#part, Math.ceil(size / MOST_PARTS));
      const Parts: S3.CompletedPart[] = [];
      for (let at = 0; at < size; at += length) {
        const PartNumber = Parts.length + 1;
        const Body = await read(at, Math.min(length, size - at));
        const command = new UploadPartCommand({ ...place, UploadId, PartNumber, Body });
        const { ETag } = await client.send(command, options);
        Parts.push({ ETag, PartNumber });
      }
      const command = new CompleteMultipartUploadCommand({ ...place, UploadId, MultipartUpload: { Parts } });
      await client.send(command, options);
    } catch (error) {
      // Parts of an upload that nobody ends cost money. After a kill, a rule of the bucket has to remove them.
      await client.send(new this.#s3.AbortMultipartUploadCommand({ ...place, UploadId })).catch(() => {});
      throw error;
    }
  }

  #place(id: string): { readonly Bucket: string; readonly Key: string } {
    return { Bucket: this.#settings.bucket, Key: this.#settings.prefix + id };
  }

  async #guard<T>(what: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof SluiceError) throw error;
      const { name = "", $metadata } = error as Refusal;
      const status = $metadata?.httpStatusCode;
      const reason = [name, status === undefined ? "" : `status ${status}`, messageOf(error)]
        .filter(Boolean)
        .join(", ");
      throw new SluiceError("BATCH_BUCKET", `the bucket ${this.#settings.bucket} ${what}: ${reason}`, { cause: error });
    }
  }
}
