import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { Endpoint, PodSnapshot, PoolMembership } from "../../base/inference/endpoint.ts";
import type { EndpointSpec } from "../endpoints/pool-endpoint.ts";
import { EndpointRegistry } from "../endpoints/registry.ts";
import { membersOf } from "./pod.ts";
import { PoolMembers } from "./pool-members.ts";

const registry = (maxEndpoints = 4096) =>
  new EndpointRegistry({ clock: new VirtualClock(), random: new SeededRandom(1), maxEndpoints });

const pod = (name: string, fake: Partial<PodSnapshot> = {}): PodSnapshot => ({
  ...{ namespace: "ns", name, uid: name, labels: { app: "a" }, annotations: {}, since: "" },
  ...{ address: `10.0.${name.length}.${name.charCodeAt(name.length - 1)}`, deleting: false, ready: true },
  ...fake,
});
/** A pod at the address where others are, too, since some minute. */
const shared = (name: string, minute: number, fake: Partial<PodSnapshot> = {}): PodSnapshot =>
  pod(name, { address: "10.0.0.1", since: `2026-01-01T00:${minute}:00Z`, ...fake });
const pool = (app: string, ...ports: number[]): PoolMembership => ({
  namespace: "ns",
  selects: (labels) => labels["app"] === app,
  ports,
});
const textOf = ({ name, address, port, rank }: Endpoint | EndpointSpec): string =>
  JSON.stringify([name, address, port, rank]);
const ids = (endpoints: EndpointRegistry): string[] =>
  endpoints
    .list()
    .map(({ id }) => id)
    .sort();

