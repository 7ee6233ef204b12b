import { type Answer, type Call, json, selection, shown } from "./call.ts";
import { resourceOf } from "./kind.ts";
import { apiPath, Kinds, NoSuchPath } from "./kinds.ts";
import { list } from "./list.ts";
import { textOf } from "./object.ts";
import { notFound, Refusal } from "./refusal.ts";
import { review } from "./reviews.ts";
import { Storage } from "./storage.ts";
import type { Users } from "./users.ts";
import { isTrue, Watch, type WatchTuning } from "./watch.ts";
import { Writes } from "./writes.ts";

export interface CoreOptions extends WatchTuning {
  /** Wall clock, milliseconds. */
  readonly now: () => number;
  /** Changes that a watch may resume from. */
  readonly history: number;
}

/** How a watch is opened: the receiver of its lines, and of its end. */
export type WatchOpener = (write: (line: string) => void, ended: () => void) => Watch;

/** Answers requests from its storage; knows nothing of sockets. */
export class StandIn {
  readonly kinds = new Kinds();
  readonly storage: Storage;
  readonly #writes: Writes;
  readonly #users: Users;
  readonly #options: CoreOptions;
  /** How a watch from a forgotten version is refused. */
  gone: "event" | "http" = "event";

  constructor(options: CoreOptions, users: Users) {
    this.#options = options;
    this.#users = users;
    this.storage = new Storage(options.history);
    this.#writes = new Writes(this.storage, this.kinds, options.now);
    for (const name of ["default", "kube-system", "kube-public", "kube-node-lease"]) {
      this.storage.write("/namespaces", {
        apiVersion: "v1",
        kind: "Namespace",
        metadata: { name, uid: `00000000-0000-4000-8000-${name}`, creationTimestamp: "2026-01-01T00:00:00Z" },
        spec: { finalizers: ["kubernetes"] },
        status: { phase: "Active" },
      });
    }
  }

  /** Answers, or says how to open the watch that was asked for. */
  handle(call: Call): Answer | WatchOpener {
    try {
      return this.#route(call);
    } catch (error) {
      if (error instanceof Refusal) return refusalAnswer(error);
      if (error instanceof NoSuchPath) {
        return { status: 404, headers: { "content-type": "text/plain; charset=utf-8" }, body: "404 page not found\n" };
      }
      throw error;
    }
  }

  #route(call: Call): Answer | WatchOpener {
    const { path, method, query } = call;
    if (["/healthz", "/livez", "/readyz"].includes(path)) {
      return { status: 200, headers: { "content-type": "text/plain; charset=utf-8" }, body: "ok" };
    }
    if (path === "/version")
      return json(200, { major: "1", minor: "36", gitVersion: "v1.36.3", platform: "linux/amd64" });
    const reviewed = review(this.#users, call);
    if (reviewed !== undefined) return reviewed;
    const wanted = apiPath(path);
    if (wanted === undefined) {
      const document = this.kinds.discovery(path.replace(/\/$/, ""));
      if (document === undefined) throw new NoSuchPath();
      return json(200, document);
    }
    const target = this.kinds.target(wanted);
    if (target.name === undefined || isTrue(query.get("watch"))) {
      if (method === "GET" && isTrue(query.get("watch"))) {
        const gone = this.gone;
        return (write, ended) => new Watch(this.storage, target, query, this.#options, write, ended, gone);
      }
      if (method === "GET") return list(this.storage, target, query);
      if (method === "POST") return this.#writes.create(target, call);
      if (method === "DELETE") return this.#writes.deleteAll(target, call, selection(target, query));
    } else {
      if (method === "GET") {
        const object = this.storage.get(resourceOf(target.kind), target.namespace, target.name);
        if (object === undefined) throw notFound(target.kind, target.name);
        return json(200, textOf(shown(target, object)));
      }
      if (method === "PUT") return this.#writes.update(target, call);
      if (method === "PATCH") return this.#writes.patch(target, call);
      if (method === "DELETE" && target.subresource === undefined) return this.#writes.delete(target, call);
    }
    throw new Refusal(405, "the server does not allow this method on the requested resource");
  }
}

export function refusalAnswer(refusal: Refusal, headers?: Readonly<Record<string, string>>): Answer {
  const retry = refusal.details?.["retryAfterSeconds"];
  const all = { ...headers, ...(retry === undefined ? {} : { "retry-after": String(retry) }) };
  return json(refusal.status, refusal.body(), all);
}
