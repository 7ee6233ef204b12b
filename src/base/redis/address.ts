import { isIP } from "node:net";
import { getCACertificates } from "node:tls";
import { SluiceError } from "../inference/errors.ts";

/** The connection settings of one Redis server. */
export interface RedisConnection {
  /** `redis://` or `rediss://`. */
  readonly url: string;
  /** PEM texts; undefined = the system's authorities, no client certificate. */
  readonly tls: { readonly ca?: string; readonly cert?: string; readonly key?: string };
  /** One span per command. */
  readonly enableTracing: boolean;
}

/** The place of a Redis server and the credentials, taken from a URL. */
export interface RedisAddress {
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
  /** Empty = none. */
  readonly username: string;
  readonly password: string;
  /** Number of the logical database. */
  readonly database: number;
  /** Name of the connections in the server's client list; empty = the name of Sluice. */
  readonly clientName: string;
  /** Options of other clients in the query string, without effect here. */
  readonly ignored: readonly string[];
}

const DEFAULT_PORT = 6379;
const SCHEMES = new Set(["redis:", "rediss:"]);

/**
 * Reads `redis://` and `rediss://` URLs: user and password percent-encoded, the database as path or `?db=`, a name as
 * `?client_name=`. Source: async-processor 5.1.
 * @throws SluiceError REDIS_URL_INVALID; the text names no password
 */
export function parseRedisUrl(text: string): RedisAddress {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw invalid(text, "it is not a URL");
  }
  if (!SCHEMES.has(url.protocol)) throw invalid(text, "it must begin with redis:// or rediss://");
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1") || "localhost";
  const database = url.searchParams.get("db") ?? url.pathname.replace(/^\//, "");
  if (!/^\d{0,9}$/.test(database))
    throw invalid(text, `the database must be a number, not ${JSON.stringify(database)}`);
  return {
    host,
    port: url.port === "" ? DEFAULT_PORT : Number(url.port),
    tls: url.protocol === "rediss:",
    username: decoded(text, url.username),
    password: decoded(text, url.password),
    database: Number(database),
    clientName: url.searchParams.get("client_name") ?? "",
    ignored: [...url.searchParams.keys()].filter((name) => name !== "db" && name !== "client_name"),
  };
}

/** `text` without user, password and query: the part of a URL that messages and logs may show, also of an invalid URL. */
export function redactUrl(text: string): string {
  const scheme = /^[a-z][a-z0-9+.-]*:\/\//i.exec(text)?.[0] ?? "";
  // An unencoded password with "/", "?" or "#" in it also ends at the last "@".
  const address = text.slice(Math.max(scheme.length, text.lastIndexOf("@") + 1));
  return `${scheme}${address.replace(/[?#].*$/s, "")}`.slice(0, 200);
}

/** Options of the TLS socket: at least TLS 1.2; the system's authorities unless one is given. */
export function tlsOptions({ host }: RedisAddress, { ca, cert, key }: RedisConnection["tls"]) {
  return {
    tls: true as const,
    minVersion: "TLSv1.2" as const,
    ca: ca ?? [...getCACertificates("default"), ...getCACertificates("system")],
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    // Server names are host names only (RFC 6066 3).
    ...(isIP(host) === 0 ? { servername: host } : {}),
  };
}

function decoded(text: string, part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw invalid(text, "user or password is not percent-encoded properly");
  }
}

function invalid(text: string, problem: string): SluiceError {
  return new SluiceError("REDIS_URL_INVALID", `Redis URL ${redactUrl(text)}: ${problem}`);
}
