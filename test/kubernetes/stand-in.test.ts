import { Agent, request } from "undici";
import { afterEach, describe, expect, it } from "vitest";
import { type ApiServerOptions, startStandIn, type TestApiServer } from "../support/apiserver/index.ts";
import { SocketClient } from "../support/apiserver/send.ts";
import { poll } from "../support/poll.ts";

// What goes wrong on demand: only the stand-in can do it.

const PODS = "/api/v1/namespaces/default/pods";
const pod = (name: string, labels: Record<string, string> = {}) => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name, labels },
});

const opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of opened.splice(0).reverse()) await each.close();
});

async function started(options?: ApiServerOptions): Promise<[TestApiServer, SocketClient]> {
  const server = await startStandIn(options);
  const client = new SocketClient(server);
  opened.push(server, client);
  return [server, client];
}
const revision = ({ body }: { readonly body: unknown }) =>
  (body as { metadata: { resourceVersion: string } }).metadata.resourceVersion;

describe("forgotten versions", () => {
  it("end a watch by an ERROR event of code 410 in a 200", async () => {
    const [server, client] = await started();
    const from = revision(await client.send("GET", PODS));
    await server.put(pod("a"));
    server.expire();
    const watch = await client.watch(`${PODS}?watch=true&resourceVersion=${from}`);
    await poll("the end", () => watch.ended);
    expect([watch.status, watch.told()]).toEqual([200, ["ERROR Expired"]]);
    expect(watch.events[0]!.object).toMatchObject({ kind: "Status", code: 410 });
    // The current one is good.
    const now = revision(await client.send("GET", PODS));
    const good = await client.watch(`${PODS}?watch=true&resourceVersion=${now}`);
    await server.put(pod("b"));
    await poll("an event", () => good.events.length === 1);
    expect(good.told()).toEqual(["ADDED b"]);
  });

  it("refuse a watch by status 410", async () => {
    const [server, client] = await started();
    const from = revision(await client.send("GET", PODS));
    await server.put(pod("a"));
    server.expire("http");
    const { status, body } = await client.send("GET", `${PODS}?watch=true&resourceVersion=${from}`);
    expect([status, body]).toMatchObject([410, { kind: "Status", reason: "Expired" }]);
  });

  it("refuse the next page of a list", async () => {
    const [server, client] = await started();
    for (const name of ["a", "b"]) await server.put(pod(name));
    const first = await client.send("GET", `${PODS}?limit=1`);
    const token = (first.body as { metadata: { continue: string } }).metadata.continue;
    await server.put(pod("c"));
    server.expire();
    const { status, body } = await client.send("GET", `${PODS}?limit=1&continue=${token}`);
    expect([status, body]).toMatchObject([410, { reason: "Expired" }]);
  });

  it("are those beyond the bound of the history", async () => {
    const [server, client] = await started({ history: 5 });
    await server.put(pod("a"));
    const from = revision(await client.send("GET", PODS));
    for (let n = 0; n < 20; n++) await server.put(pod("a", { n: String(n) }));
    const watch = await client.watch(`${PODS}?watch=true&resourceVersion=${from}`);
    await poll("the end", () => watch.ended);
    expect(watch.told()).toEqual(["ERROR Expired"]);
  });
});

describe("watches", () => {
  it("get bookmarks at the interval that was asked for", async () => {
    const [server, client] = await started({ bookmarkInterval: 10 });
    const watch = await client.watch(`${PODS}?watch=true&allowWatchBookmarks=true`);
    await server.put(pod("a"));
    await poll("bookmarks", () => watch.events.length > 3);
    expect(new Set(watch.events.slice(1).map(({ type }) => type))).toEqual(new Set(["BOOKMARK"]));
    const without = await client.watch(`${PODS}?watch=true&timeoutSeconds=1`);
    await poll("the end", () => without.ended);
    expect(without.told()).toEqual(["ADDED a"]);
  });

  it("of older servers do not list first", async () => {
    const [, client] = await started({ streamingList: false });
    const query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    const watch = await client.watch(`${PODS}?watch=true&${query}`);
    await poll("the end", () => watch.ended);
    expect(watch.events).toMatchObject([{ type: "ERROR", object: { kind: "Status", code: 500 } }]);
  });

  it("can be cut or ended in order", async () => {
    const [server, client] = await started();
    const cut = await client.watch(`${PODS}?watch=true`);
    server.dropWatches();
    await poll("the cut", () => cut.ended);
    const ended = await client.watch(`${PODS}?watch=true`);
    server.dropWatches(true);
    await poll("the end", () => ended.ended);
    expect([cut.ended, ended.ended, server.watches]).toEqual(["cut", "in order", 0]);
  });
});

