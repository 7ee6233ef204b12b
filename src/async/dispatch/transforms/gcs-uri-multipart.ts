import { z } from "zod";
import { type Random, uuidFrom } from "../../../base/clock/random.ts";
import { memberRanges } from "../../brokers/messages/json-members.ts";
import { parseObject } from "../../brokers/messages/request.ts";
import type { RequestTransform, TransformedBody } from "./transform.ts";

export const GCS_PARAMETERS = z.strictObject({
  providers: z
    .array(z.string().min(1))
    .min(1)
    .describe("Values of `metadata.provider` that select messages for this transform."),
});

/** Fields that do not become form fields of their own: one goes first as `url`, the other holds the file. */
const URI = "gcs_uri";
const FILE = "file_base64";

/**
 * Sends a file by reference: a payload with `gcs_uri` becomes a form whose first field `url` is that URI
 * (async-processor 6.7). Numbers keep the digits they were written with.
 */
export class GcsUriMultipart implements RequestTransform {
  readonly #providers: ReadonlySet<string | undefined>;
  readonly #random: Random;

  constructor(providers: readonly string[], random: Random) {
    this.#providers = new Set(providers);
    this.#random = random;
  }

  validate(payload: Uint8Array, metadata: Readonly<Record<string, string>>, deadline: number): void {
    const uri = this.#read(payload, metadata)?.uri;
    const expiry = uri === undefined ? undefined : signedUrlExpiry(uri);
    // The URL is a secret: it allows anyone to read the file.
    if (expiry !== undefined && expiry <= deadline)
      throw new Error(
        `the signed URL in ${URI} expires at ${expiry}, not after the deadline ${deadline} (Unix seconds)`,
      );
  }

  transform(payload: Uint8Array, metadata: Readonly<Record<string, string>>): TransformedBody | undefined {
    const found = this.#read(payload, metadata);
    if (found === undefined) return undefined;
    const { uri, text, value } = found;
    const file = value[FILE];
    if (file !== undefined && file !== null && file !== "")
      throw new Error(`the payload has both ${URI} and ${FILE}; send one of them`);
    const fields: [string, string][] = [["url", uri]];
    for (const [name, { start, end }] of memberRanges(text)) {
      if (name === URI || name === FILE) continue;
      const field = value[name];
      fields.push([name, typeof field === "string" ? field : text.slice(start, end)]);
    }
    return formData(fields, this.#random);
  }

  /** Undefined when the message is not for this transform. */
  #read(payload: Uint8Array, metadata: Readonly<Record<string, string>>) {
    if (!this.#providers.has(metadata["provider"])) return undefined;
    const text = new TextDecoder().decode(payload);
    const value = parseObject(text, "the payload");
    const uri = value[URI];
    return typeof uri === "string" && uri !== "" ? { uri, text, value } : undefined;
  }
}

/**
 * Plain fields as `multipart/form-data` (RFC 7578), in their order, names escaped as browsers do. The boundary is drawn again
 * until no field contains it, so that no value can end its own part.
 */
export function formData(fields: readonly (readonly [name: string, value: string])[], random: Random): TransformedBody {
  const content = fields.flat().join("\n");
  let boundary = uuidFrom(random);
  while (content.includes(boundary)) boundary = uuidFrom(random);
  let text = "";
  for (const [name, value] of fields)
    text += `--${boundary}\r\ncontent-disposition: form-data; name="${escapeName(name)}"\r\n\r\n${value}\r\n`;
  return { body: Buffer.from(`${text}--${boundary}--\r\n`), contentType: `multipart/form-data; boundary=${boundary}` };
}

function escapeName(name: string): string {
  return name.replaceAll("\n", "%0A").replaceAll("\r", "%0D").replaceAll('"', "%22");
}

const DATE = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/;
const SECONDS = /^-?\d{1,15}$/;

/**
 * The expiry of a signed URL of Google Cloud Storage, Unix seconds: V4 by `X-Goog-Date` and `X-Goog-Expires`, V2 by `Expires`.
 * @returns undefined when the URL has no readable expiry
 */
export function signedUrlExpiry(text: string): number | undefined {
  const query = URL.parse(text)?.searchParams;
  if (query === undefined) return undefined;
  const signed = dateOf(query.get("X-Goog-Date") ?? "");
  const lifetime = secondsOf(query.get("X-Goog-Expires"));
  if (signed !== undefined && lifetime !== undefined) return signed + lifetime;
  return secondsOf(query.get("Expires"));
}

function secondsOf(text: string | null): number | undefined {
  return text !== null && SECONDS.test(text) ? Number(text) : undefined;
}

/** Unix seconds of `YYYYMMDDThhmmssZ`. */
function dateOf(text: string): number | undefined {
  if (!DATE.test(text)) return undefined;
  const iso = text.replace(DATE, "$1-$2-$3T$4:$5:$6.000Z");
  const time = new Date(iso);
  // A day that the calendar lacks would otherwise count as one of the next month.
  return time.getTime() >= 0 && time.toISOString() === iso ? time.getTime() / 1000 : undefined;
}
