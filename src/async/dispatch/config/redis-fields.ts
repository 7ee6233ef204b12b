import { resolve } from "node:path";
import { messageOf } from "../../../base/inference/errors.ts";
import { parseRedisUrl } from "../../brokers/redis/address.ts";
import type { RedisConnection } from "../../brokers/settings.ts";
import type { ConfigDocument } from "./config-document.ts";
import { bool, text } from "./fields.ts";
import type { Findings } from "./findings.ts";
import { readTlsFiles } from "./tls-files.ts";

/** How a transport's section says which Redis server it is about (async-processor 5.1). */
export const REDIS_FIELDS = {
  url: text(undefined),
  enable_tracing: bool(false),
  tls_ca_cert: text(undefined),
  tls_cert: text(undefined),
  tls_key: text(undefined),
};

export interface RedisEntry {
  readonly url: string | undefined;
  readonly enable_tracing: boolean;
  readonly tls_ca_cert: string | undefined;
  readonly tls_cert: string | undefined;
  readonly tls_key: string | undefined;
}

const TLS_FIELD = { ca: "tls_ca_cert", cert: "tls_cert", key: "tls_key" } as const;

/** @param fallback the environment's REDIS_URL, which counts when the section has no url */
export async function redisConnectionOf(
  entry: RedisEntry,
  fallback: string | undefined,
  document: ConfigDocument,
  findings: Findings,
): Promise<RedisConnection> {
  const url = entry.url ?? (fallback || undefined);
  const secure = url === undefined || checkUrl(url, entry.url === undefined, document, findings);
  const paths = { ca: entry.tls_ca_cert, cert: entry.tls_cert, key: entry.tls_key };
  for (const which of ["ca", "cert", "key"] as const)
    if (paths[which] !== undefined && !secure)
      findings.refuse(document, [TLS_FIELD[which]], "is for TLS; a url for that begins with rediss://");
  if (url === undefined)
    findings.refuse(document, ["url"], "is missing, and the environment has no REDIS_URL to take instead");
  const absolute = (path: string | undefined) => (path === undefined ? undefined : resolve(document.folder, path));
  const tls = await readTlsFiles(
    { ca: absolute(paths.ca), cert: absolute(paths.cert), key: absolute(paths.key) },
    (which, problem) => findings.refuse(document, [TLS_FIELD[which]], problem),
  );
  return { url: url ?? "", tls, enableTracing: entry.enable_tracing };
}

/** True when the URL asks for TLS, or for nothing that can be understood. */
function checkUrl(url: string, fromEnvironment: boolean, document: ConfigDocument, findings: Findings): boolean {
  const whose = fromEnvironment ? "from the environment's REDIS_URL: " : "";
  try {
    const { tls, ignored } = parseRedisUrl(url);
    if (ignored.length > 0)
      findings.warn(
        document,
        ["url"],
        `${whose}options of another client have no effect: ${[...new Set(ignored)].join(", ")}`,
      );
    return tls;
  } catch (error) {
    findings.refuse(document, ["url"], whose + messageOf(error));
    return true;
  }
}