describe("the endpoints of a pool (api-resources 3.3)", () => {
  it("R-21: pods that came before the pool are taken when it comes", () => {
    const endpoints = registry();
    const members = new PoolMembers({ endpoints, clock: new VirtualClock() });
    members.put(pod("one"));
    expect(endpoints.size).toBe(0);
    members.usePool(pool("a", 8000));
    expect(ids(endpoints)).toEqual(["ns/one-rank-0"]);
  });

  it("R-25: without a pool there are none, and all come back with it", () => {
    const endpoints = registry();
    const members = new PoolMembers({ endpoints, clock: new VirtualClock() });
    members.usePool(pool("a", 8000));
    members.replace([pod("one"), pod("two")]);
    members.usePool(undefined);
    expect(endpoints.size).toBe(0);
    members.put(pod("three"));
    members.usePool(pool("a", 8000));
    expect(ids(endpoints)).toEqual(["ns/one-rank-0", "ns/three-rank-0", "ns/two-rank-0"]);
  });

  it("R-26: fewer ports remove the ranks beyond, more add theirs; the others stay the same endpoints", () => {
    const endpoints = registry();
    const members = new PoolMembers({ endpoints, clock: new VirtualClock() });
    members.usePool(pool("a", 8000, 8001));
    members.put(pod("one"));
    const [first] = endpoints.list();
    members.usePool(pool("a", 8000));
    expect(endpoints.list()).toEqual([first]);
    members.usePool(pool("a", 8000, 8001, 8002));
    expect(ids(endpoints)).toEqual(["ns/one-rank-0", "ns/one-rank-1", "ns/one-rank-2"]);
    expect(endpoints.list()[0]).toBe(first);
  });

  it("R-28: an equal pod changes nothing; another address keeps the id", () => {
    const endpoints = registry();
    const members = new PoolMembers({ endpoints, clock: new VirtualClock() });
    members.usePool(pool("a", 8000));
    members.put(pod("one"));
    const [before] = endpoints.list();
    members.put(pod("one"));
    expect(endpoints.list()[0]).toBe(before);
    members.put(pod("one", { address: "10.0.0.9" }));
    expect(endpoints.list()).toMatchObject([{ id: "ns/one-rank-0", hostPort: "10.0.0.9:8000" }]);
  });

  it("another pod of the same name is another endpoint under the same id, also when its end was not told", () => {
    const endpoints = registry();
    const members = new PoolMembers({ endpoints, clock: new VirtualClock() });
    members.usePool(pool("a", 8000));
    for (const come of [(made: PodSnapshot) => members.put(made), (made: PodSnapshot) => members.replace([made])]) {
      members.put(pod("one"));
      const [before] = endpoints.list();
      come(pod("one", { uid: "other" }));
      expect(before?.removed).toBe(true);
      expect(ids(endpoints)).toEqual(["ns/one-rank-0"]);
    }
  });

  it("a pod for which there was no room comes in when others go, with no word of its own (bound)", () => {
    const endpoints = registry(2);
    const members = new PoolMembers({ endpoints, clock: new VirtualClock() });
    members.usePool(pool("a", 8000));
    // A rolling update: the new ones are ready before the old ones go.
    for (const name of ["old-1", "old-2", "new-1", "new-2", "new-3"]) members.put(pod(name));
    expect(ids(endpoints)).toEqual(["ns/old-1-rank-0", "ns/old-2-rank-0"]);
    members.remove({ namespace: "ns", name: "new-2" });
    members.put(pod("old-1", { ready: false }));
    members.remove({ namespace: "ns", name: "old-2" });
    expect(ids(endpoints)).toEqual(["ns/new-1-rank-0", "ns/new-3-rank-0"]);
    // The same after a list, and for a pod of which only a part found room.
    members.usePool(pool("a", 8000, 8001));
    expect(ids(endpoints)).toHaveLength(2);
    members.replace([pod("x"), pod("y"), pod("z")]);
    expect(ids(endpoints)).toEqual(["ns/x-rank-0", "ns/x-rank-1"]);
    members.put(pod("x", { annotations: { "llm-d.ai/active-ports": "8000" } }));
    expect(ids(endpoints)).toEqual(["ns/x-rank-0", "ns/y-rank-0"]);
    members.remove({ namespace: "ns", name: "x" });
    expect(ids(endpoints)).toEqual(["ns/y-rank-0", "ns/z-rank-0"]);
    members.usePool(undefined);
    members.remove({ namespace: "ns", name: "y" });
    expect(endpoints.size).toBe(0);
  });

  it("thousands of pods at once are taken in turns of 2 ms, those that are gone first, and what comes meanwhile counts", () => {
    const virtual = new VirtualClock();
    // Each look at the time takes a tenth of a millisecond.
    let looks = 0;
    const turns: (() => void)[] = [];
    const clock = {
      now: () => ++looks / 10,
      wall: () => 0,
      after: virtual.after,
      soon: (turn: () => void) => void turns.push(turn),
    };
    const endpoints = registry();
    const members = new PoolMembers({ endpoints, clock });
    const many = (from: number, to: number, fake: Partial<PodSnapshot> = {}) =>
      Array.from({ length: to - from }, (_, i) =>
        pod(`p${from + i}`, { address: `10.1.${(from + i) >> 8}.${(from + i) & 255}`, ...fake }),
      );
    members.replace(many(0, 1000));
    members.usePool(pool("a", 8000));
    expect([members.settled, turns.length]).toEqual([false, 1]);
    expect(endpoints.size).toBeLessThanOrEqual(20);
    const finish = (): number => {
      let count = 0;
      for (let turn = turns.shift(); turn !== undefined; turn = turns.shift()) {
        const size = endpoints.size;
        turn();
        expect(Math.abs(endpoints.size - size)).toBeLessThanOrEqual(20);
        expect(turns.length).toBeLessThanOrEqual(1);
        count++;
      }
      expect(members.settled).toBe(true);
      return count;
    };
    // Neither needs to wait for its turn.
    members.remove({ namespace: "ns", name: "p998" });
    members.put(pod("p999", { ready: false }));
    members.put(pod("extra"));
    expect(endpoints.get("ns/extra-rank-0")).toBeDefined();
    expect(finish()).toBeGreaterThan(40);
    expect(endpoints.size).toBe(999);

    members.replace([...many(0, 500, { labels: { app: "a", more: "b" } }), ...many(1000, 1100)]);
    const gone = endpoints.get("ns/p500-rank-0");
    expect([gone, endpoints.size < 999]).toEqual([undefined, true]);
    members.put(pod("p600"));
    finish();
    expect(endpoints.size).toBe(601);
    expect(endpoints.get("ns/p0-rank-0")?.labels).toEqual({ app: "a", more: "b" });
    members.replace([...many(0, 500, { labels: { app: "a", more: "b" } }), ...many(1000, 1100), pod("p600")]);
    expect([members.settled, turns.length]).toEqual([true, 0]);

    // The end of a pool is not a matter of turns.
    members.usePool(undefined);
    expect([endpoints.size, members.settled, turns.length]).toEqual([0, true, 0]);
    members.usePool(pool("a", 8000));
    members.close();
    const { size } = endpoints;
    finish();
    expect(endpoints.size).toBe(size);
  });

  /** The rule in the plainest words: of those that serve at an address whoever started last does. */
  const uncontested = (current: PoolMembership, pods: readonly PodSnapshot[]): EndpointSpec[] => {
    const all = pods.flatMap((made) => membersOf(current, [made]).map((spec) => ({ spec, made })));
    return all
      .filter(({ spec, made }) =>
        all.every(
          (other) =>
            other.made === made ||
            `${other.spec.address} ${other.spec.port}` !== `${spec.address} ${spec.port}` ||
            `${other.made.since} ${other.made.uid}` < `${made.since} ${made.uid}`,
        ),
      )
      .map(({ spec }) => spec);
  };

  it("R-22: whatever happens in whatever order, the endpoints are those of the pool and the pods there are", () => {
    const some = fc.record({
      name: fc.constantFrom("p0", "p1", "p2", "p3"),
      ready: fc.boolean(),
      deleting: fc.boolean(),
      address: fc.constantFrom("10.0.0.1", "10.0.0.2", ""),
      labels: fc.constantFrom({ app: "a" }, { app: "b" }),
      since: fc.constantFrom("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"),
      uid: fc.constantFrom("u0", "u1", "u2"),
      annotations: fc.constantFrom({}, { "llm-d.ai/active-ports": "8001" }),
    });
    const somePod = some.map(({ name, uid, ...rest }) =>
      pod(name, { ...rest, uid: `${uid} ${name}` } as Partial<PodSnapshot>),
    );
    const step = fc.oneof(
      somePod.map((made) => ({ put: made })),
      fc.constantFrom("p0", "p1", "p2", "p3").map((name) => ({ remove: name })),
      fc.uniqueArray(somePod, { selector: ({ name }) => name, maxLength: 4 }).map((all) => ({ replace: all })),
      fc
        .option(fc.tuple(fc.constantFrom("a", "b"), fc.constantFrom([8000], [8001, 8000], [8000, 8001])))
        .map((choice) => ({ pool: choice })),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), fc.constantFrom(3, 4096), (steps, room) => {
        const endpoints = registry(room);
        const members = new PoolMembers({ endpoints, clock: new VirtualClock() });
        const pods = new Map<string, PodSnapshot>();
        let current: PoolMembership | undefined;
        for (const one of steps) {
          if ("put" in one) {
            pods.set(one.put.name, one.put);
            members.put(one.put);
          } else if ("remove" in one) {
            pods.delete(one.remove);
            members.remove({ namespace: "ns", name: one.remove });
          } else if ("replace" in one) {
            pods.clear();
            for (const each of one.replace) pods.set(each.name, each);
            members.replace(one.replace);
          } else {
            current = one.pool === null ? undefined : pool(one.pool[0], ...one.pool[1]);
            members.usePool(current);
          }
          const wanted = current === undefined ? [] : uncontested(current, [...pods.values()]);
          const shown = endpoints.list();
          const all = new Set(wanted.map((each) => textOf(each)));
          // Where there is not room for all there are some of them, and no room is left unused.
          expect(shown).toHaveLength(Math.min(room, all.size));
          expect(shown.filter((each) => !all.has(textOf(each)))).toEqual([]);
        }
      }),
      { numRuns: 300 },
    );
  });
});

