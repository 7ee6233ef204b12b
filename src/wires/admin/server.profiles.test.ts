import { Hono } from "hono";
import { describe, expect, it } from "vitest";
import { type ProfileKind, profileRoutes } from "./server.ts";

function routes(answer: Uint8Array<ArrayBuffer> | "busy" | "unavailable") {
  const taken: [ProfileKind, number][] = [];
  const app = new Hono();
  profileRoutes(app, {
    take: async (kind, seconds) => {
      taken.push([kind, seconds]);
      return answer;
    },
  });
  return { taken, get: (path: string) => app.request(`http://127.0.0.1${path}`) };
}

describe("/debug/pprof", () => {
  it("hands out what the profiler takes, for as long as it is asked to", async () => {
    const { taken, get } = routes(Uint8Array.of(0x1f, 0x8b, 7));
    const answer = await get("/debug/pprof/profile?seconds=5");
    expect(answer.status).toBe(200);
    expect(answer.headers.get("content-type")).toBe("application/octet-stream");
    expect(new Uint8Array(await answer.arrayBuffer())).toEqual(Uint8Array.of(0x1f, 0x8b, 7));
    await get("/debug/pprof/profile");
    await get("/debug/pprof/heap");
    await get("/debug/pprof/heap?seconds=60");
    expect(taken).toEqual([
      ["profile", 5],
      ["profile", 30],
      ["heap", 10],
      ["heap", 60],
    ]);
  });

  it.each(["0", "61", "-1", "1.5", "", "x", "1e1", "9999"])("refuses %j seconds (bound)", async (seconds) => {
    const { taken, get } = routes("busy");
    const answer = await get(`/debug/pprof/profile?seconds=${seconds}`);
    expect([answer.status, await answer.text()]).toEqual([400, "seconds must be a whole number from 1 to 60\n"]);
    expect(taken).toEqual([]);
  });

  it.each([
    ["busy", 409, /another profile/],
    ["unavailable", 501, /no inspector/],
  ] as const)("says so when the profiler is %s", async (state, status, text) => {
    const answer = await routes(state).get("/debug/pprof/heap");
    expect(answer.status).toBe(status);
    expect(await answer.text()).toMatch(text);
  });

  it.each(["goroutine", "allocs", "threadcreate", "block", "mutex"])("has no %s and says 501", async (name) => {
    const answer = await routes("busy").get(`/debug/pprof/${name}`);
    expect(answer.status).toBe(501);
    expect(await answer.text()).toContain(`no ${name} profile`);
  });

  it("lists what there is", async () => {
    const text = await (await routes("busy").get("/debug/pprof/")).text();
    expect(text).toMatch(/\/debug\/pprof\/profile\?seconds=30.*\n.*\/debug\/pprof\/heap/);
  });
});
