import { describe, expect, it } from "vitest";
import { FakeServer, recordingLog, refusal } from "../../../test/support/kubernetes/fake-api.cases.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { ApiRequest } from "./api-client.ts";
import { EventWriter } from "./events.ts";

const ABOUT = { apiVersion: "test.io/v1", kind: "Thing", namespace: "ml", name: "a", uid: "u1" };
const EVENT = { type: "Warning", reason: "TargetMissing", message: "no such model" } as const;
const WALL = Date.parse("2026-03-01T10:00:00.250Z");

function setUp(answer: (request: ApiRequest) => unknown = () => ({}), perMinute = 3) {
  const clock = new VirtualClock(WALL);
  const api = new FakeServer(answer);
  const { log, at } = recordingLog();
  const events = new EventWriter({
    api,
    clock,
    random: new SeededRandom(1),
    log,
    component: "sluice-epp",
    instance: "epp-0",
    perMinute,
  });
  const written = async () => {
    await clock.advanceAsync(0);
    return api.requests.splice(0).map(({ method, path, body, contentType }) => ({
      method,
      path,
      contentType,
      ...(body as { count: number; metadata?: { name: string } }),
    }));
  };
  return { clock, api, events, written, at };
}

describe("EventWriter", () => {
  it("makes an event of the core group, and counts the same one up", async () => {
    const { clock, events, written } = setUp();
    events.write(ABOUT, EVENT);
    const [made] = await written();
    expect(made).toEqual({
      method: "POST",
      path: "/api/v1/namespaces/ml/events",
      contentType: "application/json",
      apiVersion: "v1",
      kind: "Event",
      metadata: { namespace: "ml", name: expect.stringMatching(/^a\.[0-9a-f]{16}$/) },
      involvedObject: ABOUT,
      ...EVENT,
      source: { component: "sluice-epp" },
      reportingComponent: "sluice-epp",
      reportingInstance: "epp-0",
      firstTimestamp: "2026-03-01T10:00:00Z",
      lastTimestamp: "2026-03-01T10:00:00Z",
      count: 1,
    });
    clock.advance(5000);
    events.write(ABOUT, EVENT);
    expect(await written()).toEqual([
      {
        method: "PATCH",
        path: `/api/v1/namespaces/ml/events/${made?.metadata?.name}`,
        contentType: "application/merge-patch+json",
        count: 2,
        lastTimestamp: "2026-03-01T10:00:05Z",
      },
    ]);
    events.write(ABOUT, { ...EVENT, message: "another" });
    expect((await written()).map(({ method, count }) => [method, count])).toEqual([["POST", 1]]);
  });

  it("writes so many times a minute about one object, and tells of what was left out with the next write", async () => {
    const { clock, events, written } = setUp();
    for (let i = 0; i < 50; i++) {
      events.write(ABOUT, EVENT);
      await clock.advanceAsync(10);
    }
    events.write({ ...ABOUT, name: "b" }, EVENT);
    expect((await written()).map(({ method, count }) => [method, count])).toEqual([
      ["POST", 1],
      ["PATCH", 2],
      ["PATCH", 3],
      ["POST", 1],
    ]);
    await clock.advanceAsync(60_000);
    events.write(ABOUT, EVENT);
    expect((await written()).map(({ method, count }) => [method, count])).toEqual([["PATCH", 51]]);
  });

  it("makes an event anew that the server has forgotten, and counts up one whose making it was not told of", async () => {
    let forgotten = false;
    const { events, written } = setUp(({ method }) => {
      if (method === "PATCH" && forgotten) throw refusal(404, "NotFound");
      if (method === "POST" && !forgotten) throw refusal(409, "AlreadyExists");
    });
    events.write(ABOUT, EVENT);
    expect((await written()).map(({ method }) => method)).toEqual(["POST", "PATCH"]);
    forgotten = true;
    events.write(ABOUT, EVENT);
    expect((await written()).map(({ method, count }) => [method, count])).toEqual([
      ["PATCH", 2],
      ["POST", 2],
    ]);
  });

  it("swallows failures with one line", async () => {
    const { events, written, at } = setUp(() => {
      throw refusal(500, "InternalError", { message: "etcd is out of space" });
    });
    for (const name of ["a", "b", "c"]) events.write({ ...ABOUT, name }, EVENT);
    expect((await written()).length).toBe(3);
    expect(at("warn")).toEqual(["Sluice could not write a Kubernetes event: etcd is out of space {}"]);
  });

  it("says once that it has no right to, tries rarely from then on, and says when it has", async () => {
    let allowed = false;
    const { clock, events, written, at } = setUp(() => {
      if (!allowed) throw refusal(403, "Forbidden", { message: "give it a Role with create on events" });
    });
    for (const name of ["a", "b", "c"]) events.write({ ...ABOUT, name }, EVENT);
    expect((await written()).length).toBe(1);
    const told = [
      "Sluice cannot write Kubernetes events, tries again at most every 10 minutes, and logs this once: give it a Role with create on events {}",
    ];
    expect(at("warn")).toEqual(told);
    // A day in which there is one to write every minute.
    let tried = 0;
    for (let minute = 0; minute < 24 * 60; minute++) {
      await clock.advanceAsync(60_000);
      events.write(ABOUT, EVENT);
      tried += (await written()).length;
    }
    expect(tried).toBe(144);
    expect(at("warn")).toEqual(told);
    allowed = true;
    await clock.advanceAsync(600_000);
    events.write(ABOUT, EVENT);
    // What was left out is counted.
    expect((await written()).map(({ method, count }) => [method, count])).toEqual([["POST", 1 + 24 * 60 + 1]]);
    expect(at("info")).toEqual(["Sluice writes Kubernetes events again {}"]);
    events.write({ ...ABOUT, name: "b" }, EVENT);
    expect((await written()).map(({ method, count }) => [method, count])).toEqual([["POST", 2]]);
    allowed = false;
    await clock.advanceAsync(60_000);
    events.write(ABOUT, EVENT);
    await written();
    expect(at("warn")).toEqual([...told, ...told]);
    expect(at("info")).toHaveLength(1);
  });

  it("remembers 1,000 events and objects and lets 256 wait (bound)", async () => {
    const { api, events, clock } = setUp(() => new Promise(() => {}));
    for (let i = 0; i < 3000; i++) events.write({ ...ABOUT, name: `a${i}` }, EVENT);
    expect(events.size).toEqual({ events: 1000, objects: 256 + 1 });
    await clock.advanceAsync(0);
    expect(api.requests.length).toBe(1);
    const flood = setUp();
    for (let i = 0; i < 3000; i++) {
      flood.events.write({ ...ABOUT, name: `a${i}` }, EVENT);
      await flood.clock.advanceAsync(0);
    }
    expect(flood.events.size).toEqual({ events: 1000, objects: 1000 });
    expect(flood.api.requests.length).toBe(3000);
  });

  it("gives events names that are legal, and drops what waits when it is closed", async () => {
    const { api, events } = setUp();
    events.write({ ...ABOUT, name: `${"x".repeat(199)}-${"y".repeat(53)}` }, EVENT);
    events.write({ ...ABOUT, name: "b" }, { ...EVENT, message: "x".repeat(5000) });
    await events.close();
    events.write(ABOUT, EVENT);
    const bodies = api.requests.map(({ body }) => body as { metadata: { name: string } });
    expect(bodies.map(({ metadata }) => metadata.name)).toEqual([expect.stringMatching(/^x{199}\.[0-9a-f]{16}$/)]);
  });
});
