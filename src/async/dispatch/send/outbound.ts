import { messageOf, oneLine } from "../../../base/inference/errors.ts";
import { HEADER, HOP_BY_HOP_HEADERS } from "../../../base/inference/headers.ts";
import type { Message } from "../../brokers/messages/message.ts";
import type { QueueSettings } from "../../brokers/settings.ts";
import type { StampedHeader } from "../merge/merge-policy.ts";
import type { TransformedBody } from "../transforms/transform.ts";
import { ACCEPTED_CODING } from "./answer-body.ts";

/** The parts of a message's request. */
export interface OutboundParts {
  readonly message: Message;
  readonly queue: QueueSettings;
  /** Headers of the merge policy; each replaces every other header of its name. */
  readonly stamped: readonly StampedHeader[];
  readonly transformed?: TransformedBody | undefined;
  /** The key that gateways ask for; absent = none. */
  readonly gatewayKey?: string | undefined;
  /** Header with the milliseconds that are left; undefined = none. */
  readonly deadlineHeader?: string | undefined;
  /** Writes `traceparent` and related headers. */
  readonly trace?: ((set: (name: string, value: string) => void) => void) | undefined;
  /** Milliseconds to the message's deadline. */
  readonly remainingMs: number;
}

/** URL and headers of a request, or why it cannot be sent: the text of an INVALID_REQUEST result. */
type OutboundBuild =
  | {
      readonly kind: "request";
      readonly url: URL;
      /** Names and values in turn; legal, so that no client refuses them. */
      readonly headers: readonly string[];
      /** The message's headers that were left out, with the reason, for the log; at most eight. */
      readonly dropped: readonly string[];
    }
  | { readonly kind: "invalid"; readonly reason: string };

