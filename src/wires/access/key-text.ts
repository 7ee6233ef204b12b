import { hash, randomBytes } from "node:crypto";
import { KEY_PREFIX } from "../../base/inference/secrets.ts";

/** Characters of the public id of a key. */
const ID_LENGTH = 12;
/** Random bytes of the secret: 256 bits, so nobody finds one by trying. */
const SECRET_BYTES = 32;
const ID = `[a-z0-9]{${ID_LENGTH}}`;
const KEY = new RegExp(`^${KEY_PREFIX}(${ID})-[\\w-]{43}$`);
/** The public id of a key. */
export const KEY_ID = new RegExp(`^${ID}$`);
/** The text of a hash in a keys file. */
export const KEY_HASH = /^sha256:[0-9a-f]{64}$/;
const ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789";

/** A new key: the only copy of its secret. */
export interface NewKey {
  readonly id: string;
  /** What the client sends. */
  readonly key: string;
  /** What the file keeps. */
  readonly hash: string;
}

/** Makes the key of an id. @param id default: a new id @param bytes a source of secret chance; default: that of the machine */
export function newKey(id: string | undefined, bytes: (count: number) => Uint8Array = randomBytes): NewKey {
  const ownId = id ?? Array.from(bytes(ID_LENGTH), (byte) => ALPHABET[byte % ALPHABET.length]).join("");
  const key = `${KEY_PREFIX}${ownId}-${Buffer.from(bytes(SECRET_BYTES)).toString("base64url")}`;
  return { id: ownId, key, hash: `sha256:${digestOf(key).toString("hex")}` };
}

/** The public id in a text that has the form of a key; undefined for any other text. */
export function idIn(text: string): string | undefined {
  return KEY.exec(text)?.[1];
}

/**
 * The digest by which a key is recognised. SHA-256 is enough here: stretching (scrypt, argon2) protects passwords that people
 * choose, because those can be guessed from their hash. A secret of 256 random bits cannot, and each request would pay for it.
 */
export function digestOf(key: string): Buffer {
  return hash("sha256", key, "buffer");
}