describe("outages", () => {
  it("paused, it accepts requests and answers none, and watches fall silent; nothing is lost", async () => {
    const [server, client] = await started();
    const watch = await client.watch(`${PODS}?watch=true`);
    server.pause();
    const answer = client.send("GET", PODS);
    await poll("the request to arrive", () => server.log.length === 2);
    await server.put(pod("a"));
    expect([server.log[1]!.status, watch.events]).toEqual([undefined, []]);
    server.resume();
    expect((await answer).status).toBe(200);
    await poll("the event", () => watch.events.length === 1);
    expect(watch.told()).toEqual(["ADDED a"]);
  });

  it("down, it refuses connections; up again, it has its data and no history, at the same address", async () => {
    const [server, client] = await started();
    await server.put(pod("a"));
    const from = revision(await client.send("GET", PODS));
    const watch = await client.watch(`${PODS}?watch=true&resourceVersion=${from}`);
    await server.down();
    await poll("the cut", () => watch.ended);
    await expect(client.send("GET", PODS)).rejects.toThrow(/ECONNREFUSED/);
    await server.put(pod("b"));
    await server.up();
    const { body } = await client.send("GET", PODS);
    expect((body as { items: unknown[] }).items).toHaveLength(2);
    const again = await client.watch(`${PODS}?watch=true&resourceVersion=${from}`);
    await poll("the end", () => again.ended);
    expect(again.told()).toEqual(["ERROR Expired"]);
  });

  it("refuses as often as planned, with Retry-After", async () => {
    const [server, client] = await started();
    server.failNext(2, 429, 3, ({ method }) => method === "GET");
    const first = await client.send("GET", PODS);
    expect([first.status, first.headers["retry-after"], first.body]).toMatchObject([
      429,
      "3",
      { reason: "TooManyRequests" },
    ]);
    expect((await client.send("POST", PODS, { ...pod("a"), spec: { containers: [{ name: "c" }] } })).status).toBe(201);
    expect((await client.send("GET", PODS)).status).toBe(429);
    expect((await client.send("GET", PODS)).status).toBe(200);
    server.failNext(1, 503);
    expect((await client.send("GET", PODS)).status).toBe(503);
  });

  it("asks clients for new connections", async () => {
    const [server, client] = await started();
    const watch = await client.watch(`${PODS}?watch=true`);
    const agent = new Agent({ connections: 1 });
    opened.push({ close: () => agent.destroy() });
    const headers = { authorization: `Bearer ${server.token}` };
    const get = async () => {
      const answer = await request(server.url + PODS, { dispatcher: agent, headers });
      await answer.body.dump();
      return answer.headers["connection"];
    };
    server.pause();
    const pending = get();
    await poll("the request to arrive", () => server.log.length === 2);
    server.goAway();
    server.resume();
    expect(await pending).toBe("close");
    expect(await get()).not.toBe("close");
    expect(watch.ended).toBeUndefined();
  });
});

describe("who asks", () => {
  it("without a token is system:anonymous where that is allowed: 403", async () => {
    const [, client] = await started({ anonymous: true });
    const { status, body } = await client.send("GET", PODS, undefined, { token: null });
    expect([status, body]).toMatchObject([
      403,
      { reason: "Forbidden", message: expect.stringContaining("system:anonymous") },
    ]);
    // A token that nobody has is no reason to become anonymous.
    expect((await client.send("GET", PODS, undefined, { token: "wrong" })).status).toBe(401);
  });

  it("over TLS may show a certificate instead", async () => {
    const rules = [{ verbs: ["list"], apiGroups: [""], resources: ["pods"] }];
    const [server] = await started({ tls: true, users: { unused: { name: "prometheus", rules } } });
    const agent = new Agent({ connect: { ca: server.ca!, ...server.clientCertificate } });
    opened.push({ close: () => agent.destroy() });
    const answer = await request(server.url + PODS, { dispatcher: agent });
    expect([answer.statusCode, server.log.at(-1)?.user]).toEqual([200, "prometheus"]);
    await answer.body.dump();
  });

  it("can be added and removed while it runs", async () => {
    const [server, client] = await started();
    const status = async () => (await client.send("GET", PODS, undefined, { token: "new" })).status;
    expect(await status()).toBe(401);
    await server.users.addUser("new", { name: "new" });
    expect(await status()).toBe(403);
    const rules = [{ verbs: ["*"], apiGroups: ["*"], resources: ["*"], namespace: "default" }];
    await server.users.addUser("new", { name: "new", rules });
    expect(await status()).toBe(200);
    await server.users.removeUser("new");
    expect(await status()).toBe(401);
  });
});

describe("the log", () => {
  it("holds who asked what, and the last 5,000 of that", async () => {
    const [server, client] = await started();
    await client.send("GET", `${PODS}?limit=7`);
    expect(server.log).toEqual([{ method: "GET", path: PODS, query: { limit: "7" }, user: "admin", status: 200 }]);
    const send = async () => {
      for (let n = 0; n < 502; n++) await client.send("GET", "/readyz");
    };
    await Promise.all(Array.from({ length: 10 }, send));
    expect(server.log).toHaveLength(5000);
    // What the test itself asks is not what the program asked.
    const before = server.log.at(-1);
    await server.request("GET", PODS);
    expect(server.log.at(-1)).toBe(before);
  });

  it("creation times come from the clock of the test", async () => {
    let now = Date.UTC(2030, 0, 1);
    const [server] = await started({ now: () => now });
    await server.put(pod("a"));
    now += 1000;
    await server.put(pod("b"));
    const times = await Promise.all(["a", "b"].map((name) => server.get(`${PODS}/${name}`)));
    expect(times.map((each) => each!.metadata.creationTimestamp)).toEqual([
      "2030-01-01T00:00:00Z",
      "2030-01-01T00:00:01Z",
    ]);
  });
});
