import type { TlsPair } from "../../../src/base/grpc/tls.ts";
import type { ApiAnswer, RequestOptions } from "./admin.ts";
import type { SeenRequest } from "./front.ts";
import type { ApiObject } from "./object.ts";
import type { TestUser } from "./users.ts";

export interface ApiServerOptions {
  /** HTTPS with certificates of its own; a real server always does. */
  readonly tls?: boolean;
  /** Of a request without token: false (default) = 401; true = it is `system:anonymous`, who may do nothing: 403. */
  readonly anonymous?: boolean;
  /** By token. */
  readonly users?: Readonly<Record<string, TestUser>>;
  /** Milliseconds between bookmarks; default 60,000. */
  readonly bookmarkInterval?: number;
  /** Whether `sendInitialEvents` works; default true. Otherwise an ERROR event of code 500, as from older servers. */
  readonly streamingList?: boolean;
  /** Changes that a watch may resume from; default 10,000. */
  readonly history?: number;
  /** Wall clock for creation times, milliseconds. */
  readonly now?: () => number;
}

/** An API server for tests. What only the stand-in can do throws on a real one: ask `real` first. */
export interface TestApiServer {
  /** `http://127.0.0.1:port` or https; without slash at the end. */
  readonly url: string;
  /** PEM, of an https server. */
  readonly ca?: string;
  /** Of an https server: a certificate by which the user `prometheus` is recognised. */
  readonly clientCertificate?: TlsPair;
  /** Of an admin. */
  readonly token: string;
  readonly real: boolean;
  /** The last 5,000 requests over sockets; those of `request`, `put` and so on are not among them. Stand-in only. */
  readonly log: SeenRequest[];
  /** Watches that are open. Stand-in only. */
  readonly watches: number;
  /**
   * One request; as the admin unless `token` says otherwise. The stand-in answers it also while it is paused or down.
   * @param path with the query
   */
  request(method: string, path: string, body?: unknown, options?: RequestOptions): Promise<ApiAnswer>;
  /** The object at a path; undefined = there is none. */
  get(path: string): Promise<ApiObject | undefined>;
  /** Makes or replaces an object, its status included; makes its namespace. Returns it as it is then. */
  put(object: object): Promise<ApiObject>;
  /** Deletes an object (apiVersion, kind and metadata are enough), or what is at a path. */
  delete(target: string | object): Promise<void>;
  /** Installs what is in the YAML files of a folder and waits until it is served. */
  installCrds(folder: string): Promise<void>;
  readonly users: {
    /** Somebody new, or other rights of somebody. A real server restarts to learn the token. */
    addUser(token: string, user: TestUser): Promise<void>;
    removeUser(token: string): Promise<void>;
  };
  /**
   * Forgets its history: watches from earlier versions and pages of earlier lists are answered with 410. Stand-in only.
   * @param watches by an ERROR event in a 200 (default), or by the status
   */
  expire(watches?: "event" | "http"): void;
  /** Ends open watches: cuts the connections, or in an orderly way as at a time limit. Stand-in only. */
  dropWatches(orderly?: boolean): void;
  /** Accepts requests and answers none; open watches fall silent. */
  pause(): void;
  resume(): void;
  /** Refuses connections and cuts those that are open. */
  down(): Promise<void>;
  /** Listens again, with the same data; older versions cannot be resumed from, as the watch cache is empty. */
  up(): Promise<void>;
  /** `down` and `up`. */
  restart(): Promise<void>;
  /**
   * Refuses the next requests that match. Stand-in only.
   * @param retryAfter seconds
   */
  failNext(count: number, status: number, retryAfter?: number, matches?: (request: SeenRequest) => boolean): void;
  /** Has every client open new connections, as a GOAWAY does. Stand-in only. */
  goAway(): void;
  close(): Promise<void>;
}
