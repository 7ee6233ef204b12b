import { SluiceError } from "../../base/inference/errors.ts";
import { parseRedisUrl, type RedisConnection } from "../../base/redis/address.ts";
import { checkTlsFiles, givenTlsFile, type RedisTlsFiles, redisConnection } from "../../base/redis/tls-files.ts";

/** The store of the replicas of a gateway (`peersSettings`). */
export interface PeersStore {
  readonly url: string;
  readonly name: string;
  readonly files: RedisTlsFiles;
}

/** What may name the Redis of limits. */
export interface LimitsStoreSource {
  /** URL of Redis; it wins over the one of the file or the settings. */
  readonly redis?: string | undefined;
  /** Certificates for that Redis, wherever its URL comes from. */
  readonly tls?: RedisTlsFiles | undefined;
  /** Where nothing names a Redis for limits. */
  readonly peers?: PeersStore | undefined;
}

/** The Redis through which gateways share the counters of limits. */
export interface LimitsStore {
  readonly connection: RedisConnection;
  /** Gateways of one name share, without braces; undefined = all gateways of this Redis. */
  readonly name: string | undefined;
}

/**
 * Chooses the Redis of limits, and reads the files of its certificates.
 * @param inFile the URL in the file of limits
 * @returns undefined: the gateway counts alone
 * @throws SluiceError REDIS_URL_INVALID, FLAG_CONFLICT, TLS_FILE_UNREADABLE, TLS_FILE_INVALID, TLS_PAIR_MISMATCH
 */
export function limitsStore(
  { redis, tls = {}, peers }: LimitsStoreSource,
  inFile: string | undefined,
): LimitsStore | undefined {
  const url = redis ?? inFile;
  if (url !== undefined) {
    checkTlsFiles("limits", tls, parseRedisUrl(url).tls);
    return { connection: redisConnection(url, tls), name: undefined };
  }
  const alone = givenTlsFile("limits", tls);
  if (alone !== undefined)
    throw new SluiceError("FLAG_CONFLICT", `${alone} needs limits.redis (--limits-redis URL), the Redis of the limits`);
  return peers && { connection: redisConnection(peers.url, peers.files), name: peers.name };
}
