import { type ClientRequest, request as httpRequest, type IncomingMessage } from "node:http";
import { networkInterfaces } from "node:os";
import { afterEach, describe, expect, it } from "vitest";
import { ask } from "../../../test/support/client.ts";
import { peersOf } from "../../../test/support/feed/peers.ts";
import { poll } from "../../../test/support/poll.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { EventRing } from "../../base/telemetry/event-ring.ts";
import { type Authorize, loopbackOnly } from "./access.ts";
import type { PeersFeed } from "./feed/peers.ts";
import type { FeedSource } from "./page/source.ts";
import { type AdminServer, type Profiler, startAdmin } from "./server.ts";
import type { AdminViews } from "./views.ts";

const VIEWS: AdminViews = {
  metrics: (format) => (format === "text" ? "things_total 7\n" : "# EOF\n"),
  ready: () => true,
  unready: () => undefined,
  endpoints: () => ({ endpoints: [{ id: "default/a" }] }),
  decisions: (count) => [{ sequence: 2, asked: count }],
  decision: (id) => (id === "2" || id === "r/two" ? { sequence: 2 } : undefined),
  keptDecisions: () => ({ count: 2, most: 4096, oldest: "2026-01-01T00:00:00.000Z" }),
  requestIds: (start) => (start === "0aa11bb2" ? ["0aa11bb2-one", "0aa11bb2-two"] : ["0aa11bb2-one"]),
  fullDecision: (id) => (id === "2" ? '{"full":{"now":1}}' : id === "1" ? null : undefined),
  fullDecisions: (since) => [1, 2].filter((sequence) => sequence > since).map((sequence) => `{"sequence":${sequence}}`),
  pluginStates: () => ({ timestamp: "now", plugins: { p: { name: "p", type: "t", state: 7 } } }),
  models: () => ({ models: [{ model: "m", bytesPerToken: 5.5, answers: 3 }], otherBytesPerToken: 4 }),
  limits: () => undefined,
  hasLimits: false,
  peers: () => undefined,
  sharesWithPeers: false,
  queues: () => ({ requests: 3, bands: [{ priority: 0 }] }),
};

const unasked = (): never => {
  throw new Error("a stream of events needs none of this");
};

/** A process whose page learns of events alone. */
const FEED: FeedSource = {
  topics: ["events"],
  instance: "7-1",
  events: new EventRing(() => 0),
  hello: () => ({
    ...{ kind: "gateway", name: "pool", version: "0", startedAt: 0, at: 0, phase: "serving", unready: null },
    rings: { seconds: 900, events: 512, decisions: 0, bytes: 0 },
  }),
  lastSecond: () => 0,
  oldestSecond: () => 0,
  ...{ overview: unasked, tick: unasked, queues: unasked, config: unasked, failed: unasked },
};

let admin: AdminServer | undefined;
let clock = new VirtualClock();
let requests: ClientRequest[] = [];

afterEach(async () => {
  for (const request of requests) request.destroy();
  await admin?.close();
  admin = undefined;
  requests = [];
});

async function start(
  authorize: Authorize,
  more: { host?: string; views?: Partial<AdminViews>; profiler?: Profiler } = {},
): Promise<string> {
  clock = new VirtualClock();
  admin = await startAdmin({
    host: more.host ?? "127.0.0.1",
    port: 0,
    clock,
    views: { ...VIEWS, ...more.views },
    authorize,
    profiler: more.profiler,
    feed: FEED,
  });
  return `http://127.0.0.1:${admin.port}`;
}

/** The rule as it meets a peer with another address. */
const seenFrom =
  (peer: string, open: boolean): Authorize =>
  (request) =>
    loopbackOnly(open)({ ...request, peer });

/** Begins to read the stream of the page: the answer, and what has arrived of it. */
function follow(url: string): Promise<{ answer: IncomingMessage; text(): string; ended(): boolean }> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(`${url}/debug/feed/stream?topics=events`, { agent: false }, (answer) => {
      let text = "";
      let ended = false;
      answer.on("data", (chunk: Buffer) => {
        text += chunk.toString();
      });
      answer.on("error", () => {});
      answer.on("close", () => {
        ended = true;
      });
      resolve({ answer, text: () => text, ended: () => ended });
    });
    request.on("error", reject);
    requests.push(request);
    request.end();
  });
}

const DEBUG = [
  ...["/debug/endpoints", "/debug/decisions", "/debug/decisions/2"],
  ...["/debug/plugins/state", "/debug/models", "/debug/queues"],
];
const GUARDED = [
  "/",
  "/debug/feed/stream",
  ...DEBUG,
  "/debug/decisions/2?full=1",
  "/debug/decisions?full=1",
  "/debug/peers",
  "/elsewhere",
];

