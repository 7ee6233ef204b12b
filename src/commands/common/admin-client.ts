import { Client } from "undici";
import { delay } from "../../base/clock/clock.ts";
import { realClock } from "../../base/clock/real.ts";
import { readText } from "../../base/document/read.ts";
import { messageOf, oneLine, SluiceError } from "../../base/inference/errors.ts";

/** The default addresses of admin pages: of `sluice epp`, then of `sluice gateway`. */
export const USUAL_ADMINS = ["http://127.0.0.1:9090", "http://127.0.0.1:19001"] as const;

/** The longest wait for one answer, in milliseconds. */
const TIMEOUT = 10_000;
/** The longest answer in bytes: a full record of ten thousand endpoints fits. */
const MAX_BYTES = 16 * 1024 * 1024;
const MAX_PEM_BYTES = 1024 * 1024;
const MAX_TOKEN_BYTES = 64 * 1024;

/** The way to the admin port of a running process. */
export interface AdminAccess {
  /** `http://host:port`, `https://...` or `host:port`; undefined = `USUAL_ADMINS`, one after the other. */
  readonly admin: string | undefined;
  /** Files with PEM texts: the trusted authority, and the certificate and key of the client. */
  readonly caCert: string | undefined;
  readonly cert: string | undefined;
  readonly key: string | undefined;
  /** File with a bearer token, as Kubernetes mounts it. */
  readonly tokenFile?: string | undefined;
}

/** The answer of an admin port, as JSON. JSON lines become a list. */
export interface AdminAnswer {
  readonly status: 200 | 404;
  readonly value: unknown;
  /** The text as received. */
  readonly text: string;
}

/**
 * Sends a request to the admin port of a running `sluice epp` or `sluice gateway`.
 * @param path with its query
 * @throws SluiceError FLAG_VALUE, FLAG_CONFLICT, ADMIN_UNREACHABLE, ADMIN_REFUSED, ADMIN_FOREIGN, DOCUMENT_...
 */
export async function askAdmin(access: AdminAccess, path: string): Promise<AdminAnswer> {
  const tls = await tlsOf(access);
  const token = await tokenOf(access);
  const origins = access.admin === undefined ? USUAL_ADMINS : [adminOrigin(access.admin)];
  let nobody: SluiceError | undefined;
  for (const origin of origins) {
    try {
      return await ask(origin, path, tls, token);
    } catch (error) {
      // Other programs, such as Prometheus, may use one of the default ports.
      if (!(error instanceof SluiceError) || error.code === "ADMIN_REFUSED") throw error;
      nobody ??= error;
    }
  }
  if (origins.length === 1) throw nobody!;
  throw new SluiceError(
    "ADMIN_UNREACHABLE",
    `no admin port answers at ${origins.join(" or ")}; start sluice gateway or sluice epp, or name the address of the admin port with --admin`,
  );
}

