import { clientAuthority } from "../certificates.ts";
import { Admin, type ApiAnswer, type RequestOptions } from "./admin.ts";
import type { Call } from "./call.ts";
import { Front } from "./front.ts";
import type { ApiServerOptions, TestApiServer } from "./server.ts";
import { StandIn } from "./stand-in.ts";
import { Users } from "./users.ts";

const ADMIN = "admin-token";

/** Starts the stand-in on a free port of the loopback interface. */
export async function startStandIn(options: ApiServerOptions = {}): Promise<TestApiServer> {
  const users = new Users();
  users.set(ADMIN, { name: "admin", groups: ["system:masters"] });
  for (const [token, user] of Object.entries(options.users ?? {})) users.set(token, user);
  const core = new StandIn(
    {
      bookmarkInterval: options.bookmarkInterval ?? 60_000,
      streamingList: options.streamingList ?? true,
      history: options.history ?? 10_000,
      now: options.now ?? Date.now,
    },
    users,
  );
  const authority = options.tls ? await clientAuthority() : undefined;
  const tls = authority && { ...authority.server, ca: authority.ca };
  const front = new Front(core, users, { anonymous: options.anonymous ?? false, ...(tls && { tls }) });
  await front.listen();
  const request = async (
    method: string,
    path: string,
    body?: unknown,
    given: RequestOptions = {},
  ): Promise<ApiAnswer> => {
    const { pathname, searchParams } = new URL(path, "http://localhost");
    const call: Omit<Call, "user"> = {
      method,
      path: pathname,
      query: searchParams,
      contentType: given.contentType ?? "application/json",
      userAgent: "test",
      body: body === undefined ? "" : typeof body === "string" ? body : JSON.stringify(body),
    };
    const answer = front.answer(call, given.token === null ? undefined : (given.token ?? ADMIN));
    if (typeof answer === "function") throw new Error("a watch needs a socket");
    const { status, headers = {}, body: text } = answer;
    return { status, headers, body: headers["content-type"] === undefined ? JSON.parse(text) : text };
  };
  const admin = new Admin(request);
  const up = async (): Promise<void> => {
    core.storage.compact();
    await front.listen();
  };
  return {
    url: `${tls === undefined ? "http" : "https"}://127.0.0.1:${front.port}`,
    ...(authority && { ca: authority.ca, clientCertificate: authority.client }),
    token: ADMIN,
    real: false,
    log: front.log,
    get watches() {
      return front.watches;
    },
    request,
    get: (path) => admin.get(path),
    put: (object) => admin.put(object),
    delete: (target) => admin.delete(target),
    installCrds: (folder) => admin.installCrds(folder),
    users: {
      addUser: async (token, user) => users.set(token, user),
      removeUser: async (token) => users.delete(token),
    },
    expire(watches = "event") {
      core.storage.compact();
      core.gone = watches;
    },
    dropWatches: (orderly = false) => front.dropWatches(orderly),
    pause: () => front.pause(),
    resume: () => front.resume(),
    down: () => front.down(),
    up,
    async restart() {
      await front.down();
      await up();
    },
    failNext: (count, status, retryAfter, matches) => front.failNext(count, status, retryAfter, matches),
    goAway: () => front.goAway(),
    async close() {
      front.resume();
      await front.down();
    },
  };
}
