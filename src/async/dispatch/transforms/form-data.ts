import { type Random, uuidFrom } from "../../../base/clock/random.ts";
import type { TransformedBody } from "./transform.ts";

/**
 * Plain fields as `multipart/form-data` (RFC 7578), in their order, names escaped as browsers do. The boundary is drawn
 * until it occurs in no field, so that no value can end its own part.
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
