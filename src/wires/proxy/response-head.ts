import { HeaderList, HOP_BY_HOP_HEADERS } from "../../base/inference/headers.ts";
import { isSettable, listedIn } from "./forwarded-headers.ts";

/** The head of a model server's answer, without the headers of its connection. */
export interface ResponseHead {
  readonly status: number;
  /** Repeated headers stay repeated. */
  readonly headers: HeaderList;
  /** Declared bytes of the body; -1 when unknown. */
  readonly contentLength: number;
  /** Uncompressed server-sent events: the proxy may append an event. */
  readonly eventStream: boolean;
}

/** @param raw name, value, name, value */
export function readResponseHead(status: number, raw: readonly string[]): ResponseHead {
  const headers = new HeaderList();
  let connection = "";
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!.toLowerCase();
    if (name === "connection") connection += `,${raw[i + 1]!}`;
    // A 204 has no length (RFC 9110 8.6).
    if (HOP_BY_HOP_HEADERS.has(name) || (status === 204 && name === "content-length")) continue;
    headers.append(name, raw[i + 1]!);
  }
  const listed = listedIn(connection);
  const kept = listed === undefined ? headers : without(headers, listed);
  const length = kept.get("content-length");
  return {
    status,
    headers: kept,
    contentLength: length === undefined ? -1 : Number(length),
    eventStream:
      length === undefined &&
      kept.get("content-encoding") === undefined &&
      (kept.get("content-type") ?? "").toLowerCase().startsWith("text/event-stream"),
  };
}

function without(headers: HeaderList, listed: ReadonlySet<string>): HeaderList {
  const kept = new HeaderList();
  for (let i = 0; i < headers.length; i++) {
    if (!listed.has(headers.keys[i]!)) kept.append(headers.keys[i]!, headers.values[i]!);
  }
  return kept;
}

/**
 * The headers with those that plugins set and may set. A `content-length` that no longer holds is removed.
 * @param set undefined = nothing to set
 */
export function changedHeaders(headers: HeaderList, set: HeaderList | undefined, dropLength: boolean): HeaderList {
  if (set === undefined && !dropLength) return headers;
  const changed = new HeaderList();
  for (let i = 0; i < headers.length; i++) {
    const key = headers.keys[i]!;
    if (dropLength && key === "content-length") continue;
    // A few names at most: a search among them is faster than a set for each answer.
    if (set?.keys.includes(key) && isSettable(key)) continue;
    changed.append(key, headers.values[i]!);
  }
  for (let i = 0; set !== undefined && i < set.length; i++) {
    if (isSettable(set.keys[i]!)) changed.append(set.keys[i]!, set.values[i]!);
  }
  return changed;
}

/** The headers in the form that `ServerResponse.writeHead` takes. */
export function flat(headers: HeaderList): string[] {
  const out: string[] = new Array(headers.length * 2);
  for (let i = 0; i < headers.length; i++) {
    out[2 * i] = headers.keys[i]!;
    out[2 * i + 1] = headers.values[i]!;
  }
  return out;
}
