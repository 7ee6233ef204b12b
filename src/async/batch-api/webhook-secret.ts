import { createHmac } from "node:crypto";
import { readText } from "../../base/document/read.ts";
import { SluiceError } from "../../base/inference/errors.ts";

/** The start of a secret, as Standard Webhooks and OpenAI have it. */
const PREFIX = "whsec_";
/** Bytes of a secret, by Standard Webhooks. */
const SHORTEST = 24;
const LONGEST = 64;
/** While a secret is replaced, the receiver may know the old one or the new one. */
const MOST_SECRETS = 4;
const MAX_BYTES = 4096;

/** Where the secrets of a webhook come from. */
export interface WebhookSecretSource {
  /** File with one secret on each line; undefined = none. */
  readonly path: string | undefined;
  /** The name of its flag in messages. */
  readonly flag: string;
  /** The secrets themselves, from the environment; the file wins. */
  readonly given: string | undefined;
}

/**
 * Reads the secrets that sign the events of a webhook. No message repeats a secret.
 * @returns the bytes of each; every event gets one signature for each
 * @throws SluiceError FLAG_MISSING without any, FLAG_VALUE, or the error of an unreadable file
 */
export async function readWebhookSecrets(source: WebhookSecretSource): Promise<readonly Uint8Array[]> {
  const { path, flag, given } = source;
  const text = path === undefined ? given : await readText(path, { maxBytes: MAX_BYTES });
  if (text === undefined)
    throw new SluiceError(
      "FLAG_MISSING",
      `a webhook needs a secret that signs its events: give ${flag} FILE, or set SLUICE_BATCH_WEBHOOK_SECRET; ${RECIPE}`,
    );
  const where = path === undefined ? "the environment variable SLUICE_BATCH_WEBHOOK_SECRET" : `${flag}: ${path}`;
  const words = text.split(/\s+/).filter((word) => word !== "");
  if (words.length === 0 || words.length > MOST_SECRETS)
    throw new SluiceError(
      "FLAG_VALUE",
      `${where} must hold 1 to ${MOST_SECRETS} secrets, each on its own line; ${RECIPE}`,
    );
  return words.map((word, at) => {
    const secret = secretOf(word);
    if (secret !== undefined) return secret;
    throw new SluiceError(
      "FLAG_VALUE",
      `${where}: secret ${at + 1} must be ${PREFIX} followed by ${SHORTEST} to ${LONGEST} bytes in base64; ${RECIPE}`,
    );
  });
}

const RECIPE = `this command makes a secret: node -p "'${PREFIX}' + require('crypto').randomBytes(32).toString('base64')"`;

function secretOf(word: string): Uint8Array | undefined {
  const text = word.startsWith(PREFIX) ? word.slice(PREFIX.length) : "";
  // Node reads over characters that are not base64, so that a mistyped secret would sign, and never fit.
  if (!/^(?:[A-Za-z\d+/]{4})*(?:[A-Za-z\d+/]{2}==|[A-Za-z\d+/]{3}=)?$/.test(text)) return undefined;
  const bytes = Buffer.from(text, "base64");
  // A copy: Node cuts short buffers from a shared one.
  return bytes.length >= SHORTEST && bytes.length <= LONGEST ? new Uint8Array(bytes) : undefined;
}

/**
 * The header `webhook-signature` of an event: for each secret `v1,` and the HMAC-SHA256 of id, time and body in base64, apart by
 * blanks. Standard Webhooks 1.0.
 * @param timestamp Unix seconds of this attempt
 */
export function webhookSignature(secrets: readonly Uint8Array[], id: string, timestamp: number, body: string): string {
  const sign = (secret: Uint8Array): string =>
    `v1,${createHmac("sha256", secret).update(`${id}.${timestamp}.${body}`).digest("base64")}`;
  return secrets.map(sign).join(" ");
}
