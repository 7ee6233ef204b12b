import { CONTROL_HEADERS, HEADER, HeaderList, HOP_BY_HOP_HEADERS } from "../inference/headers.ts";

/** What a reply changes about headers: entries to set in order, and names to remove. */
export interface HeaderMutation {
  readonly set: HeaderList;
  readonly remove: readonly string[];
}

/** Envoy refuses a mutation of more entries than its connection manager allows headers. */
const MAX_ENTRIES = 100;

export interface RequestMutation {
  readonly destination: string;
  /** Bytes of the body forwarded; 0 writes no `Content-Length`. */
  readonly contentLength: number;
  /** The generated request id, when the client sent none. */
  readonly requestId: string | undefined;
}

/**
 * The mutation of a routed request: the destination, the length, the request id, then every header that may be echoed;
 * control headers that a client sent are removed. Source: epp-protocol 3.4, E-20 to E-27, D-26.
 */
export function requestMutation(headers: HeaderList, values: RequestMutation): HeaderMutation {
  const set = new HeaderList();
  append(set, HEADER.destination, values.destination);
  if (values.contentLength > 0) append(set, "Content-Length", String(values.contentLength));
  if (values.requestId !== undefined) append(set, HEADER.requestId, values.requestId);
  const remove: string[] = [];
  // The destination is overwritten, not removed: an ORIGINAL_DST cluster reads it after us.
  for (const key of headers.keys)
    if (CONTROL_HEADERS.has(key) && key !== HEADER.destination && !remove.includes(key)) remove.push(key);
  echo(headers, set, MAX_ENTRIES - remove.length, values.requestId !== undefined);
  return { set, remove };
}

/** The mutation of response headers: the debug marker first, then the echo. Source: epp-protocol 4.2, E-60, E-61. */
export function responseMutation(headers: HeaderList): HeaderMutation {
  const set = new HeaderList();
  append(set, HEADER.debug, "true");
  echo(headers, set, MAX_ENTRIES, false);
  return { set, remove: [] };
}

/** Adds what may be echoed unchanged, up to `limit` entries in all: an echo changes nothing, so it is what gives way. */
function echo(headers: HeaderList, set: HeaderList, limit: number, ownRequestId: boolean): void {
  const { keys, values } = headers;
  for (let i = 0; i < keys.length && set.length < limit; i++) {
    const key = keys[i]!;
    const value = values[i]!;
    if (key.charCodeAt(0) === 0x3a && key !== ":path") continue;
    if (CONTROL_HEADERS.has(key) || key === "content-length") continue;
    if (HOP_BY_HOP_HEADERS.has(key) && !(key === "te" && value === "trailers")) continue;
    if (ownRequestId && key === HEADER.requestId) continue;
    // Echoing one value of a repeated header would erase the others.
    if (headers.isRepeated(key)) continue;
    append(set, key, value);
  }
}

/** Appends without lower-casing: the reference writes `Content-Length` with capitals, and tests compare it (E-20). */
function append(list: HeaderList, key: string, value: string): void {
  list.keys.push(key);
  list.values.push(value);
}
