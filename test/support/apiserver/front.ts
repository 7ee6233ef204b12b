import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { Socket } from "node:net";
import { freePort, onFreePorts } from "../free-port.ts";
import type { Answer, Call, User } from "./call.ts";
import { apiPath } from "./kinds.ts";
import { qualified, Refusal } from "./refusal.ts";
import { refusalAnswer, type StandIn, type WatchOpener } from "./stand-in.ts";
import type { Attempt, Users } from "./users.ts";
import { isTrue, type Watch } from "./watch.ts";

/** A request that came over a socket. */
export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  /** "" where nobody was recognised. */
  readonly user: string;
  /** undefined while there is no answer. */
  status?: number;
}

export interface FrontOptions {
  readonly tls?: { readonly cert: string; readonly key: string; readonly ca: string };
  /** Without a token: true = `system:anonymous`, who may do nothing (403); false = 401. */
  readonly anonymous: boolean;
}

/** One refusal that was asked for in advance. */
interface Planned {
  readonly status: number;
  readonly retryAfter: number | undefined;
  readonly matches: (request: SeenRequest) => boolean;
  left: number;
}

const LOG_LIMIT = 5000;

/** The sockets before a stand-in: authentication, authorization, and everything that goes wrong on the way. */
export class Front {
  readonly log: SeenRequest[] = [];
  readonly #core: StandIn;
  readonly #users: Users;
  readonly #options: FrontOptions;
  readonly #sockets = new Set<Socket>();
  readonly #watches = new Map<Watch, ServerResponse>();
  #server: Server | undefined;
  #port = 0;
  #planned: Planned[] = [];
  #paused: (() => void)[] | undefined;

  constructor(core: StandIn, users: Users, options: FrontOptions) {
    this.#core = core;
    this.#users = users;
    this.#options = options;
  }

  get port(): number {
    return this.#port;
  }

  /** Watches that are open now. */
  get watches(): number {
    return this.#watches.size;
  }