/** Headers that a message may not set: they say which server is called, and how the body is framed. */
const OWN_HEADERS: ReadonlySet<string> = new Set(["host", "content-length", "expect"]);
const TOKEN = /^[!#$%&'*+\-.^_`|~\da-z]+$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
const CONTROL = /[\u0000-\u0008\u000a-\u001f\u007f]/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: so is this
const NOT_ASCII = /[^\u0000-\u007f]/;
const BLANKS_AROUND = /^[ \t]+|[ \t]+$/g;

const MAX_DROPPED = 8;
/** Most bytes of a request's id that fit a header. */
const MAX_REQUEST_ID = 1024;

/**
 * Makes the URL and the headers of a message's request (async-processor 7.1, 7.2). A message's header that is illegal or
 * belongs to the connection is left out and named; the request still goes.
 */
export function buildRequest(parts: OutboundParts): OutboundBuild {
  const { queue, message, transformed, deadlineHeader, trace } = parts;
  const { endpoint, id } = message.request;
  const gateway = gatewayOf(queue);
  if (gateway.problem !== undefined) return invalid(`the queue's base URL cannot be used: ${gateway.problem}`);
  const url = endpoint === "" ? gateway.url : urlOf(gateway, endpoint);
  if (endpoint !== "" && queue.allowedEndpoints !== undefined && !isAllowed(url, gateway.base, queue.allowedEndpoints))
    return invalid(`endpoint ${JSON.stringify(endpoint.slice(0, 200))} matches none of the queue's allowed_endpoints`);

  const headers = new OutboundHeaders();
  headers.set("content-type", transformed?.contentType ?? "application/json");
  if (queue.inferenceObjective !== "") headers.set(HEADER.objectiveAlias, queue.inferenceObjective);
  for (const [name, value] of Object.entries(message.request.headers)) headers.setForMessage(name, value);
  if (transformed !== undefined) headers.set("content-type", transformed.contentType);
  if (gateway.authorization !== "") headers.setIfMissing("authorization", gateway.authorization);
  if (parts.gatewayKey !== undefined) headers.setIfMissing("authorization", `Bearer ${parts.gatewayKey}`);
  if (id !== "" && id.length <= MAX_REQUEST_ID) headers.setIfMissing(HEADER.requestId, id);
  headers.setIfMissing("user-agent", "sluice");
  headers.setIfMissing("accept-encoding", ACCEPTED_CODING);
  for (const { name, value } of parts.stamped) headers.set(name, value);
  if (deadlineHeader !== undefined) headers.set(deadlineHeader, String(Math.max(0, Math.floor(parts.remainingMs))));
  trace?.((name, value) => headers.set(name, value));
  return { kind: "request", url, headers: headers.flat(), dropped: headers.dropped };
}

/** The parts that all messages of a queue share. */
type Gateway =
  | { readonly problem: string }
  | {
      readonly problem: undefined;
      readonly base: URL;
      /** With the path of the queue. */
      readonly url: URL;
      /** Empty = none. */
      readonly authorization: string;
      /** By the endpoints of messages, the first ones. */
      readonly others: Map<string, URL>;
    };

/** Endpoints of messages whose URLs are kept: an API has a few, and each message may name any text. */
const MOST_KEPT = 16;
const LONGEST_KEPT = 100;

/** Parsing URLs for each message would take three quarters of the time of `buildRequest`. */
const gateways = new WeakMap<QueueSettings, Gateway>();

function gatewayOf(queue: QueueSettings): Gateway {
  let gateway = gateways.get(queue);
  if (gateway === undefined) {
    const problem = checkBaseUrl(queue.igwBaseUrl);
    gateway = problem === undefined ? reachable(new URL(queue.igwBaseUrl), queue.requestPathUrl) : { problem };
    gateways.set(queue, gateway);
  }
  return gateway;
}

function reachable(base: URL, path: string): Gateway {
  const anonymous = base.username === "" && base.password === "";
  return {
    problem: undefined,
    base,
    url: joinUrl(base, path),
    authorization: anonymous ? "" : basicCredentials(base),
    others: new Map(),
  };
}

function urlOf({ base, others }: Gateway & { readonly problem: undefined }, endpoint: string): URL {
  let url = others.get(endpoint);
  if (url !== undefined) return url;
  url = joinUrl(base, endpoint);
  if (others.size < MOST_KEPT && endpoint.length <= LONGEST_KEPT) others.set(endpoint, url);
  return url;
}

/** Headers by their lower-case names: of two that differ in case only, the one set last counts (H-37). */
class OutboundHeaders {
  readonly dropped: string[] = [];
  readonly #values = new Map<string, string>();

  /** Sets a header of Sluice; an illegal one is left out silently. */
  set(name: string, value: string): void {
    const legal = legalValue(value);
    if (legal !== undefined) this.#values.set(name.toLowerCase(), legal);
  }

  setIfMissing(name: string, value: string): void {
    if (!this.#values.has(name)) this.set(name, value);
  }

  setForMessage(name: string, value: string): void {
    const key = name.toLowerCase();
    const legal = legalValue(value);
    if (HOP_BY_HOP_HEADERS.has(key)) this.#drop(name, "is a connection header");
    else if (OWN_HEADERS.has(key)) this.#drop(name, "cannot come from a message");
    else if (!TOKEN.test(key)) this.#drop(name, "is not a header name");
    else if (legal === undefined) this.#drop(name, "has a value with control characters");
    else this.#values.set(key, legal);
  }

  flat(): string[] {
    const out: string[] = [];
    for (const [name, value] of this.#values) out.push(name, value);
    return out;
  }

  #drop(name: string, reason: string): void {
    if (this.dropped.length < MAX_DROPPED)
      this.dropped.push(`${oneLine(JSON.stringify(name.slice(0, 100)))} ${reason}`);
  }
}

/** The value on the wire, one character per byte of its UTF-8; undefined when it holds control characters. */
function legalValue(value: string): string | undefined {
  if (CONTROL.test(value)) return undefined;
  const trimmed = value.replace(BLANKS_AROUND, "");
  return NOT_ASCII.test(trimmed) ? Buffer.from(trimmed).toString("latin1") : trimmed;
}

function basicCredentials({ username, password }: URL): string {
  const plain = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return `Basic ${Buffer.from(plain).toString("base64")}`;
}

function invalid(reason: string): OutboundBuild {
  return { kind: "invalid", reason };
}

const EXAMPLE = "a base URL looks like http://gateway:80";

/** The error in a gateway's base URL; undefined = none. Credentials go out as `Authorization: Basic`. */
export function checkBaseUrl(text: string): string | undefined {
  try {
    const { protocol, username, password } = new URL(text);
    decodeURIComponent(username + password);
    if (protocol === "http:" || protocol === "https:") return undefined;
    return `its scheme is ${protocol.slice(0, -1)}, not http or https; ${EXAMPLE}`;
  } catch (error) {
    return `${messageOf(error)}; ${EXAMPLE}`;
  }
}

/**
 * Joins a base URL and a path (async-processor 7.1). Slashes are collapsed. Dot segments are resolved, also those written with
 * `%2e`. Every other character than a path character is escaped, `?` and `#` included, so that a path can choose neither host
 * nor query. The base keeps its own path and query.
 * @param base legal for `checkBaseUrl`
 */
export function joinUrl(base: URL, path: string): URL {
  return new URL(base.origin + resolved(`${base.pathname}/${path}`, path.endsWith("/")) + base.search);
}

/**
 * Whether a joined URL lies below one of `prefixes`. Prefixes begin after the base's own path and match whole segments:
 * `/v1/chat` allows `/v1/chat` and `/v1/chat/completions`, not `/v1/chatter`. A path with an escaped slash or backslash lies
 * below none, because the gateway may take it for a real one. Source: async-processor H-46.
 */
export function isAllowed(url: URL, base: URL, prefixes: readonly string[]): boolean {
  if (/%2f|%5c/i.test(url.pathname)) return false;
  const root = withSlash(resolved(base.pathname, false));
  const path = withSlash(url.pathname);
  return prefixes.some((prefix) => path.startsWith(withSlash(resolved(`${root}/${prefix}`, false))));
}

function withSlash(path: string): string {
  return path.endsWith("/") ? path : `${path}/`;
}

/** Every character but RFC 3986's path characters and escapes. */
const TO_ESCAPE = /[^\w\-.~!$&'()*+,;=:@%]|%(?![0-9a-f]{2})/giu;

/** The path with dot segments resolved, except for `%2e`, which `URL` resolves. */
function resolved(path: string, trailingSlash: boolean): string {
  const segments: string[] = [];
  for (const segment of path.toWellFormed().split("/")) {
    if (segment === "..") segments.pop();
    else if (segment !== "" && segment !== ".") segments.push(segment.replace(TO_ESCAPE, encodeURIComponent));
  }
  return `/${segments.join("/")}${trailingSlash && segments.length > 0 ? "/" : ""}`;
}