describe("pods that say they serve at the same address", () => {
  const setUp = (...ports: number[]) => {
    const endpoints = registry();
    const told: string[] = [];
    const onShared = (address: string, owner: PodSnapshot, other: PodSnapshot) =>
      void told.push(`${address} is ${owner.name}'s, not ${other.name}'s`);
    const members = new PoolMembers({ endpoints, clock: new VirtualClock(), onShared });
    members.usePool(pool("a", ...ports));
    return { endpoints, members, told };
  };

  it("are the one that started later, in whatever order they are told of; the other one comes back when that one goes", () => {
    const [old, young] = [shared("old", 10), shared("young", 11)];
    for (const come of [
      (members: PoolMembers) => [old, young].map((made) => members.put(made)),
      (members: PoolMembers) => [young, old].map((made) => members.put(made)),
      (members: PoolMembers) => members.replace([old, young]),
      (members: PoolMembers) => members.replace([young, old]),
    ]) {
      const { endpoints, members, told } = setUp(8000);
      come(members);
      expect(ids(endpoints)).toEqual(["ns/young-rank-0"]);
      expect(told).toEqual(["10.0.0.1:8000 is young's, not old's"]);
      const [before] = endpoints.list();
      members.put({ ...old, labels: { app: "a", changed: "yes" } });
      expect(endpoints.list()).toEqual([before]);
      members.put({ ...young, ready: false });
      expect(ids(endpoints)).toEqual(["ns/old-rank-0"]);
      expect(endpoints.byHostPort("10.0.0.1:8000")?.labels).toEqual({ app: "a", changed: "yes" });
      members.put(young);
      expect(ids(endpoints)).toEqual(["ns/young-rank-0"]);
      members.remove({ namespace: "ns", name: "young" });
      expect(ids(endpoints)).toEqual(["ns/old-rank-0"]);
    }
  });

  it.each([
    ["deleted", (members: PoolMembers) => members.remove({ namespace: "ns", name: "old" })],
    ["on its way out", (members: PoolMembers) => members.put(shared("old", 10, { deleting: true }))],
    ["not ready", (members: PoolMembers) => members.put(shared("old", 10, { ready: false }))],
    ["elsewhere", (members: PoolMembers) => members.put(shared("old", 10, { address: "" }))],
    ["missing from a list", (members: PoolMembers) => members.replace([shared("young", 11)])],
  ])("do not change when the one left out is %s, and it does not come back", (_, leave) => {
    const { endpoints, members } = setUp(8000);
    members.replace([shared("old", 10), shared("young", 11)]);
    const [before] = endpoints.list();
    leave(members);
    expect(endpoints.list()).toEqual([before]);
    members.remove({ namespace: "ns", name: "young" });
    expect(endpoints.size).toBe(0);
  });

  it("are one and the same for all replicas when they started in the same second", () => {
    for (const names of [
      ["a", "b"],
      ["b", "a"],
    ]) {
      const { endpoints, members } = setUp(8000);
      for (const name of names) members.put(shared(name, 10));
      expect(ids(endpoints)).toEqual(["ns/b-rank-0"]);
    }
  });

  it("are left out of more than two in the order in which they started", () => {
    const { endpoints, members } = setUp(8000);
    members.replace([shared("second", 11), shared("third", 12), shared("first", 10)]);
    for (const name of ["third", "second", "first"]) {
      expect(ids(endpoints)).toEqual([`ns/${name}-rank-0`]);
      members.remove({ namespace: "ns", name });
    }
    expect(endpoints.size).toBe(0);
  });

  it("all serve where their ports differ, as in the network of a node, and are told apart by port where some do", () => {
    const { endpoints, members, told } = setUp(8000, 8001);
    const ports = (text: string) => ({ annotations: { "llm-d.ai/active-ports": text } });
    members.put(shared("one", 10, ports("8000")));
    members.put(shared("two", 11, ports("8001")));
    expect(ids(endpoints)).toEqual(["ns/one-rank-0", "ns/two-rank-1"]);
    expect(told).toEqual([]);
    members.put(shared("one", 10));
    expect(ids(endpoints)).toEqual(["ns/one-rank-0", "ns/two-rank-1"]);
    members.put(shared("two", 11, ports("")));
    expect(ids(endpoints)).toEqual(["ns/one-rank-0", "ns/one-rank-1"]);
  });
});
