import type { Clock } from "../../base/clock/clock.ts";
import { type ApiClient, collectionPath, type ResourceType, typeName } from "./api-client.ts";
import { ApiError, eventError } from "./api-error.ts";
import type { ObjectKey } from "./reflected.ts";

/** Most objects of one list; Kubernetes itself is built for 150,000 pods in a cluster. */
const MAX_OBJECTS = 200_000;

/** The objects to read. */
export interface Selection {
  readonly type: ResourceType;
  readonly namespace: string;
  /** Such as `metadata.name=pool`. */
  readonly fieldSelector?: string | undefined;
  readonly labelSelector?: string | undefined;
}

interface ListOptions extends Selection {
  readonly api: ApiClient;
  /** Objects per page. */
  readonly pageSize: number;
  readonly signal: AbortSignal;
  /** Called for each object, in order. */
  take(object: unknown): void;
  /**
   * The server refused a page. Resolves when the list may ask for it again.
   * @param attempts number of attempts for that page so far
   * @throws the error with which the list then ends
   */
  refused(error: unknown, attempts: number): Promise<void>;
}

/**
 * Reads all objects of a kind page by page, as of one moment.
 * @returns the version from which a watch reports the later changes
 * @throws ApiError; one that is `expired` when reading took too long for the server: start the list again
 */
export async function readList(options: ListOptions): Promise<string> {
  const { api, type, namespace, fieldSelector, labelSelector, pageSize, signal, take } = options;
  const path = collectionPath(type, namespace);
  let version: string | undefined;
  let rest = "";
  let objects = 0;
  let attempts = 0;
  do {
    const query = { limit: pageSize, continue: rest === "" ? undefined : rest, fieldSelector, labelSelector };
    let page: unknown;
    try {
      page = await api.request({ method: "GET", path, query, signal });
      attempts = 0;
    } catch (error) {
      await options.refused(error, ++attempts);
      continue;
    }
    const { metadata, items } = (page ?? {}) as { metadata?: Record<string, unknown>; items?: unknown };
    const of = metadata?.["resourceVersion"];
    // An answer from a server that is no API server must not count as an empty list. Go writes an empty list as null.
    if (typeof of !== "string" || of === "" || !(Array.isArray(items) || items === null))
      throw new ApiError(`${api.server} answered GET ${path} with something that is not a list`, {
        status: 0,
        reason: "",
      });
    // All pages are as of one moment. When the server leaves that moment, only the first version leaves no gap.
    version ??= of;
    objects += items?.length ?? 0;
    if (objects > MAX_OBJECTS)
      throw new ApiError(`there are more than ${MAX_OBJECTS} ${typeName(type)}`, { status: 0, reason: "" });
    for (const item of items ?? []) take(item);
    const next = metadata?.["continue"];
    rest = typeof next === "string" ? next : "";
  } while (version === undefined || attempts > 0 || rest !== "");
  return version;
}

/** The key of an object as the server sent it; undefined for an object without a name. */
export function keyOfObject(object: unknown, namespace: string): ObjectKey | undefined {
  const { metadata } = (object ?? {}) as { metadata?: Record<string, unknown> };
  const name = metadata?.["name"];
  const of = metadata?.["namespace"];
  return typeof name === "string" ? { namespace: typeof of === "string" ? of : namespace, name } : undefined;
}

/** The version of an object; undefined where it has none. */
export function versionOf(object: unknown): string | undefined {
  const { metadata } = (object ?? {}) as { metadata?: Record<string, unknown> };
  const version = metadata?.["resourceVersion"];
  return typeof version === "string" && version !== "" ? version : undefined;
}

/** Milliseconds beyond the length of a watch after which a silent watch is dead. */
const SLACK = 30_000;
/** The same for a watch that has sent a bookmark, which arrives once a minute. */
const LONGEST_SILENCE = 150_000;

/** What happened to an object, or how far the server has read. */
export type WatchEvent = {
  readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK";
  readonly object: unknown;
};

interface WatchOptions extends Selection {
  readonly api: ApiClient;
  readonly clock: Clock;
  /** The version from which changes are reported. */
  readonly version: string;
  /** Seconds after which the server ends the watch. */
  readonly seconds: number;
  /** Ends the watch when it is aborted; a silence that is too long also ends it. */
  readonly cut: AbortController;
  opened(): void;
  event(event: WatchEvent): void;
}

/**
 * One watch, until the server has ended it.
 * @throws ApiError for a watch that is refused, breaks, is silent for too long, or reports an error
 */
export async function watch(options: WatchOptions): Promise<void> {
  const { api, clock, type, namespace, fieldSelector, labelSelector, version, seconds, cut } = options;
  const what = typeName(type);
  let limit = seconds * 1000 + SLACK;
  let heardAt = clock.now();
  let silent = false;
  const look = (): void => {
    const left = heardAt + limit - clock.now();
    if (left > 0) timer = clock.after(left, look, true);
    else {
      silent = true;
      cut.abort();
    }
  };
  let timer = clock.after(limit, look, true);
  try {
    await api.stream(
      {
        method: "GET",
        path: collectionPath(type, namespace),
        query: {
          watch: true,
          allowWatchBookmarks: true,
          resourceVersion: version,
          timeoutSeconds: seconds,
          fieldSelector,
          labelSelector,
        },
        signal: cut.signal,
      },
      () => options.opened(),
      (line) => {
        heardAt = clock.now();
        const event = readEvent(line, what);
        if (event.type === "BOOKMARK" && limit > LONGEST_SILENCE) {
          limit = LONGEST_SILENCE;
          timer.cancel();
          timer = clock.after(limit, look, true);
        }
        options.event(event);
      },
    );
  } catch (error) {
    if (!silent) throw error;
    const text = `watch of ${what}: ${api.server} was silent for ${Math.round(limit / 1000)} s`;
    throw new ApiError(text, { status: 0, reason: "" });
  } finally {
    timer.cancel();
  }
}

function readEvent(line: string, what: string): WatchEvent {
  let event: { readonly type?: unknown; readonly object?: unknown } | null;
  try {
    event = JSON.parse(line);
  } catch {
    throw new ApiError(`watch of ${what}: a line that is not JSON`, { status: 0, reason: "" });
  }
  const { type, object } = event ?? {};
  switch (type) {
    case "ADDED":
    case "MODIFIED":
    case "DELETED":
    case "BOOKMARK":
      return { type, object };
    case "ERROR":
      throw eventError(what, object);
    default:
      throw new ApiError(`watch of ${what}: an event has an unknown type`, { status: 0, reason: "" });
  }
}