describe("the admin port", () => {
  it("answers a peer elsewhere with metrics and health, and refuses the rest with what to do about it", async () => {
    const url = await start(seenFrom("192.0.2.7", false));
    for (const [path, text] of [
      ["/metrics", "things_total 7\n"],
      ["/healthz", "ok\n"],
      ["/ready", "ready\n"],
    ] as const)
      expect(await ask(`${url}${path}`)).toMatchObject({ status: 200, text });
    for (const path of GUARDED) {
      const answer = await ask(`${url}${path}`);
      expect([path, answer.status]).toEqual([path, 403]);
      expect(answer.text).toMatch(/only clients on loopback.*--debug-open/);
    }
  });

  it("refuses what the page of another site asks for by itself, but not a link there, nor its own page", async () => {
    const url = await start(loopbackOnly(false));
    const status = async (path: string, site: string, mode: string): Promise<number> =>
      (await ask(`${url}${path}`, { headers: { "sec-fetch-site": site, "sec-fetch-mode": mode } })).status;
    for (const path of GUARDED) {
      expect([path, await status(path, "cross-site", "cors")]).toEqual([path, 403]);
      expect([path, await status(path, "cross-site", "no-cors")]).toEqual([path, 403]);
    }
    expect(await status("/metrics", "cross-site", "cors")).toBe(200);
    expect(await status("/", "cross-site", "navigate")).toBe(200);
    expect(await status("/debug/endpoints", "same-origin", "cors")).toBe(200);
  });

  it("answers a peer elsewhere everything when opened", async () => {
    const url = await start(seenFrom("192.0.2.7", true));
    for (const path of ["/metrics", "/healthz", "/ready", "/", "/debug/endpoints", "/debug/decisions"])
      expect([path, (await ask(`${url}${path}`)).status]).toEqual([path, 200]);
    expect((await follow(url)).answer.statusCode).toBe(200);
  });

  it("knows this machine by the address of the socket", async () => {
    const url = await start(loopbackOnly(false));
    expect((await ask(`${url}/debug/endpoints`)).status).toBe(200);
    expect((await follow(url)).answer.statusCode).toBe(200);
    // A header cannot make a peer out of someone else.
    const forged = await ask(`${url}/debug/endpoints`, { headers: { "x-forwarded-for": "192.0.2.7" } });
    expect(forged.status).toBe(200);
  });

  const outer = Object.values(networkInterfaces())
    .flat()
    .find((one) => one !== undefined && !one.internal && one.family === "IPv4")?.address;

  // A machine without another address has nothing to show.
  if (outer !== undefined)
    it("refuses a connection that came by another address of the machine", async () => {
      await start(loopbackOnly(false), { host: "0.0.0.0" });
      const url = `http://${outer}:${admin!.port}`;
      expect((await ask(`${url}/metrics`)).status).toBe(200);
      const headers = { "x-forwarded-for": "127.0.0.1" };
      expect((await ask(`${url}/debug/endpoints`, { headers })).status).toBe(403);
    });

  it("asks the rule with what a check of tokens needs, and answers its verdict", async () => {
    const asked: unknown[] = [];
    const url = await start(async (request) => {
      asked.push(request);
      return { status: 401, message: "a token is needed" };
    });
    const answer = await ask(`${url}/metrics`, {
      headers: { authorization: "Bearer abc" },
    });
    expect(answer).toMatchObject({ status: 401, text: "a token is needed\n" });
    expect(answer.headers["www-authenticate"]).toBe("Bearer");
    const host = expect.stringMatching(/^127\.0\.0\.1:\d+$/);
    expect(asked).toEqual([{ peer: "127.0.0.1", host, method: "GET", path: "/metrics", authorization: "Bearer abc" }]);
  });

  it("serves the views, each with its type", async () => {
    const url = await start(loopbackOnly(false));
    const metrics = await ask(`${url}/metrics`);
    expect(metrics.headers["content-type"]).toBe("text/plain; version=0.0.4; charset=utf-8");
    const page = await ask(`${url}/`);
    expect(page.headers["content-type"]).toMatch(/^text\/html/);
    expect(page.text).toMatch(/<!doctype html>/i);
    expect(JSON.parse((await ask(`${url}/debug/endpoints`)).text)).toEqual({ endpoints: [{ id: "default/a" }] });
    expect(JSON.parse((await ask(`${url}/debug/decisions`)).text)).toEqual([{ sequence: 2, asked: 100 }]);
    const full = await ask(`${url}/debug/decisions?full=1`);
    expect(full).toMatchObject({ status: 200, text: '{"sequence":1}\n{"sequence":2}\n' });
    expect(full.headers["content-type"]).toBe("application/x-ndjson");
    expect(await ask(`${url}/debug/decisions?full=1&since=1`)).toMatchObject({ text: '{"sequence":2}\n' });
    expect(await ask(`${url}/debug/decisions?full=1&since=2`)).toMatchObject({ status: 200, text: "" });
    expect(await ask(`${url}/debug/decisions?full=1&since=-1`)).toMatchObject({
      ...{ status: 400, text: '{"error":"`since` must be a decision number (an integer, 0 or more)"}' },
    });
  });

  it("writes OpenMetrics for those who prefer it", async () => {
    const url = await start(loopbackOnly(false));
    const accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
    const answer = await ask(`${url}/metrics`, { headers: { accept } });
    expect(answer.headers["content-type"]).toBe("application/openmetrics-text; version=1.0.0; charset=utf-8");
    expect(answer.text).toBe("# EOF\n");
  });

  it("has profiles only where a profiler was given, under the rule of the other debug pages", async () => {
    const without = await start(loopbackOnly(false));
    expect((await ask(`${without}/debug/pprof/profile?seconds=1`)).status).toBe(404);
    await admin?.close();
    const profiler = { take: async () => "unavailable" as const };
    const url = await start(loopbackOnly(false), { profiler });
    expect((await ask(`${url}/debug/pprof/profile?seconds=1`)).status).toBe(501);
    await admin?.close();
    const elsewhere = await start(seenFrom("192.0.2.7", false), { profiler });
    expect((await ask(`${elsewhere}/debug/pprof/profile?seconds=1`)).status).toBe(403);
  });

  it("shows the queues of flow control, or says that it is off", async () => {
    const url = await start(loopbackOnly(false));
    const shown = await ask(`${url}/debug/queues`);
    expect(shown).toMatchObject({ status: 200, text: '{"requests":3,"bands":[{"priority":0}]}' });
    expect(shown.headers["content-type"]).toMatch(/^application\/json/);
    expect((await ask(`${url}/debug/queues`, { method: "POST" })).status).toBe(405);
    await admin?.close();
    const off = await ask(`${await start(loopbackOnly(false), { views: { queues: () => undefined } })}/debug/queues`);
    expect([off.status, JSON.parse(off.text).error]).toEqual([
      404,
      expect.stringMatching(/^flow control is off.*gate flowControl/),
    ]);
  });

  it("says that it is not ready with 503, while it is alive", async () => {
    const url = await start(loopbackOnly(false), { views: { ready: () => false } });
    expect(await ask(`${url}/ready`)).toMatchObject({ status: 503, text: "not ready\n" });
    expect((await ask(`${url}/healthz`)).status).toBe(200);
  });

  it("finds a decision by number or by request id, or says which decisions it keeps and how to find an id", async () => {
    const url = await start(loopbackOnly(false));
    for (const id of ["2", "r%2Ftwo"]) {
      const found = await ask(`${url}/debug/decisions/${id}`);
      expect([found.status, JSON.parse(found.text)]).toEqual([200, { sequence: 2 }]);
    }
    const missing = await ask(`${url}/debug/decisions/99`);
    expect(missing.status).toBe(404);
    expect(JSON.parse(missing.text).error).toBe(
      "no decision 99. The process has 2 decisions, the oldest from 2026-01-01T00:00:00.000Z; it keeps at most the newest 4,096 decisions, and no decision for a request that it could not read.\nGive the x-request-id of the request, its first eight characters, or the number of the decision. sluice explain --last shows the newest decision, and /debug/decisions of the admin port lists the newest 100",
    );
  });

  it("returns the full record of a decision, or says how to get one", async () => {
    const url = await start(loopbackOnly(false));
    const found = await ask(`${url}/debug/decisions/2?full=1`);
    expect([found.status, found.headers["content-type"], found.text]).toEqual([
      ...[200, "application/json", '{"full":{"now":1}}'],
    ]);
    const without = await ask(`${url}/debug/decisions/1?full=1`);
    expect(without.status).toBe(404);
    expect(JSON.parse(without.text).error).toMatch(/no full record.*--full-records-every.*x-sluice-explain: 1/);
    const missing = await ask(`${url}/debug/decisions/99?full=1`);
    expect([missing.status, JSON.parse(missing.text).error]).toEqual([404, expect.stringContaining("no decision 99")]);
    expect(JSON.parse((await ask(`${url}/debug/decisions/2?full=0`)).text)).toEqual({ sequence: 2 });
  });

  it("S-100: /debug/plugins/state answers GET with JSON and POST with 405, as the other debug pages do", async () => {
    const url = await start(loopbackOnly(false), { profiler: { take: async () => "unavailable" } });
    const answer = await ask(`${url}/debug/plugins/state`);
    expect([answer.status, answer.headers["content-type"], JSON.parse(answer.text)]).toEqual([
      ...[200, "application/json"],
      { timestamp: "now", plugins: { p: { name: "p", type: "t", state: 7 } } },
    ]);
    for (const path of [...DEBUG, "/debug/pprof/", "/debug/pprof/heap"])
      for (const method of ["POST", "PUT", "DELETE"]) {
        const refused = await ask(`${url}${path}`, { method });
        expect([path, refused.status, refused.headers["allow"]]).toEqual([path, 405, "GET, HEAD"]);
      }
    expect((await ask(`${url}/debug/plugins/state`, { method: "HEAD" })).status).toBe(200);
    expect(JSON.parse((await ask(`${url}/debug/models`)).text)).toEqual({
      models: [{ model: "m", bytesPerToken: 5.5, answers: 3 }],
      otherBytesPerToken: 4,
    });
    await admin?.close();
    // Whoever may not look learns nothing of methods either.
    const elsewhere = await start(seenFrom("192.0.2.7", false));
    expect((await ask(`${elsewhere}/debug/plugins/state`, { method: "POST" })).status).toBe(403);
  });

  it("tells which paths there are when one is wrong", async () => {
    const url = await start(loopbackOnly(false));
    const answer = await ask(`${url}/debug`);
    expect(answer.status).toBe(404);
    for (const path of [
      "/metrics",
      "/healthz",
      "/ready",
      "/debug/endpoints",
      "/debug/decisions",
      "/debug/plugins/state",
      "/debug/models",
      "/debug/queues",
    ])
      expect(answer.text).toContain(path);
  });

  it("/debug/peers shows the other replicas where there are some, and the page is told of them without that view", async () => {
    const alone = await start(loopbackOnly(false));
    expect(await ask(`${alone}/debug/peers`)).toMatchObject({ status: 404, text: expect.stringContaining("--peers") });
    const lonely = await follow(alone);
    await poll("the greeting", () => /"replicas":false/.test(lonely.text()));
    await admin?.close();
    let built = 0;
    const known = peersOf();
    const peers = (): PeersFeed => {
      built++;
      return known;
    };
    const url = await start(loopbackOnly(false), { views: { peers, sharesWithPeers: true } });
    const page = await follow(url);
    await poll("the greeting", () => /"replicas":true/.test(page.text()));
    expect(built).toBe(0);
    expect(JSON.parse((await ask(`${url}/debug/peers`)).text)).toEqual(known);
  });

  it("tells the page of limits without their view, which walks all counters", async () => {
    let built = 0;
    const limits = (): object => {
      built++;
      return { rules: [] };
    };
    const page = await follow(await start(loopbackOnly(false), { views: { limits, hasLimits: true } }));
    await poll("the greeting", () => /"limits":true/.test(page.text()));
    expect(built).toBe(0);
  });

  it("streams to 32 pages, refuses the 33rd, and takes it when one was closed (bound)", async () => {
    const url = await start(loopbackOnly(false));
    const pages = await Promise.all(Array.from({ length: 32 }, () => follow(url)));
    for (const { answer } of pages) expect(answer.statusCode).toBe(200);
    expect(pages[0]!.answer.headers["content-type"]).toBe("text/event-stream");
    await poll("the greeting", () =>
      pages.every(({ text }) => /^event: hello\ndata: .*"name":"pool".*\n\n$/m.test(text())),
    );
    expect(await ask(`${url}/debug/feed/stream`)).toMatchObject({
      status: 503,
      text: expect.stringContaining("too many readers are open"),
    });
    pages[7]!.answer.destroy();
    await poll("the free place", async () => (await follow(url)).answer.statusCode === 200);
  });

  it("ends the streams and their timer when it closes, and frees the port", async () => {
    const url = await start(loopbackOnly(false));
    const page = await follow(url);
    expect(clock.pending).toBe(1);
    await admin!.close();
    expect(clock.pending).toBe(0);
    await poll("the end of the stream", () => page.ended());
    await expect(ask(`${url}/healthz`)).rejects.toThrow("ECONNREFUSED");
  });

  it("explains why it cannot listen", async () => {
    await start(loopbackOnly(false));
    const { port } = admin!;
    const second = startAdmin({
      host: "127.0.0.1",
      port,
      clock: new VirtualClock(),
      views: VIEWS,
      authorize: loopbackOnly(false),
    });
    await expect(second).rejects.toMatchObject({
      code: "LISTEN_FAILED",
      message: expect.stringContaining(`127.0.0.1:${port}`),
    });
  });
});
