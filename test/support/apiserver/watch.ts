import { selection, shown, type Target } from "./call.ts";
import { apiVersionOf, resourceOf } from "./kind.ts";
import { readRevision } from "./list.ts";
import { type ApiObject, type Json, textOf } from "./object.ts";
import { expired, invalid, Refusal } from "./refusal.ts";
import type { Predicate } from "./selector.ts";
import type { Change, Storage } from "./storage.ts";

export interface WatchTuning {
  /** Milliseconds between bookmarks of a watch that asked for them. */
  readonly bookmarkInterval: number;
  /** false = `sendInitialEvents` is answered with an ERROR event of code 500. */
  readonly streamingList: boolean;
}

/** A watch gets its last bookmark so many milliseconds before its end; one that is shorter gets none. */
const BOOKMARK_BEFORE_END = 2000;

/** One open watch: writes a JSON text per line. */
export class Watch {
  readonly #storage: Storage;
  readonly #target: Target;
  readonly #resource: string;
  readonly #bookmarks: boolean;
  readonly #selected: Predicate;
  readonly #write: (line: string) => void;
  readonly #ended: () => void;
  readonly #timers: NodeJS.Timeout[] = [];
  #stop: () => void = () => {};
  #open = true;
  /** Revision that it began at: bookmarks tell of newer ones only. */
  #since = 0;

  /**
   * @param write gets each line
   * @param ended called once when the server ends the watch
   * @throws Refusal 400, 422; and 410 where the version is forgotten and `gone` is "http"
   */
  constructor(
    storage: Storage,
    target: Target,
    query: URLSearchParams,
    tuning: WatchTuning,
    write: (line: string) => void,
    ended: () => void,
    gone: "event" | "http",
  ) {
    this.#storage = storage;
    this.#target = target;
    this.#resource = resourceOf(target.kind);
    this.#bookmarks = isTrue(query.get("allowWatchBookmarks"));
    this.#selected = selection(target, query);
    this.#write = write;
    this.#ended = ended;
    const from = readRevision(query.get("resourceVersion") ?? "");
    if (query.has("sendInitialEvents")) this.#checkInitialEvents(query);
    const initial = isTrue(query.get("sendInitialEvents"));
    const missed = from === 0 || initial ? [] : storage.since(this.#resource, from);
    if (missed === undefined && gone === "http") throw tooOld(from, storage.compacted);
    // What is written before the response has its head would be lost.
    queueMicrotask(() => this.#begin(query, tuning, from, initial, missed));
  }

  /** Ends it from the outside. */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    for (const timer of this.#timers) clearTimeout(timer);
    this.#stop();
  }

  #begin(
    query: URLSearchParams,
    tuning: WatchTuning,
    from: number,
    initial: boolean,
    missed: readonly Change[] | undefined,
  ): void {
    if (!this.#open) return;
    if (initial && !tuning.streamingList) {
      this.#fail(new Refusal(500, "streaming lists are not supported"));
      return;
    }
    if (missed === undefined) {
      this.#fail(tooOld(from, this.#storage.compacted));
      return;
    }
    if (initial || from === 0) {
      for (const object of this.#storage.all(this.#resource, this.#target.namespace)) {
        if (this.#selected(object)) this.#send("ADDED", object);
      }
      if (initial) this.#writeBookmark({ "k8s.io/initial-events-end": "true" });
    } else {
      // Changes may have come between the constructor and now.
      for (const change of this.#storage.since(this.#resource, from) ?? missed) this.#onChange(change);
    }
    this.#since = Math.max(from, this.#storage.newest(this.#resource));
    this.#stop = this.#storage.watch((change) => this.#onChange(change));
    if (this.#bookmarks) {
      const every = setInterval(() => this.#bookmark(), tuning.bookmarkInterval);
      this.#timers.push(every);
    }
    const seconds = Number(query.get("timeoutSeconds") ?? 0);
    if (seconds > 0) {
      this.#timers.push(setTimeout(() => this.#end(), seconds * 1000));
      const last = seconds * 1000 - BOOKMARK_BEFORE_END;
      if (this.#bookmarks && last >= 0) this.#timers.push(setTimeout(() => this.#bookmark(), last));
    }
    for (const timer of this.#timers) timer.unref();
  }

  #onChange(change: Change): void {
    if (change.resource !== this.#resource) return;
    const { namespace } = this.#target;
    if (namespace !== undefined && change.object.metadata.namespace !== namespace) return;
    const before = change.previous !== undefined && this.#selected(change.previous);
    const after = change.type !== "DELETED" && this.#selected(change.object);
    if (after) this.#send(before ? "MODIFIED" : "ADDED", change.object);
    else if (before) this.#send("DELETED", change.type === "DELETED" ? change.object : leaving(change));
  }

  #send(type: string, object: ApiObject): void {
    this.#write(`{"type":"${type}","object":${textOf(shown(this.#target, object))}}\n`);
  }

  /** As long as nothing of the kind has changed anywhere there is nothing to tell. */
  #bookmark(): void {
    if (this.#storage.newest(this.#resource) > this.#since) this.#writeBookmark();
  }

  #writeBookmark(annotations?: Json): void {
    const { kind, version } = this.#target;
    const metadata = {
      resourceVersion: String(this.#storage.revision),
      creationTimestamp: null,
      ...(annotations === undefined ? {} : { annotations }),
    };
    const object = { kind: kind.kind, apiVersion: apiVersionOf(kind.group, version.name), metadata };
    this.#write(`${JSON.stringify({ type: "BOOKMARK", object })}\n`);
  }

  #fail(refusal: Refusal): void {
    this.#write(`${JSON.stringify({ type: "ERROR", object: refusal.body() })}\n`);
    this.#end();
  }

  #end(): void {
    this.close();
    this.#ended();
  }

  #checkInitialEvents(query: URLSearchParams): void {
    const named = { group: "meta.k8s.io", plural: "listoptions", kind: "ListOptions" };
    const forbid = (field: string, message: string): Refusal =>
      invalid(named, "", [{ reason: "FieldValueForbidden", field, message: `Forbidden: ${message}` }]);
    if (query.get("resourceVersionMatch") !== "NotOlderThan") {
      throw forbid("resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
    }
    if (isTrue(query.get("sendInitialEvents")) && !this.#bookmarks) {
      throw forbid("allowWatchBookmarks", "sendInitialEvents requires allowWatchBookmarks");
    }
  }
}

/** What a selector no longer lets through leaves with its old face and the version of the change. */
function leaving({ object, previous }: Change): ApiObject {
  const { resourceVersion } = object.metadata;
  return { ...previous!, metadata: { ...previous!.metadata, resourceVersion: resourceVersion! } };
}

function tooOld(wanted: number, compacted: number): Refusal {
  return expired(`too old resource version: ${wanted} (${compacted})`);
}

export function isTrue(text: string | null): boolean {
  return text === "true" || text === "1";
}
