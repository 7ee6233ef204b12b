import { readFileSync } from "node:fs";
import { hostPort } from "../../base/inference/endpoint.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import type { GateContext } from "../../base/plugin/gate.ts";
import type { RedisConnection } from "../../base/redis/address.ts";
import { parseRedisUrl } from "../../base/redis/address.ts";
import { connectRedis, type Redis } from "../../base/redis/connection.ts";
import type { RedisScript } from "../../base/redis/script.ts";
import { booleanParameter, stringParameter } from "./parameters.ts";
import { TLS_NAMES } from "./tls-names.ts";

/** How a gate reaches its Redis server: the reference's `address`, and the settings for a password or TLS. */
export const CONNECTION_PARAMETERS = {
  address: stringParameter({ default: "" }).describe(
    "`host:port` of the Redis server; `address` or `url` is required.",
  ),
  url: stringParameter({ default: "" }).describe(
    "`redis://` or `rediss://` URL of the server, with user, password and database, in place of `address`.",
  ),
  username: stringParameter({ default: "" }).describe("Redis user; only with `address`."),
  password_env: stringParameter({ default: "" }).describe(
    "Environment variable that holds the Redis password; only with `address`.",
  ),
  tls: booleanParameter({ default: false }).describe(
    "Connect to `address` with TLS; each of the parameters `tls_..._file` turns TLS on, too.",
  ),
  tls_ca_file: stringParameter({ default: "" }).describe(
    "PEM file of CA certificates that Sluice trusts for the server, in place of those of the system.",
  ),
  tls_cert_file: stringParameter({ default: "" }).describe("PEM file of the client certificate; needs `tls_key_file`."),
  tls_key_file: stringParameter({ default: "" }).describe("PEM file of the client certificate's key."),
  tls_ca_cert: stringParameter({ default: "" }).describe("Alias of `tls_ca_file`; transports use this name."),
  tls_cert: stringParameter({ default: "" }).describe("Alias of `tls_cert_file`."),
  tls_key: stringParameter({ default: "" }).describe("Alias of `tls_key_file`."),
};

type Environment = Readonly<Record<string, string | undefined>>;

/** The part of a connection that gates need. */
export type GateRedis = Pick<Redis, "ready" | "whenReady" | "send" | "run" | "close">;

interface ConnectionParameters {
  readonly address: string;
  readonly url: string;
  readonly username: string;
  readonly password_env: string;
  readonly tls: boolean;
  readonly tls_ca_file: string;
  readonly tls_cert_file: string;
  readonly tls_key_file: string;
  readonly tls_ca_cert?: string;
  readonly tls_cert?: string;
  readonly tls_key?: string;
}

const ADDRESS = /^(\[[0-9a-f:.]+\]|[^\s:/?#@[\]]*):(\d{1,5})$/i;

/**
 * Begins to connect to the server that a gate's parameters name; a server that is away causes a delay and no failure.
 * @param scripts that will run on it
 * @throws SluiceError GATE_PARAMETERS, REDIS_URL_INVALID
 */
export function connectGate(
  parameters: ConnectionParameters,
  context: Pick<GateContext, "clock" | "random" | "log">,
  scripts: readonly RedisScript[] = [],
): GateRedis {
  return connectRedis(connectionOf(parameters), context, { scripts });
}

/** Server, database and key: tells two keys apart, without the password. */
export function keyName(parameters: ConnectionParameters, key: string): string {
  const { host, port, database } = parseRedisUrl(urlOf(parameters));
  return `redis ${hostPort(host, port)}/${database} ${key}`;
}

/**
 * Finds the faults that a connection would have, without the environment.
 * @throws SluiceError GATE_PARAMETERS, REDIS_URL_INVALID
 */
export function verifyConnection(parameters: ConnectionParameters): void {
  parseRedisUrl(connectionOf(parameters, null).url);
}

/** A file of TLS, and the parameter that names it. An empty path = no file. */
interface TlsFile {
  readonly name: string;
  readonly path: string;
}

/** @throws SluiceError GATE_PARAMETERS when both names say different things */
function tlsFilesOf(parameters: ConnectionParameters): Readonly<Record<keyof typeof TLS_NAMES, TlsFile>> {
  const one = (which: keyof typeof TLS_NAMES): TlsFile => {
    const [usual, other] = TLS_NAMES[which];
    const [path, otherPath = ""] = [parameters[usual], parameters[other]];
    if (path !== "" && otherPath !== "" && path !== otherPath)
      throw invalid(other, `is an alias of ${usual}, and both are given; keep one`);
    return path === "" && otherPath !== "" ? { name: other, path: otherPath } : { name: usual, path };
  };
  return { ca: one("ca"), cert: one("cert"), key: one("key") };
}

/** @param environment null = passwords are not looked up. @throws SluiceError GATE_PARAMETERS */
export function connectionOf(
  parameters: ConnectionParameters,
  environment: Environment | null = process.env,
): RedisConnection {
  const { ca, cert, key } = tlsFilesOf(parameters);
  if ((cert.path === "") !== (key.path === ""))
    throw invalid(cert.path === "" ? cert.name : key.name, "is missing: give certificate and key together");
  return {
    url: urlOf(parameters, environment),
    tls: {
      ...(ca.path === "" ? {} : { ca: contents(ca) }),
      ...(cert.path === "" ? {} : { cert: contents(cert) }),
      ...(key.path === "" ? {} : { key: contents(key) }),
    },
    enableTracing: false,
  };
}

function urlOf(parameters: ConnectionParameters, environment: Environment | null = process.env): string {
  const { address, url, username, password_env, tls } = parameters;
  if (url !== "") {
    for (const [key, given] of Object.entries({ address, username, password_env, tls }))
      if (given !== "" && given !== false) throw invalid(key, "works only with `address`, but `url` is given");
    if (usesFiles(parameters) && !url.startsWith("rediss:"))
      throw invalid("url", "must begin with rediss:// when TLS files are given");
    return url;
  }
  if (address === "") throw invalid("address", "is missing (host:port)");
  const [, host, port] = ADDRESS.exec(address) ?? [];
  if (port === undefined || Number(port) > 65_535)
    // The value is not repeated: a whole URL in this place may contain a password.
    throw invalid("address", "expected host:port");
  const password = password_env === "" || environment === null ? "" : environment[password_env];
  if (password === undefined) throw invalid("password_env", `there is no environment variable ${password_env}`);
  const user =
    username === "" && password === "" ? "" : `${encodeURIComponent(username)}:${encodeURIComponent(password)}@`;
  return `${tls || usesFiles(parameters) ? "rediss" : "redis"}://${user}${host || "localhost"}:${port}`;
}

function usesFiles(parameters: ConnectionParameters): boolean {
  return Object.values(tlsFilesOf(parameters)).some(({ path }) => path !== "");
}

function contents({ name, path }: TlsFile): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw invalid(name, messageOf(error));
  }
}

function invalid(key: string, problem: string): SluiceError {
  return new SluiceError("GATE_PARAMETERS", `${key}: ${problem}`);
}
