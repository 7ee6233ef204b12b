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

/** A host and a port. */
export interface Place {
  readonly host: string;
  readonly port: number;
}

/** The place of a Redis server and the credentials, taken from a URL. */
export interface RedisAddress extends Place {
  /** Further places: of the other Sentinels, or of other nodes of a cluster. */
  readonly others: readonly Place[];
  /** Undefined: the places are servers, not Sentinels. Empty user name or password = none. */
  readonly sentinel: { readonly primary: string; readonly username: string; readonly password: string } | undefined;
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
/** Parameters of the query, by the names that go-redis gives them. */
const KNOWN = new Set(["db", "client_name", "addr", "master_name", "sentinel_username", "sentinel_password"]);
/** The most places of one URL. */
const MOST_PLACES = 32;

/**
 * Reads `redis://` and `rediss://` URLs: user and password percent-encoded, the database as path or `?db=`, a name as
 * `?client_name=`. With `?master_name=NAME` the host is a Sentinel; `&addr=HOST:PORT`, repeatable, names further ones, or further
 * nodes of a cluster. Source: async-processor 5.1; the names of go-redis.
 * @throws SluiceError REDIS_URL_INVALID; the text names no password
 */
export function parseRedisUrl(text: string): RedisAddress {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw invalid(text, "it is not a URL");
  }
  if (!SCHEMES.has(url.protocol)) throw invalid(text, "the URL must begin with redis:// or rediss://");
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1") || "localhost";
  const database = url.searchParams.get("db") ?? url.pathname.replace(/^\//, "");
  if (!/^\d{0,9}$/.test(database))
    throw invalid(text, `the database must be a number, not ${JSON.stringify(database)}`);
  const others = url.searchParams.getAll("addr").map((place) => placeOf(text, place));
  if (others.length >= MOST_PLACES) throw invalid(text, `the URL names more than ${MOST_PLACES} servers`);
  return {
    host,
    port: url.port === "" ? DEFAULT_PORT : Number(url.port),
    others,
    sentinel: sentinelOf(text, url.searchParams),
    tls: url.protocol === "rediss:",
    username: decoded(text, url.username),
    password: decoded(text, url.password),
    database: Number(database),
    clientName: url.searchParams.get("client_name") ?? "",
    ignored: [...url.searchParams.keys()].filter((name) => !KNOWN.has(name)),
  };
}

function placeOf(text: string, place: string): Place {
  const match = /^(?:\[([\da-f:.]+)\]|([^\s:@/[\]]+))(?::(\d{1,5}))?$/i.exec(place);
  const port = Number(match?.[3] ?? DEFAULT_PORT);
  if (match === null || port < 1 || port > 65_535) throw invalid(text, "each addr must be HOST:PORT");
  return { host: (match[1] ?? match[2])!, port };
}

function sentinelOf(text: string, query: URLSearchParams): RedisAddress["sentinel"] {
  const primary = query.get("master_name");
  const [username, password] = [query.get("sentinel_username") ?? "", query.get("sentinel_password") ?? ""];
  if (primary !== null && primary !== "") return { primary, username, password };
  if (primary !== null) throw invalid(text, "master_name must name the primary that the Sentinels watch");
  if (username !== "" || password !== "")
    throw invalid(text, "sentinel_username and sentinel_password need master_name");
  return undefined;
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
    throw invalid(text, "the user or the password is not correctly percent-encoded");
  }
}

function invalid(text: string, problem: string): SluiceError {
  return new SluiceError("REDIS_URL_INVALID", `Redis URL ${redactUrl(text)}: ${problem}`);
}