/** The origin of an address of an admin port. @throws SluiceError FLAG_VALUE */
export function adminOrigin(text: string): string {
  const url = URL.parse(/^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`);
  const plain = url !== null && url.username === "" && url.password === "" && url.pathname === "/" && url.search === "";
  if (plain && /^https?:$/.test(url.protocol) && url.hostname !== "") return url.origin;
  const shown = text.includes("@") ? "a hidden value with @" : JSON.stringify(text.slice(0, 200));
  throw new SluiceError("FLAG_VALUE", `--admin: ${shown} is not an address; write for example http://127.0.0.1:9090`);
}

interface Tls {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
}

async function tlsOf({ caCert, cert, key }: AdminAccess): Promise<Tls> {
  if ((cert === undefined) !== (key === undefined))
    throw new SluiceError("FLAG_CONFLICT", "--cert and --key must be given together");
  const read = (path: string): Promise<string> => readText(path, { maxBytes: MAX_PEM_BYTES });
  return {
    ...(caCert === undefined ? {} : { ca: await read(caCert) }),
    ...(cert === undefined || key === undefined ? {} : { cert: await read(cert), key: await read(key) }),
  };
}

async function tokenOf({ tokenFile }: AdminAccess): Promise<string | undefined> {
  if (tokenFile === undefined) return undefined;
  const token = (await readText(tokenFile, { maxBytes: MAX_TOKEN_BYTES })).trim();
  // An illegal character in the header would look like a broken connection.
  if (/^[\x21-\x7e]+$/.test(token)) return token;
  throw new SluiceError(
    "FLAG_VALUE",
    `--token-file: ${tokenFile} holds no token; a token is one line of printable characters`,
  );
}

async function ask(origin: string, path: string, tls: Tls, token: string | undefined): Promise<AdminAnswer> {
  const { status, text, lines } = await fetchFrom(origin, path, tls, token);
  try {
    const value: unknown = JSON.parse(lines ? `[${text.trimEnd().split("\n").join()}]` : text);
    if (status === 200 || status === 404) return { status, value, text };
  } catch {
    // The error below reports it.
  }
  throw new SluiceError(
    "ADMIN_FOREIGN",
    `${origin} answers with ${status}, but not as an admin port of this version of sluice; check the address in --admin`,
  );
}

/** An answer of an admin port as it came. */
export interface AdminText {
  readonly status: number;
  readonly text: string;
  /** The answer is of JSON lines. */
  readonly lines: boolean;
  /** The header `date`. */
  readonly date: string | undefined;
  /** Wall-clock milliseconds at the start of the request, and how long the answer took. */
  readonly sentAt: number;
  readonly took: number;
}

/**
 * Sends a request to one admin port, and takes any status but 401 and 403.
 * @param access with an address
 * @throws SluiceError FLAG_VALUE, FLAG_CONFLICT, ADMIN_UNREACHABLE, ADMIN_REFUSED, DOCUMENT_...
 */
export async function fetchAdmin(access: AdminAccess & { readonly admin: string }, path: string): Promise<AdminText> {
  return fetchFrom(adminOrigin(access.admin), path, await tlsOf(access), await tokenOf(access));
}

async function fetchFrom(origin: string, path: string, tls: Tls, token: string | undefined): Promise<AdminText> {
  const sentAt = realClock.wall();
  const started = realClock.now();
  let client: Client | undefined;
  const over = new AbortController();
  const late = new AbortController();
  delay(realClock, TIMEOUT, over.signal).then(
    () => late.abort(),
    () => {},
  );
  let status: number;
  let text: string;
  let lines: boolean;
  let date: string | undefined;
  try {
    client = new Client(origin, { connect: { timeout: TIMEOUT, ...tls } });
    const answer = await client.request({
      path,
      method: "GET",
      signal: late.signal,
      headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
    });
    status = answer.statusCode;
    lines = String(answer.headers["content-type"]).startsWith("application/x-ndjson");
    date = answer.headers["date"]?.toString();
    text = await textOf(answer.body);
  } catch (error) {
    throw late.signal.aborted ? silent(origin) : unreachable(origin, error);
  } finally {
    over.abort();
    void client?.destroy();
  }
  if (status === 401 || status === 403)
    throw new SluiceError(
      "ADMIN_REFUSED",
      `${origin} answers ${status}: ${oneLine(text.trim())}${status === 401 ? "; give a token with --token-file" : ""}`,
    );
  return { status, text, lines, date, sentAt, took: realClock.now() - started };
}

async function textOf(body: AsyncIterable<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of body) {
    size += part.length;
    if (size > MAX_BYTES) throw new Error(`the answer has more than ${MAX_BYTES} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString("utf8");
}

function silent(origin: string): SluiceError {
  return new SluiceError(
    "ADMIN_UNREACHABLE",
    `${origin} did not answer within ${TIMEOUT / 1000} s; check that --admin names the admin port, and that the process is not overloaded`,
  );
}

function unreachable(origin: string, cause: unknown): SluiceError {
  const code = String((cause as { code?: unknown }).code ?? "");
  return new SluiceError("ADMIN_UNREACHABLE", `${problemOf(origin, code, messageOf(cause))}`, { cause });
}

function problemOf(origin: string, code: string, message: string): string {
  if (code === "ECONNREFUSED")
    return `no process listens at ${origin}; sluice epp opens its admin port with --metrics-port, sluice gateway with --admin`;
  const secure = origin.startsWith("https:");
  if (secure && /WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|^EPROTO$/.test(code))
    return `${origin} does not speak TLS; write http:// (${message})`;
  if (/CERTIFICATE_REQUIRED|HANDSHAKE_FAILURE/.test(code))
    return `${origin} demands a client certificate; give --cert and --key (${message})`;
  if (secure && /SELF_SIGNED|UNABLE_TO_(GET|VERIFY)|CERT_/.test(code))
    return `the certificate of ${origin} is not trusted; give the certificate of its CA with --ca-cert (${message})`;
  const cut = /^(UND_ERR_SOCKET|ECONNRESET)/.test(code);
  if (secure && cut)
    return `${origin} ends the connection; if the port demands a client certificate, give --cert and --key (${message})`;
  if (cut || (!secure && code.startsWith("HPE_")))
    return `${origin} does not answer in HTTP; if the port speaks TLS, write https:// (${message})`;
  return `cannot connect to ${origin}: ${message}; check the address in --admin`;
}
