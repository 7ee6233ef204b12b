import { z } from "zod";
import type { Random } from "../../../base/clock/random.ts";
import { memberRanges } from "../../brokers/messages/json-members.ts";
import { parseObject } from "../../brokers/messages/request.ts";
import { formData } from "./form-data.ts";
import type { RequestTransform } from "./request-transform.ts";
import { signedUrlExpiry } from "./signed-url.ts";
import type { TransformedBody } from "./transform.ts";

export const GCS_PARAMETERS = z.strictObject({
  /** Values of `metadata.provider` whose messages are meant. */
  providers: z.array(z.string().min(1)).min(1),
});

/** Fields that are no form fields of their own: one goes first as `url`, the other holds the file itself. */
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
    // The URL is a secret: whoever has it may read the file.
    if (expiry !== undefined && expiry <= deadline)
      throw new Error(`the signed URL in ${URI} expires at ${expiry}, which is not after the deadline ${deadline}`);
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

  /** Undefined when the message is not meant. */
  #read(payload: Uint8Array, metadata: Readonly<Record<string, string>>) {
    if (!this.#providers.has(metadata["provider"])) return undefined;
    const text = new TextDecoder().decode(payload);
    const value = parseObject(text, "the payload");
    const uri = value[URI];
    return typeof uri === "string" && uri !== "" ? { uri, text, value } : undefined;
  }
}
