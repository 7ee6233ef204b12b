import type { Clock } from "../../base/clock/clock.ts";
import type { ApiClient } from "./api-client.ts";
import { ApiError } from "./api-error.ts";
import type { Selection } from "./object-list.ts";
import { collectionPath, typeName } from "./resource-type.ts";
import { eventError } from "./status-error.ts";

/** Milliseconds beyond the length of a watch after which a silent one is dead. */
const SLACK = 30_000;
/** The same once it has sent a bookmark, of which there is one a minute. */
const LONGEST_SILENCE = 150_000;

/** What happened to an object, or how far the server has come. */
export type WatchEvent = {
  readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK";
  readonly object: unknown;
};

export interface WatchOptions extends Selection {
  readonly api: ApiClient;
  readonly clock: Clock;
  /** From which changes are told. */
  readonly version: string;
  /** Seconds after which the server ends it. */
  readonly seconds: number;
  /** Ends it when it is aborted, here also after too long a silence. */
  readonly cut: AbortController;
  opened(): void;
  event(event: WatchEvent): void;
}

/**
 * One watch, until the server has ended it.
 * @throws ApiError for one that is refused, breaks, is silent for too long, or tells of an error
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
      throw new ApiError(`watch of ${what}: an event of a type that is not known`, { status: 0, reason: "" });
  }
}
