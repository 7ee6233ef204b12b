import { describe, expect, it } from "vitest";
import {
  FakeCollection,
  FakeServer,
  recordingLog,
  refusal,
  type Thing,
} from "../../../test/support/kubernetes/fake-api.cases.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { ObjectKey } from "./reflected.ts";
import { Reflector, type ReflectorOptions } from "./reflector.ts";

const TYPE = { group: "test.io", version: "v1", plural: "things", kind: "Thing" };

function setUp(more: Partial<ReflectorOptions<string>> = {}) {
  const clock = new VirtualClock();
  const api = new FakeCollection();
  const record = recordingLog();
  const calls: string[] = [];
  const reflector = new Reflector<string>({
    api,
    type: TYPE,
    namespace: "ml",
    project: (object) => (object as Thing).metadata.name,
    keyOf: (name) => ({ namespace: "ml", name }),
    sink: {
      replace: (items) => void calls.push(`= ${items.join(" ")}`),
      put: (item) => void calls.push(`+ ${item}`),
      remove: ({ namespace, name }: ObjectKey) => void calls.push(`- ${namespace}/${name}`),
    },
    clock,
    random: new SeededRandom(1),
    log: record.log,
    ...more,
  });
  return { clock, api, calls, reflector, ...record };
}

const isList = ({ query }: { query?: object }) => query !== undefined && "limit" in query;

