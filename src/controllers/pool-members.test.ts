import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SeededRandom } from "../clock/random.ts";
import { VirtualClock } from "../clock/virtual.ts";
import { membersOf } from "../endpoints/membership.ts";
import type { EndpointSpec } from "../endpoints/pool-endpoint.ts";
import { EndpointRegistry } from "../endpoints/registry.ts";
import type { Endpoint } from "../inference/endpoint.ts";
import type { PodSnapshot, PoolMembership } from "../inference/pod-snapshot.ts";
import { PoolMembers } from "./pool-members.ts";

const registry = (maxEndpoints = 4096) =>
  new EndpointRegistry({ clock: new VirtualClock(), random: new SeededRandom(1), maxEndpoints });

const pod = (name: string, fake: Partial<PodSnapshot> = {}): PodSnapshot => ({
  ...{ namespace: "ns", name, uid: name, labels: { app: "a" }, annotations: {} },
  ...{ address: "10.0.0.1", deleting: false, ready: true },
  ...fake,
});
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
    const members = new PoolMembers(endpoints);
    members.put(pod("one"));
    expect(endpoints.size).toBe(0);
    members.usePool(pool("a", 8000));
    expect(ids(endpoints)).toEqual(["ns/one-rank-0"]);
  });

  it("R-25: without a pool there are none, and all come back with it", () => {
    const endpoints = registry();
    const members = new PoolMembers(endpoints);
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
    const members = new PoolMembers(endpoints);
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
    const members = new PoolMembers(endpoints);
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
    const members = new PoolMembers(endpoints);
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
    const members = new PoolMembers(endpoints);
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

  it("R-22: whatever happens in whatever order, the endpoints are those of the pool and the pods there are", () => {
    const some = fc.record({
      name: fc.constantFrom("p0", "p1", "p2", "p3"),
      ready: fc.boolean(),
      deleting: fc.boolean(),
      address: fc.constantFrom("10.0.0.1", "10.0.0.2", ""),
      labels: fc.constantFrom({ app: "a" }, { app: "b" }),
      annotations: fc.constantFrom({}, { "llm-d.ai/active-ports": "8001" }),
    });
    const somePod = some.map(({ name, ...rest }) => pod(name, rest as Partial<PodSnapshot>));
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
        const members = new PoolMembers(endpoints);
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
          const wanted = current === undefined ? [] : membersOf(current, pods.values());
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
