import { SluiceError } from "../../base/inference/errors.ts";
import {
  DEFAULT_SHARED_NAME,
  SHARED_NAME,
  SHARED_NAME_FORM,
  sharedStoreAddress,
} from "../../base/redis/shared-store.ts";
import { checkTlsFiles, givenTlsFile, type RedisTlsFiles } from "../../base/redis/tls-files.ts";

/** What the flags or a gateway.yaml say about replicas that share. */
export interface PeersGiven extends RedisTlsFiles {
  /** URL of a Redis or Valkey; undefined = this process shares nothing. */
  readonly redis?: string | undefined;
  /** Replicas of one name share. */
  readonly name?: string | undefined;
}

/** With whom this process shares what it knows, and through which store. */
export interface PeersSettings {
  readonly url: string;
  readonly name: string;
  /** Salts the hashes of blocks; "" = none. */
  readonly secret: string;
  readonly files: RedisTlsFiles;
}

/** The environment variables with the URL and with the salt. */
export const PEERS_VARIABLE = "SLUICE_PEERS";
export const PEERS_SECRET_VARIABLE = "SLUICE_PEERS_SECRET";
/** The shortest salt, in characters: a shorter one can be guessed. */
const LEAST_SECRET = 16;

/**
 * Checks what is given. Reads no file.
 * @param fallback the name when none is given
 * @returns undefined when no store is given
 * @throws SluiceError REDIS_URL_INVALID, FLAG_CONFLICT, FLAG_VALUE
 */
export function peersSettings(
  given: PeersGiven,
  env: Readonly<Record<string, string | undefined>>,
  fallback: string = DEFAULT_SHARED_NAME,
): PeersSettings | undefined {
  const { redis, name, ca, certificate, key } = given;
  const url = redis || env[PEERS_VARIABLE] || undefined;
  const secret = env[PEERS_SECRET_VARIABLE] ?? "";
  if (url === undefined) {
    const alone = name === undefined ? givenTlsFile("peers", given) : "peers.name (--peers-name)";
    if (alone === undefined) return undefined;
    throw new SluiceError("FLAG_CONFLICT", `${alone} needs peers.redis (--peers URL), the store of the replicas`);
  }
  const { tls } = sharedStoreAddress(url, "replicas");
  if (name !== undefined && !SHARED_NAME.test(name))
    throw new SluiceError("FLAG_VALUE", `peers.name (--peers-name) ${SHARED_NAME_FORM}`);
  if (secret !== "" && secret.length < LEAST_SECRET)
    throw new SluiceError("FLAG_VALUE", `${PEERS_SECRET_VARIABLE} must have at least ${LEAST_SECRET} characters`);
  checkTlsFiles("peers", given, tls);
  return { url, name: name ?? fallback, secret, files: { ca, certificate, key } };
}