  /** Listens, on the same port as before if there was one. */
  async listen(): Promise<void> {
    // Nobody else draws a port that `freePort` gave: it is still there after `down`.
    await onFreePorts(async () => this.#listenOn(this.#port === 0 ? await freePort() : this.#port));
  }

  async #listenOn(port: number): Promise<void> {
    const onRequest = (request: IncomingMessage, response: ServerResponse): void =>
      void this.#onRequest(request, response);
    const { tls } = this.#options;
    const server: Server =
      tls === undefined
        ? createServer(onRequest)
        : createTlsServer({ ...tls, requestCert: true, rejectUnauthorized: false }, onRequest);
    server.keepAliveTimeout = 60_000;
    server.on(tls === undefined ? "connection" : "secureConnection", (socket: Socket) => {
      this.#sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => this.#sockets.delete(socket));
    });
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(port, "127.0.0.1", () => resolve());
    });
    this.#server = server;
    this.#port = port;
  }

  /** Ends all connections at once and listens no more. */
  async down(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    for (const watch of this.#watches.keys()) watch.close();
    this.#watches.clear();
    if (server === undefined) return;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeAllConnections();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  /** @param orderly with the end of the stream, as at a time limit; otherwise the connection is cut */
  dropWatches(orderly: boolean): void {
    for (const [watch, response] of this.#watches) {
      watch.close();
      if (orderly) response.end();
      else response.destroy();
    }
    this.#watches.clear();
  }

  pause(): void {
    this.#paused ??= [];
  }

  resume(): void {
    const waiting = this.#paused ?? [];
    this.#paused = undefined;
    for (const go of waiting) go();
  }

  failNext(count: number, status: number, retryAfter?: number, matches: Planned["matches"] = () => true): void {
    this.#planned.push({ left: count, status, retryAfter, matches });
  }

  /** Asks clients to come anew: a connection ends after the answer it is waiting for, an idle one now. */
  goAway(): void {
    this.#server?.closeIdleConnections();
    for (const socket of this.#sockets) LEAVING.add(socket);
  }

  /** Answers without a socket, as what the log and the faults do not see. */
  answer(call: Omit<Call, "user">, token: string | undefined): Answer | WatchOpener {
    const user = this.#userOf(token);
    if (user === undefined) return refusalAnswer(new Refusal(401, "Unauthorized"));
    const refusal = this.#forbidden(user, call);
    return refusal === undefined ? this.#core.handle({ ...call, user }) : refusalAnswer(refusal);
  }

  async #onRequest(request: IncomingMessage, response: ServerResponse): Promise<void> {
    request.on("error", () => {});
    response.on("error", () => {});
    const { pathname, searchParams: query } = new URL(request.url ?? "/", "http://localhost");
    const token = /^Bearer (.+)$/i.exec(request.headers.authorization ?? "")?.[1];
    const user = this.#userOf(token, request.socket);
    const seen: SeenRequest = {
      method: request.method ?? "",
      path: pathname,
      query: Object.fromEntries(query),
      user: user?.name ?? "",
    };
    if (this.log.push(seen) > LOG_LIMIT) this.log.shift();
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of request) chunks.push(chunk as Buffer);
    } catch {
      return;
    }
    while (this.#paused !== undefined) await new Promise<void>((resolve) => this.#paused?.push(resolve));
    if (response.destroyed) return;
    const call: Call = {
      method: seen.method,
      path: pathname,
      query,
      contentType: (request.headers["content-type"] ?? "").split(";")[0]!.trim(),
      userAgent: request.headers["user-agent"] ?? "",
      body: Buffer.concat(chunks).toString(),
      user: user ?? { name: "", groups: [] },
    };
    const planned = this.#planned.find((plan) => plan.matches(seen));
    if (planned !== undefined) {
      planned.left--;
      this.#planned = this.#planned.filter((plan) => plan.left > 0);
      this.#reply(response, seen, plannedAnswer(planned));
    } else if (user === undefined) {
      this.#reply(response, seen, refusalAnswer(new Refusal(401, "Unauthorized")));
    } else {
      const refusal = this.#forbidden(user, call);
      const answer = refusal === undefined ? this.#handle(call) : refusalAnswer(refusal);
      if (typeof answer === "function") this.#open(response, seen, answer);
      else this.#reply(response, seen, answer);
    }
  }

  #handle(call: Call): Answer | WatchOpener {
    try {
      return this.#core.handle(call);
    } catch (error) {
      return refusalAnswer(
        new Refusal(500, `the stand-in failed: ${error instanceof Error ? error.stack : String(error)}`),
      );
    }
  }

  #reply(response: ServerResponse, seen: SeenRequest, { status, headers, body }: Answer): void {
    seen.status = status;
    const leaving = LEAVING.has(response.socket!) ? { connection: "close" } : {};
    response.writeHead(status, { "content-type": "application/json", ...headers, ...leaving });
    response.end(body);
  }

  #open(response: ServerResponse, seen: SeenRequest, open: WatchOpener): void {
    const held: string[] = [];
    const write = (line: string): void => {
      if (this.#paused === undefined) {
        response.write(line);
        return;
      }
      // The first line that has to wait asks to be told.
      if (held.push(line) === 1) {
        this.#paused.push(() => {
          for (const each of held.splice(0)) response.write(each);
        });
      }
    };
    const ended = (): void => {
      this.#watches.delete(watch);
      if (this.#paused === undefined) response.end();
      else this.#paused.push(() => response.end());
    };
    let watch: Watch;
    try {
      watch = open(write, ended);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.#reply(response, seen, refusalAnswer(error));
      return;
    }
    seen.status = 200;
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    this.#watches.set(watch, response);
    response.on("close", () => {
      watch.close();
      this.#watches.delete(watch);
    });
  }

  #userOf(token: string | undefined, socket?: Socket): User | undefined {
    if (token !== undefined) return this.#users.of(token);
    const subject = socket !== undefined && "authorized" in socket && socket.authorized ? subjectOf(socket) : undefined;
    if (subject !== undefined) return { name: subject, groups: ["system:authenticated"] };
    return this.#options.anonymous ? { name: "system:anonymous", groups: ["system:unauthenticated"] } : undefined;
  }

  #forbidden(user: User, { method, path, query }: Omit<Call, "user">): Refusal | undefined {
    const attempt = attemptOf(method, path, query);
    if (this.#users.allows(user, attempt)) return undefined;
    const who = `User "${user.name}" cannot ${attempt.verb}`;
    if ("url" in attempt) return new Refusal(403, `forbidden: ${who} path "${path}"`, { details: {} });
    const { group, resource, namespace, name } = attempt;
    const where = namespace === undefined ? "at the cluster scope" : `in the namespace "${namespace}"`;
    const plural = resource.split("/")[0]!;
    const what = `${qualified({ group, plural })}${name === undefined ? "" : ` "${name}"`}`;
    return new Refusal(403, `${what} is forbidden: ${who} resource "${resource}" in API group "${group}" ${where}`, {
      details: { ...(name === undefined ? {} : { name }), ...(group === "" ? {} : { group }), kind: plural },
    });
  }
}

const LEAVING = new WeakSet<Socket>();

function plannedAnswer({ status, retryAfter }: Planned): Answer {
  const messages: Record<number, string> = {
    429: "Too many requests, please try again later.",
    503: "apiserver is starting",
  };
  const details = retryAfter === undefined ? {} : { details: { retryAfterSeconds: retryAfter } };
  return refusalAnswer(new Refusal(status, messages[status] ?? `failed with ${status} as planned`, details));
}

/** The common name of a client's certificate. */
function subjectOf(socket: Socket): string | undefined {
  const { subject } = (socket as import("node:tls").TLSSocket).getPeerCertificate();
  const name = subject?.CN;
  return Array.isArray(name) ? name[0] : name;
}

/** What a request would do, in the words of RBAC. */
function attemptOf(method: string, path: string, query: URLSearchParams): Attempt {
  const wanted = apiPath(path);
  if (wanted === undefined) return { verb: method.toLowerCase(), url: path };
  const { group, plural, namespace, subresource } = wanted;
  const named = /(?:^|,)metadata\.name==?([^,=]+)(?:$|,)/.exec(query.get("fieldSelector") ?? "")?.[1];
  const name = wanted.name ?? (method === "GET" ? named : undefined);
  const reading = isTrue(query.get("watch")) ? "watch" : wanted.name === undefined ? "list" : "get";
  const one = wanted.name === undefined ? "deletecollection" : "delete";
  const verb =
    { GET: reading, POST: "create", PUT: "update", PATCH: "patch", DELETE: one }[method] ?? method.toLowerCase();
  return { verb, group, resource: subresource === undefined ? plural : `${plural}/${subresource}`, namespace, name };
}