describe("Reflector", () => {
  it("R-30: lists in pages of 50, then watches from the list's version, with bookmarks, for 240 to 480 s", async () => {
    const { clock, api, calls, reflector } = setUp({ fieldSelector: "metadata.name=a", labelSelector: "app=x" });
    for (let i = 0; i < 121; i++) api.put(`t${i}`, "x");
    reflector.start();
    await clock.advanceAsync(0);
    expect(api.requests.map(({ path, query }) => [path, query])).toEqual([
      [
        "/apis/test.io/v1/namespaces/ml/things",
        { limit: 50, continue: undefined, fieldSelector: "metadata.name=a", labelSelector: "app=x" },
      ],
      [
        "/apis/test.io/v1/namespaces/ml/things",
        { limit: 50, continue: "rest 0", fieldSelector: "metadata.name=a", labelSelector: "app=x" },
      ],
      [
        "/apis/test.io/v1/namespaces/ml/things",
        { limit: 50, continue: "rest 1", fieldSelector: "metadata.name=a", labelSelector: "app=x" },
      ],
      [
        "/apis/test.io/v1/namespaces/ml/things",
        {
          watch: true,
          allowWatchBookmarks: true,
          resourceVersion: "221",
          timeoutSeconds: expect.any(Number),
          fieldSelector: "metadata.name=a",
          labelSelector: "app=x",
        },
      ],
    ]);
    expect(calls.length).toBe(1);
    expect(reflector.state).toMatchObject({
      synced: true,
      objects: 121,
      lists: 1,
      watches: 1,
      failures: 0,
      heardAt: 0,
    });
    const lengths = new Set<unknown>();
    for (let i = 0; i < 20; i++) {
      await clock.advanceAsync(2000);
      api.endWatches();
      await clock.advanceAsync(0);
      lengths.add(api.requests.at(-1)?.query?.["timeoutSeconds"]);
    }
    expect(lengths.size).toBeGreaterThan(10);
    expect(Math.min(...([...lengths] as number[]))).toBeGreaterThanOrEqual(240);
    expect(Math.max(...([...lengths] as number[]))).toBeLessThanOrEqual(480);
    reflector.close();
  });

  it("R-30: tells of changes in order, and resumes after an orderly end at the version of the last event or bookmark", async () => {
    const { clock, api, calls, reflector } = setUp();
    api.put("a", "x");
    reflector.start();
    await clock.advanceAsync(5000);
    api.put("b", "x");
    api.put("a", "y");
    api.delete("b");
    api.endWatches();
    await clock.advanceAsync(0);
    expect(calls).toEqual(["= a", "+ b", "+ a", "- ml/b"]);
    expect(api.requests.at(-1)?.query?.["resourceVersion"]).toBe("104");
    await clock.advanceAsync(5000);
    api.put("other", "x");
    api.delete("other");
    api.bookmark();
    api.cutWatches();
    await clock.advanceAsync(1000);
    expect(api.requests.at(-1)?.query?.["resourceVersion"]).toBe("106");
    expect(api.requests.filter(isList).length).toBe(1);
    expect(reflector.state).toMatchObject({ objects: 1, lists: 1, watches: 3, failures: 1, problem: "" });
    reflector.close();
  });

  it.each([true, false])(
    "R-30: an expired version means a new list, which replaces everything (told by an event: %s)",
    async (byEvent) => {
      const { clock, api, calls, reflector } = setUp();
      api.expiredByEvent = byEvent;
      api.put("a", "x");
      api.put("b", "x");
      reflector.start();
      await clock.advanceAsync(5000);
      api.cutWatches();
      api.delete("a");
      api.put("c", "x");
      api.compact();
      await clock.advanceAsync(2000);
      expect(calls).toEqual(["= a b", "= b c"]);
      expect(reflector.state).toMatchObject({ objects: 2, lists: 2 });
      reflector.close();
    },
  );

  it("R-30: pages that expire half-way are begun anew, and nothing of the first try is told", async () => {
    const { clock, api, calls, reflector } = setUp({ tuning: { pageSize: 2 } });
    for (const name of ["a", "b", "c"]) api.put(name, "x");
    api.failures.push(undefined, refusal(410, "Expired"));
    reflector.start();
    await clock.advanceAsync(1000);
    expect(calls).toEqual(["= a b c"]);
    expect(api.requests.map(({ query }) => query?.["continue"])).toEqual([
      undefined,
      "rest 0",
      undefined,
      "rest 1",
      undefined,
    ]);
    reflector.close();
  });

  it("a watch that is silent beyond its length is cut, and one that had sent bookmarks after 150 s", async () => {
    const { clock, api, calls, reflector } = setUp();
    reflector.start();
    await clock.advanceAsync(0);
    api.setMute(true);
    await clock.advanceAsync(269_000);
    expect(reflector.state.watches).toBe(1);
    await clock.advanceAsync(510_000 - 269_000);
    expect(reflector.state.failures).toBeGreaterThan(0);
    expect(api.watching).toBe(1);
    api.setMute(false);
    await clock.advanceAsync(1000);

    api.bookmark();
    const { failures } = reflector.state;
    for (let i = 0; i < 5; i++) {
      await clock.advanceAsync(149_000);
      api.bookmark();
    }
    expect(reflector.state.failures).toBe(failures);
    api.setMute(true);
    await clock.advanceAsync(150_000);
    expect(reflector.state).toMatchObject({
      failures: failures + 1,
      problem: expect.stringContaining("was silent for 150 s"),
    });
    api.setMute(false);
    api.put("late", "x");
    await clock.advanceAsync(1000);
    expect(calls.at(-1)).toBe("+ late");
    reflector.close();
  });

  it("waits longer and longer while the server is away, at most 5 s, keeps what it told, and starts over after a good watch", async () => {
    const { clock, api, calls, reflector, lines } = setUp({ random: { next: () => 0.999, below: () => 0 } });
    api.put("a", "x");
    reflector.start();
    await clock.advanceAsync(5000);
    const heardAt = reflector.state.heardAt;
    api.failures.push(...Array.from({ length: 12 }, () => refusal(0, "", { message: "it cannot be reached" })));
    api.cutWatches();
    const gaps: number[] = [];
    let last = clock.now();
    for (let asked = api.requests.length; api.failures.length > 0; ) {
      await clock.advanceAsync(10);
      if (api.requests.length === asked) continue;
      asked = api.requests.length;
      gaps.push(Math.round((clock.now() - last) / 10) * 10);
      last = clock.now();
    }
    expect(gaps).toEqual(
      [250, 500, 1000, 2000, 4000, 5000, 5000, 5000, 5000, 5000, 5000, 5000].map((gap) => expect.closeTo(gap, -2)),
    );
    expect(reflector.state).toMatchObject({ heardAt, problem: "it cannot be reached", failures: 13 });
    expect(calls).toEqual(["= a"]);
    await clock.advanceAsync(32_000);
    expect(reflector.state).toMatchObject({ problem: "" });
    expect(lines.filter(({ level }) => level === "warn").length).toBeLessThan(6);

    const failed = api.requests.length;
    api.cutWatches();
    await clock.advanceAsync(260);
    expect(api.requests.length).toBe(failed + 1);
    reflector.close();
  });

  it("has the changes of an outage at most 5 s after its end, and pickers that saw the same outage do not ask at one moment", async () => {
    const asked = new Set<number>();
    for (let seed = 1; seed <= 20; seed++) {
      const { clock, api, calls, reflector } = setUp({ random: new SeededRandom(seed) });
      api.put("a", "x");
      reflector.start();
      await clock.advanceAsync(5000);
      // The server is away for ten minutes; what it refuses meanwhile is more than what is asked.
      api.failures.push(...Array.from({ length: 10_000 }, () => refusal(0, "", { message: "it cannot be reached" })));
      api.cutWatches();
      await clock.advanceAsync(600_000);
      expect(api.failures.length).toBeGreaterThan(9500);
      api.failures.length = 0;
      api.put("b", "x");
      const back = clock.now();
      while (calls.at(-1) !== "+ b" && clock.now() - back <= 10_000) await clock.advanceAsync(10);
      expect(clock.now() - back).toBeLessThanOrEqual(5010);
      asked.add(clock.now() - back);
      reflector.close();
    }
    expect(asked.size).toBeGreaterThan(10);
  });

  it("a watch that ends as soon as it begins is not begun again at once", async () => {
    const { clock, api, reflector } = setUp({ random: { next: () => 0.5, below: () => 0 } });
    reflector.start();
    for (let i = 0; i < 100; i++) {
      await clock.advanceAsync(0);
      api.endWatches();
    }
    expect(api.requests.length).toBe(2);
    await clock.advanceAsync(125);
    expect(api.requests.length).toBe(3);
    reflector.close();
  });

  it("heeds Retry-After, up to a minute", async () => {
    const { clock, api, reflector } = setUp();
    api.failures.push(
      refusal(429, "TooManyRequests", { retryAfter: 20_000 }),
      refusal(503, "", { retryAfter: 3_600_000 }),
    );
    reflector.start();
    await clock.advanceAsync(19_999);
    expect(api.requests.length).toBe(1);
    await clock.advanceAsync(5002);
    expect(api.requests.length).toBe(2);
    await clock.advanceAsync(54_000);
    expect(api.requests.length).toBe(2);
    await clock.advanceAsync(22_000);
    expect(reflector.state.synced).toBe(true);
    reflector.close();
  });

  it("lists anew after three refusals in a row: a server restored from a backup does not know the version", async () => {
    const { clock, api, reflector } = setUp();
    reflector.start();
    await clock.advanceAsync(5000);
    api.failures.push(...Array.from({ length: 3 }, () => refusal(504, "Timeout")));
    api.cutWatches();
    await clock.advanceAsync(5000);
    expect(reflector.state).toMatchObject({ lists: 2, problem: "" });
    reflector.close();
  });

  it("refusals that say nothing of the version do not make it list anew, however many: it goes on where it was", async () => {
    const { clock, api, calls, reflector } = setUp({ random: { next: () => 0.5, below: () => 0 } });
    api.put("a", "x");
    reflector.start();
    await clock.advanceAsync(5000);
    api.failures.push(
      ...Array.from({ length: 5 }, () => refusal(429, "TooManyRequests", { retryAfter: 2000 })),
      ...[503, 401, 403, 503, 503].map((status) => refusal(status)),
    );
    api.cutWatches();
    api.put("b", "x");
    const asked = api.requests.length;
    // Each time what the server asks for, and some more of one's own.
    await clock.advanceAsync(125 + 5 * 2000 - 1);
    expect(api.requests.length - asked).toBeLessThanOrEqual(5);
    await clock.advanceAsync(120_000);
    expect(api.failures).toEqual([]);
    expect(calls).toEqual(["= a", "+ b"]);
    expect(reflector.state).toMatchObject({ lists: 1, problem: "" });
    reflector.close();
  });

  it("a page that a busy server does not give is asked for again when it says, not the list from its beginning", async () => {
    const { clock, api, calls, reflector } = setUp({ tuning: { pageSize: 2 } });
    for (const name of ["a", "b", "c"]) api.put(name, "x");
    api.failures.push(undefined, ...Array.from({ length: 9 }, () => refusal(429, "", { retryAfter: 3000 })));
    reflector.start();
    await clock.advanceAsync(9 * 3000 - 1);
    expect(calls).toEqual([]);
    await clock.advanceAsync(9 * 30_000);
    expect(calls).toEqual(["= a b c"]);
    expect(api.requests.filter(isList).map(({ query }) => query?.["continue"])).toEqual([
      undefined,
      ...Array.from({ length: 10 }, () => "rest 0"),
    ]);
    expect(reflector.state).toMatchObject({ lists: 1, failures: 9, problem: "" });
    reflector.close();
  });

  it("a page that is not given ten times in a row is given up with its list (bound), as at any other refusal at once", async () => {
    for (const [status, times] of [
      [429, 10],
      [500, 1],
    ] as const) {
      const { clock, api, calls, reflector } = setUp({ tuning: { pageSize: 2 } });
      for (const name of ["a", "b", "c"]) api.put(name, "x");
      api.failures.push(undefined, ...Array.from({ length: times }, () => refusal(status)));
      reflector.start();
      await clock.advanceAsync(600_000);
      expect(calls).toEqual(["= a b c"]);
      expect(api.requests.filter(isList).map(({ query }) => query?.["continue"])).toEqual([
        undefined,
        ...Array.from({ length: times }, () => "rest 0"),
        undefined,
        "rest 1",
      ]);
      reflector.close();
    }
  });

  it("waits for a busy server no longer than until it is closed", async () => {
    const { clock, api, calls, reflector } = setUp();
    api.failures.push(refusal(429, "", { retryAfter: 3000 }));
    reflector.start();
    await clock.advanceAsync(10);
    reflector.close();
    await clock.advanceAsync(600_000);
    expect([api.requests.length, calls.length, clock.pending]).toEqual([1, 0, 0]);
  });

  it("an optional kind that is not there is told once and looked for about once a minute until it is", async () => {
    const { clock, api, calls, reflector, at } = setUp({ optional: true });
    let known = 0;
    reflector.onSynced(() => known++);
    api.failures.push(...Array.from({ length: 5 }, () => refusal(404, "NotFound", { message: "no such kind" })));
    reflector.start();
    await clock.advanceAsync(0);
    expect(reflector.state).toMatchObject({ absent: true, synced: false, problem: "no such kind" });
    expect(known).toBe(1);
    await clock.advanceAsync(29_999);
    expect(api.requests.length).toBe(1);
    await clock.advanceAsync(6 * 90_000);
    expect(reflector.state).toMatchObject({ absent: false, synced: true, problem: "" });
    expect(at("info").slice(0, 1)).toEqual([
      "things.test.io cannot be read; Sluice tries again about every 60 s: no such kind {}",
    ]);
    expect(calls).toEqual(["= "]);
    expect(known).toBe(1);
    reflector.close();
  });

  it("an optional kind that the server does not have is told of without a warning, also where the right to it is missing", async () => {
    const kinds = (...names: string[]) => ({ resources: names.map((name) => ({ name })) });
    for (const [status, discovery, level] of [
      [404, undefined, "info"],
      // Refused before anybody looks whether there is such a kind: discovery tells.
      [403, refusal(404), "info"],
      [403, kinds("others", "things/status"), "info"],
      [403, kinds("others", "things"), "warn"],
      [403, refusal(403), "warn"],
      [403, refusal(0), "warn"],
      [403, "<html>", "warn"],
      [403, { resources: [null] }, "info"],
    ] as const) {
      const api = new FakeServer(({ path }) => {
        if (path.includes("/namespaces/")) throw refusal(status, "", { message: "not this one" });
        expect(path).toBe("/apis/test.io/v1");
        if (discovery instanceof Error) throw discovery;
        return discovery;
      });
      const { clock, reflector, at } = setUp({ optional: true, api });
      reflector.start();
      await clock.advanceAsync(300_000);
      expect(reflector.state.absent).toBe(true);
      expect(at("warn").concat(at("info"))).toEqual([
        expect.stringContaining("things.test.io cannot be read; Sluice tries again about every 60 s: "),
      ]);
      expect(at(level)).toHaveLength(1);
      reflector.close();
    }
  });

  it("a kind that must be there is not looked up when it is refused", async () => {
    const api = new FakeServer(() => {
      throw refusal(403);
    });
    const { clock, reflector } = setUp({ api });
    reflector.start();
    await clock.advanceAsync(60_000);
    expect(new Set(api.requests.map(({ path }) => path)).size).toBe(1);
    reflector.close();
  });

  it("a kind that comes without the right to it is warned of, though its absence was told", async () => {
    let there = false;
    const api = new FakeServer(({ path }) => {
      if (path.includes("/namespaces/")) throw refusal(403);
      return { resources: there ? [{ name: "things" }] : [] };
    });
    const { clock, reflector, at } = setUp({ optional: true, api });
    reflector.start();
    await clock.advanceAsync(100_000);
    expect([at("info").length, at("warn").length]).toEqual([1, 0]);
    there = true;
    await clock.advanceAsync(200_000);
    expect([at("info").length, at("warn").length]).toEqual([1, 1]);
    reflector.close();
  });

  it("an optional kind that was there is cleared only after a minute of its absence, and stays where only the right is gone", async () => {
    for (const status of [404, 403]) {
      const { clock, api, calls, reflector, at } = setUp({ optional: true });
      api.put("a", "x");
      reflector.start();
      await clock.advanceAsync(5000);
      api.failures.push(...Array.from({ length: 100 }, () => refusal(status)));
      api.cutWatches();
      await clock.advanceAsync(58_000);
      expect(calls).toEqual(["= a"]);
      expect(reflector.state.absent).toBe(false);
      await clock.advanceAsync(60_000);
      expect(reflector.state).toMatchObject({ absent: true, kept: status === 403 });
      expect(at("warn").some((text) => text.includes("Sluice uses their last known state"))).toBe(status === 403);
      expect(calls).toEqual(status === 404 ? ["= a", "= "] : ["= a"]);
      expect(at("warn").filter((text) => text.includes("cannot be read; Sluice"))).toHaveLength(1);
      api.failures.length = 0;
      await clock.advanceAsync(100_000);
      expect(calls.at(-1)).toBe("= a");
      reflector.close();
    }
  });

  it("what may not be read any more is kept from the first list on, also that there is nothing of it, but not once the kind was gone", async () => {
    const { clock, api, reflector } = setUp({ optional: true });
    const refuse = async (status: number) => {
      api.failures.push(...Array.from({ length: 100 }, () => refusal(status)));
      api.cutWatches();
      await clock.advanceAsync(300_000);
      api.failures.length = 0;
      return reflector.state;
    };
    api.failures.push(refusal(403));
    reflector.start();
    await clock.advanceAsync(5000);
    expect(reflector.state).toMatchObject({ absent: true, kept: false, objects: 0 });
    await clock.advanceAsync(100_000);
    expect(reflector.state).toMatchObject({ absent: false, kept: false, objects: 0 });
    expect(await refuse(403)).toMatchObject({ absent: true, kept: true, objects: 0 });
    await clock.advanceAsync(100_000);
    expect(await refuse(404)).toMatchObject({ absent: true, kept: false });
    // Rights go with the kind: that it may not be read says nothing new.
    expect(await refuse(403)).toMatchObject({ absent: true, kept: false });
    reflector.close();
  });

  it("a kind that must be there is asked for again and again, with an error a minute that says what to do", async () => {
    const { clock, api, reflector, at } = setUp({ random: { next: () => 0.999, below: () => 0 } });
    api.failures.push(
      ...Array.from({ length: 40 }, () => refusal(403, "Forbidden", { message: "forbidden: give it a Role" })),
    );
    reflector.start();
    await clock.advanceAsync(170_000);
    expect(reflector.state).toMatchObject({ absent: false, synced: false });
    expect(at("error").length).toBeGreaterThan(1);
    expect(at("error").length).toBeLessThan(5);
    expect(at("error")[0]).toContain("things.test.io: forbidden: give it a Role");
    await clock.advanceAsync(300_000);
    expect(reflector.state).toMatchObject({ synced: true, problem: "" });
    reflector.close();
  });

  it("leaves out what cannot be read or is not wanted, also when it was there before, and goes on", async () => {
    const { clock, api, calls, reflector, at } = setUp({
      project: (object) => {
        const { metadata, data } = object as Thing;
        if (data === "broken") throw new Error("spec is a list");
        return data === "hidden" ? undefined : metadata.name;
      },
    });
    api.put("a", "broken");
    api.put("b", "hidden");
    api.put("c", "x");
    reflector.start();
    await clock.advanceAsync(5000);
    api.put("c", "broken");
    api.put("d", "x");
    api.put("d", "hidden");
    api.put("e", "x");
    expect(calls).toEqual(["= c", "- ml/c", "+ d", "- ml/d", "+ e"]);
    expect(at("warn")).toEqual([
      "things.test.io: Sluice ignores ml/a, which it cannot read: spec is a list {}",
      "things.test.io: Sluice ignores ml/c, which it cannot read: spec is a list {}",
    ]);
    reflector.close();
  });

  it("what a sink throws at one change does not keep it from those that follow", async () => {
    const taken: string[] = [];
    const { clock, api, reflector, at } = setUp({
      sink: {
        replace() {},
        put: (item) => {
          if (item === "bad") throw new Error("full");
          taken.push(item);
        },
        remove() {},
      },
    });
    reflector.start();
    await clock.advanceAsync(0);
    api.put("bad", "x");
    api.put("good", "x");
    expect(taken).toEqual(["good"]);
    expect(at("error")).toEqual(["things.test.io: a change was not applied: full {}"]);
    expect(reflector.state.failures).toBe(0);
    reflector.close();
  });

  it("a sink that looks at the state while it is filled for the first time sees that all is there", async () => {
    let seen: boolean | undefined;
    const { clock, reflector } = setUp({
      sink: {
        replace: () => {
          seen = reflector.state.synced;
        },
        put() {},
        remove() {},
      },
    });
    let known = 0;
    reflector.onSynced(() => known++);
    reflector.start();
    expect(known).toBe(0);
    await clock.advanceAsync(0);
    expect(seen).toBe(true);
    reflector.onSynced(() => known++);
    expect(known).toBe(2);
    reflector.close();
  });

  it("does not take an answer for an empty list that is none", async () => {
    const { clock, calls, reflector } = setUp();
    reflector.close();
    for (const answer of [null, {}, { metadata: { resourceVersion: "5" } }, { items: [] }, "hello", []]) {
      const api = {
        server: "https://fake:6443",
        request: async () => answer,
        stream: () => Promise.resolve(),
        close: async () => {},
      };
      const other = setUp({ api, clock });
      other.reflector.start();
      await clock.advanceAsync(100);
      expect(other.calls).toEqual([]);
      expect(other.reflector.state.problem).toContain("something that is not a list");
      other.reflector.close();
    }
    expect(calls).toEqual([]);
  });

  it("holds more than 200,000 objects for a mistake (bound)", async () => {
    const page = {
      metadata: { resourceVersion: "5", continue: "more" },
      items: Array.from({ length: 50_000 }, () => ({})),
    };
    const api = {
      server: "https://fake:6443",
      request: async () => page,
      stream: () => Promise.resolve(),
      close: async () => {},
    };
    const { clock, calls, reflector } = setUp({ api, project: () => undefined });
    reflector.start();
    await clock.advanceAsync(10);
    expect(reflector.state).toMatchObject({ synced: false, problem: "there are more than 200000 things.test.io" });
    expect(calls).toEqual([]);
    reflector.close();
  });
});
