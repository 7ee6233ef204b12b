import { SluiceError } from "../../base/inference/errors.ts";
import { parseRedisUrl } from "../../base/redis/address.ts";
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

/** The name of replicas that are given none. */
export const DEFAULT_PEERS_NAME = "default";
/** The environment variables with the URL and with the salt. */
export const PEERS_VARIABLE = "SLUICE_PEERS";
export const PEERS_SECRET_VARIABLE = "SLUICE_PEERS_SECRET";
/** The shortest salt, in characters: a shorter one can be guessed. */
const LEAST_SECRET = 16;

/** What a name may be: it becomes a part of keys of the store, between braces. */
export const PEERS_NAME = /^[\w.:/-]{1,253}$/;

/**
 * Checks what is given. Reads no file.
 * @param fallback the name when none is given
 * @returns undefined when no store is given
 * @throws SluiceError REDIS_URL_INVALID, FLAG_CONFLICT, FLAG_VALUE
 */
export function peersSettings(
  given: PeersGiven,
  env: Readonly<Record<string, string | undefined>>,
  fallback: string = DEFAULT_PEERS_NAME,
): PeersSettings | undefined {
  const { redis, name, ca, certificate, key } = given;
  const url = redis || env[PEERS_VARIABLE] || undefined;
  const secret = env[PEERS_SECRET_VARIABLE] ?? "";
  if (url === undefined) {
    const alone = name === undefined ? givenTlsFile("peers", given) : "peers.name (--peers-name)";
    if (alone === undefined) return undefined;
    throw new SluiceError("FLAG_CONFLICT", `${alone} needs peers.redis (--peers URL), the store of the replicas`);
  }
  const address = checkPeersUrl(url);
  if (name !== undefined && !PEERS_NAME.test(name))
    throw new SluiceError(
      "FLAG_VALUE",
      "peers.name (--peers-name) must be 1 to 253 letters, digits, or any of . _ : / -",
    );
  if (secret !== "" && secret.length < LEAST_SECRET)
    throw new SluiceError("FLAG_VALUE", `${PEERS_SECRET_VARIABLE} must have at least ${LEAST_SECRET} characters`);
  checkTlsFiles("peers", given, address.tls);
  return { url, name: name ?? fallback, secret, files: { ca, certificate, key } };
}

/** Reads the URL of a store of replicas. @throws SluiceError REDIS_URL_INVALID, also for options without effect */
export function checkPeersUrl(url: string): ReturnType<typeof parseRedisUrl> {
  const address = parseRedisUrl(url);
  const [odd] = address.ignored;
  if (odd !== undefined)
    throw new SluiceError(
      "REDIS_URL_INVALID",
      `the URL of the store of replicas has the option ${JSON.stringify(odd)}, which has no effect`,
    );
  return address;
}
