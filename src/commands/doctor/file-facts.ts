import { X509Certificate } from "node:crypto";
import { stat } from "node:fs/promises";
import type { Clock } from "../../base/clock/clock.ts";
import { freshRandom } from "../../base/clock/random.ts";
import { readDocument, readText } from "../../base/document/read.ts";
import { messageOf, oneLine } from "../../base/inference/errors.ts";
import { connectRedis } from "../../base/redis/connection.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { type KeyEntry, keysIn, MAX_KEYS_BYTES } from "../../wires/access/key-entry.ts";
import { type GatewayFile, readGatewayFile } from "../../wires/gateway/gateway-file.ts";
import type { CertificateFacts, FileFacts, KeysFacts, RedisFacts } from "./facts.ts";

const MAX_PEM_BYTES = 1024 * 1024;

/** What a gateway.yaml says, for the checks and for the other questions. */
export interface ReadFile {
  readonly facts: FileFacts;
  /** `host:port` of the admin port; undefined = the file cannot be read. */
  readonly admin: string | undefined;
  /** The servers have TLS with files that only the gateway may read, so that they are not asked. */
  readonly serversHaveTls: boolean;
}

/** Reads a gateway.yaml, its certificates and keys, and asks its Redis. @param timeout milliseconds for Redis */
export async function fileFacts(path: string, timeout: number, clock: Clock): Promise<ReadFile> {
  const changedAt = await stat(path).then(
    ({ mtimeMs }) => mtimeMs,
    () => undefined,
  );
  let file: GatewayFile;
  try {
    file = await readGatewayFile(path);
  } catch (error) {
    const nothing = { endpoints: undefined, certificates: [], keys: undefined, redis: undefined };
    const facts: FileFacts = { path, problem: oneLine(messageOf(error)), changedAt, ...nothing };
    return { facts, admin: undefined, serversHaveTls: false };
  }
  const { listeners, servers, keys, limits, endpoints, admin } = file.settings;
  const certificates = [...listeners.map(({ tls }) => tls?.certificate), servers.tls?.certificate];
  const list = endpoints?.kind === "list" ? endpoints.endpoints : undefined;
  const facts: FileFacts = {
    path,
    problem: undefined,
    changedAt,
    endpoints: list?.map(({ address, port }) => `${address.includes(":") ? `[${address}]` : address}:${port}`),
    certificates: await Promise.all(certificates.filter((name) => name !== undefined).map(certificateFacts)),
    keys: keys.file === undefined ? undefined : await keysFacts(keys.file),
    redis: limits.redis === undefined ? undefined : await redisFacts(limits.redis, timeout, clock),
  };
  const host = admin.address.host === "0.0.0.0" || admin.address.host === "::" ? "127.0.0.1" : admin.address.host;
  return {
    facts,
    admin: `${host.includes(":") ? `[${host}]` : host}:${admin.address.port}`,
    serversHaveTls: servers.tls !== undefined,
  };
}

async function certificateFacts(path: string): Promise<CertificateFacts> {
  try {
    const { validTo } = new X509Certificate(await readText(path, { maxBytes: MAX_PEM_BYTES }));
    return { path, problem: undefined, ends: Date.parse(validTo) };
  } catch (error) {
    return { path, problem: oneLine(messageOf(error)), ends: undefined };
  }
}

async function keysFacts(path: string): Promise<KeysFacts> {
  try {
    const { mode } = await stat(path);
    const entries = keysIn(await readDocument(path, { maxBytes: MAX_KEYS_BYTES }));
    const counting = entries.filter((entry: KeyEntry) => entry.revoked === undefined);
    return { path, problem: undefined, mode, keys: counting.map(({ name, expires }) => ({ name, expires })) };
  } catch (error) {
    return { path, problem: oneLine(messageOf(error)), mode: undefined, keys: [] };
  }
}

/** Microseconds and seconds of Redis's `TIME` have a resolution that the way there hides. */
async function redisFacts(url: string, timeout: number, clock: Clock): Promise<RedisFacts> {
  const redis = connectRedis(
    { url, tls: {}, enableTracing: false },
    { clock, random: freshRandom(), log: silentLogger },
    { commandTimeout: timeout },
  );
  const { server } = redis;
  try {
    await redis.whenReady(timeout);
    const [sentAt, started] = [clock.wall(), clock.now()];
    const reply = await redis.send(["TIME"]);
    const took = clock.now() - started;
    const seconds = Array.isArray(reply) ? Number(reply[0]) : Number.NaN;
    const skew = Number.isNaN(seconds)
      ? undefined
      : { ms: seconds * 1000 + 500 - sentAt - took / 2, error: 500 + took / 2 };
    return { server, problem: undefined, skew };
  } catch (error) {
    return { server, problem: oneLine(messageOf(error)), skew: undefined };
  } finally {
    redis.close();
  }
}
