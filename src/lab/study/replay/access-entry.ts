/** A request as an access log tells of it. Texts are at most 256 characters; undefined = the log does not say. */
export interface AccessEntry {
  /** Wall-clock milliseconds at which the request arrived, or at which it ended. */
  readonly start: number | undefined;
  readonly end: number | undefined;
  readonly durationMs: number | undefined;
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  /** 0 = there was no answer. */
  readonly status: number | undefined;
  readonly bytesReceived: number | undefined;
  readonly bytesSent: number | undefined;
  /** Whether the answer was a stream of events. */
  readonly streamed: boolean | undefined;
  readonly upstream: string | undefined;
  readonly model: string | undefined;
  /** Conversation. */
  readonly session: string | undefined;
  /** Who asked. */
  readonly tenant: string | undefined;
  readonly promptTokens: number | undefined;
  readonly outputTokens: number | undefined;
}

/** The longest text that is kept of an entry. */
const MAX_TEXT = 256;

/** A text of a log; undefined of what logs write for nothing. */
export function textIn(value: unknown): string | undefined {
  const text = typeof value === "number" ? String(value) : value;
  if (typeof text !== "string" || text === "" || text === "-" || text === "null") return undefined;
  return text.slice(0, MAX_TEXT);
}

/** `POST /v1/completions HTTP/1.1`, as many logs write a request in one. */
export function requestLineIn(value: unknown): { readonly method: string; readonly path: string } | undefined {
  const [, method, path] = /^([A-Z]+) (\S+)(?: HTTP\/[\d.]+)?$/.exec(typeof value === "string" ? value : "") ?? [];
  return method === undefined ? undefined : { method, path: pathIn(path!) };
}

/** The path of a target, which may be a whole URL. */
export function pathIn(target: string): string {
  const path = target.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, "").replace(/[?#].*$/s, "");
  return (path === "" ? "/" : path).slice(0, MAX_TEXT);
}
