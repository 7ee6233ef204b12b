import { X509Certificate } from "node:crypto";
import { stat } from "node:fs/promises";
import type { Clock } from "../../base/clock/clock.ts";
import { readDocument, readText } from "../../base/document/read.ts";
import type { ServerTls } from "../../base/grpc/server-tls.ts";
import { messageOf, oneLine } from "../../base/inference/errors.ts";
import { readLimits } from "../../picker/limits/limits-file.ts";
import { type LimitsStore, limitsStore } from "../../picker/limits/limits-store.ts";
import { type KeyEntry, keysIn, MAX_KEYS_BYTES } from "../../wires/access/key-entry.ts";
import { type GatewayFile, readGatewayFile } from "../../wires/gateway/gateway-file.ts";
import { GatewayTls } from "../../wires/gateway/gateway-tls.ts";
import type { ServerTlsFiles } from "../../wires/gateway/server-tls-settings.ts";
import type { CertificateFacts, FileFacts, KeysFacts, LimitsFacts } from "./facts.ts";
import { redisFacts } from "./redis-facts.ts";

const MAX_PEM_BYTES = 1024 * 1024;

/** What a gateway.yaml says, for the checks and for the other questions. */
export interface ReadFile {
  readonly facts: FileFacts;
  /** `host:port` of the admin port; undefined = the file cannot be read. */
  readonly admin: string | undefined;
  /** How the gateway speaks TLS with model servers. A text = why that cannot be known. */
  readonly serverTls: ServerTls | string;
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
    const nothing = { endpoints: undefined, certificates: [], keys: undefined, limits: undefined, redis: undefined };
    const facts: FileFacts = { path, problem: oneLine(messageOf(error)), changedAt, ...nothing };
    return { facts, admin: undefined, serverTls: `${path} cannot be used` };
  }
  const { listeners, servers, keys, endpoints, admin } = file.settings;
  const certificates = [...listeners.map(({ tls }) => tls?.certificate), servers.tls?.certificate];
  const read = await limitsOf(path, file.settings);
  const list = endpoints?.kind === "list" ? endpoints.endpoints : undefined;
  const facts: FileFacts = {
    path,
    problem: undefined,
    changedAt,
    endpoints: list?.map(({ address, port }) => `${address.includes(":") ? `[${address}]` : address}:${port}`),
    certificates: await Promise.all(certificates.filter((name) => name !== undefined).map(certificateFacts)),
    keys: keys.file === undefined ? undefined : await keysFacts(keys.file, keys.jwt.length > 0),
    limits: read.facts,
    redis: read.redis === undefined ? undefined : await redisFacts(read.redis, timeout, clock),
  };
  const host = admin.address.host === "0.0.0.0" || admin.address.host === "::" ? "127.0.0.1" : admin.address.host;
  return {
    facts,
    admin: `${host.includes(":") ? `[${host}]` : host}:${admin.address.port}`,
    serverTls: serverTlsOf(servers.tls),
  };
}

/** The settings of the gateway itself, from files that this user may not be able to read. */
function serverTlsOf(files: ServerTlsFiles | undefined): ServerTls | string {
  try {
    return new GatewayTls([], files).servers;
  } catch (error) {
    return oneLine(messageOf(error));
  }
}

async function certificateFacts(path: string): Promise<CertificateFacts> {
  try {
    const { validTo } = new X509Certificate(await readText(path, { maxBytes: MAX_PEM_BYTES }));
    return { path, problem: undefined, ends: Date.parse(validTo) };
  } catch (error) {
    return { path, problem: oneLine(messageOf(error)), ends: undefined };
  }
}

async function keysFacts(path: string, tokens: boolean): Promise<KeysFacts> {
  try {
    const { mode } = await stat(path);
    const entries = keysIn(await readDocument(path, { maxBytes: MAX_KEYS_BYTES }));
    const counting = entries.filter((entry: KeyEntry) => entry.revoked === undefined);
    return { path, problem: undefined, mode, tokens, keys: counting.map(({ name, expires }) => ({ name, expires })) };
  } catch (error) {
    return { path, problem: oneLine(messageOf(error)), mode: undefined, tokens, keys: [] };
  }
}

interface ReadLimits {
  readonly facts: LimitsFacts | undefined;
  /** The Redis that counts. */
  readonly redis: LimitsStore | undefined;
}

/** The rules of a gateway.yaml, or of the file that it names. */
async function limitsOf(path: string, { limits, peers }: GatewayFile["settings"]): Promise<ReadLimits> {
  if (limits.file === undefined && limits.redis === undefined && limits.rules.length === 0)
    return { facts: undefined, redis: undefined };
  const { file, redis } = limits;
  const shared = peers.redis === undefined ? undefined : { url: peers.redis, name: peers.name ?? "", files: peers };
  const storeOf = (inFile?: string) => limitsStore({ redis, tls: limits, peers: shared }, inFile);
  try {
    const read = file === undefined ? limits : await readLimits(file);
    const names = read.rules.map(({ key }) => key).filter((name) => name !== undefined && name !== "*");
    const facts: LimitsFacts = {
      ...{
        path: file ?? path,
        problem: undefined,
        rules: read.rules.length,
        keyNames: [...new Set(names)] as string[],
      },
      otherRedis: redis !== undefined && read.redis !== undefined && read.redis !== redis,
    };
    return { facts, redis: storeOf(read.redis) };
  } catch (error) {
    const nothing = { rules: 0, keyNames: [], otherRedis: false };
    const facts = { path: file ?? path, problem: oneLine(messageOf(error)), ...nothing };
    try {
      return { facts, redis: redis === undefined ? undefined : storeOf() };
    } catch {
      // The certificates are the problem.
      return { facts, redis: undefined };
    }
  }
}
