import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import { redisConnection } from "../../base/redis/tls-files.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { PeerIdentity } from "./peers.ts";
import type { PeersSettings } from "./peers-settings.ts";
import type { RedisPeerTransport } from "./redis-transport.ts";

/** The way to the other replicas: for the core, and for views of the store. */
export interface OpenPeers {
  readonly identity: PeerIdentity;
  readonly transport: RedisPeerTransport;
}

interface Parts {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
}

/**
 * Makes the way to the other replicas. It connects when the core starts it.
 * @param cluster marks the cluster in which the pool is, where it is known; "" = unknown
 * @throws SluiceError for a fault in the files of certificates
 */
export async function openPeers(settings: PeersSettings, cluster: string, parts: Parts): Promise<OpenPeers> {
  const { name, secret } = settings;
  const redis = redisConnection(settings.url, settings.files);
  // The client of Redis is loaded on use: a process without peers needs none of it.
  const { RedisPeerTransport } = await import("./redis-transport.ts");
  return {
    identity: { cluster: cluster === "" ? name : `${name}@${cluster}`, secret },
    transport: new RedisPeerTransport({ redis, name }, parts),
  };
}
