import { describe, expect, it, vi } from "vitest";
import { clusterOfFile, type Follower, mayRead, TestCluster } from "../../../test/support/controllers/cluster.cases.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { UNKNOWN_METRICS } from "../../base/inference/endpoint.ts";
import { Collector } from "../endpoints/collector.ts";
import { GROUP } from "../resources/objects.ts";

const { cluster, place } = await clusterOfFile("ns");
const POOLS = ["inferencepools", "pool", GROUP.stable, "v1"] as const;

describe("the endpoints of a pool (api-resources 3.2-3.4)", () => {
  it("R-20: only the pool of the name and namespace is asked for and held", async () => {
    const { namespace, objects, follower } = place();
    await objects.pool({ app: "other", name: "other" });
    await place().objects.pool({ app: "elsewhere" });
    await objects.pod("one", "other");
    cluster.server.log.length = 0;
    const following = await follower().start();
    const { store, endpoints } = following;
    expect([store.pool, store.size, endpoints.size]).toEqual([undefined, 0, 0]);
    const asked = cluster.server.log.filter(({ path }) => path.endsWith("/inferencepools"));
    expect(asked.length).toBeGreaterThan(0);
    for (const { path, query } of asked) {
      expect(query["fieldSelector"]).toBe("metadata.name=pool");
      expect(path).toContain(`/namespaces/${namespace}/`);
    }
    await objects.pool({ app: "other" });
    await following.endpointsAre("one-rank-0");
    expect(store.pool?.meta.name).toBe("pool");
  });

  it("R-21, R-22: pods that were there first are taken when the pool comes; each change of a pod counts at once", async () => {
    const { objects, follower } = place();
    await objects.pod("one", "a", { address: "10.0.0.1" });
    await objects.pod("two", "a", { address: "10.0.0.2", ready: "False" });
    await objects.pod("three", "b", { address: "10.0.0.3" });
    await place().objects.pod("four", "a");
    const following = await follower().start();
    expect([following.endpoints.size, following.state.synced]).toEqual([0, false]);
    await objects.pool({ app: "a" });
    await following.endpointsAre("one-rank-0=10.0.0.1:8000");
    expect(following.state.synced).toBe(true);
    await objects.pod("two", "a", { address: "10.0.0.2" });
    await following.endpointsAre("one-rank-0", "two-rank-0");
    await objects.pod("three", "a", { address: "10.0.0.3" });
    await following.endpointsAre("one-rank-0", "two-rank-0", "three-rank-0");
    await objects.pod("one", "b");
    await following.endpointsAre("two-rank-0", "three-rank-0");
    await objects.pod("two", "a", { address: "10.0.0.2", ready: "False" });
    await following.endpointsAre("three-rank-0");
    await objects.delete("pods", "three", "");
    await following.endpointsAre();
    // Nobody there is a state like any other.
    expect(following.state.synced).toBe(true);
  });

  it("R-22: a pod that is being deleted serves no more", async () => {
    const { objects, follower } = place();
    await objects.pool({ app: "a" });
    await objects.pod("one", "a", { finalizers: ["example.com/wait"] });
    const following = await follower().start();
    await following.endpointsAre("one-rank-0");
    await objects.delete("pods", "one", "");
    await following.endpointsAre();
    expect(await cluster.server.get(objects.path("pods", "one", ""))).toBeDefined();
  });

  it("R-23: another selector or other ports choose anew, and no other change does", async () => {
    const { objects, follower } = place();
    await objects.pool({ app: "a" });
    await objects.pod("one", "a", { address: "10.0.0.1" });
    await objects.pod("two", "b", { address: "10.0.0.2" });
    const following = await follower().start();
    await following.endpointsAre("one-rank-0=10.0.0.1:8000");
    await objects.pool({ app: "b" });
    await following.endpointsAre("two-rank-0=10.0.0.2:8000");
    await objects.pool({ app: "b", ports: [8001, 8000] });
    await following.endpointsAre("two-rank-0=10.0.0.2:8001", "two-rank-1=10.0.0.2:8000");
    // The order of the ports is the rank.
    await objects.pool({ app: "b", ports: [8000, 8001] });
    await following.endpointsAre("two-rank-0=10.0.0.2:8000", "two-rank-1=10.0.0.2:8001");

    const touched = [vi.spyOn(following.endpoints, "upsert"), vi.spyOn(following.endpoints, "remove")];
    const before = following.endpoints.list();
    const pool = { app: "b", ports: [8000, 8001], picker: "another" };
    await objects.pool(pool, { labels: { some: "label" }, annotations: { some: "note" } });
    await following.until("the change", () => following.store.pool?.picker?.name === "another");
    for (const spy of touched) expect(spy).not.toHaveBeenCalled();
    expect(following.endpoints.list()).toBe(before);
  });

  it("R-24: pods whose list failed are there as soon as it succeeds, with the pool unchanged", async () => {
    const { namespace, objects, follower } = place();
    await objects.pool({ app: "a" });
    await objects.pod("one", "a");
    const path = `/api/v1/namespaces/${namespace}/pods`;
    cluster.server.failNext(4, 500, undefined, (request) => request.path === path);
    const following = follower();
    following.state.start();
    await following.until("the pool", () => following.store.synced);
    expect([following.endpoints.size, following.state.synced]).toEqual([0, false]);
    await following.endpointsAre("one-rank-0");
    expect(following.state.synced).toBe(true);
    expect(following.state.kinds()[0]).toMatchObject({ name: "pods", state: { failures: 4 } });
  });

  it("of two pods with one address the one that started later counts, and that is told; the other one comes back after it", async () => {
    const { namespace, objects, follower } = place();
    await objects.pool({ app: "a" });
    // Its node is gone, and nobody has noticed: it stays ready while its address is given to another.
    await objects.pod("old", "a", { address: "10.0.0.9" });
    const following = await follower().start();
    await following.endpointsAre("old-rank-0");
    cluster.pass(60);
    await objects.pod("young", "a", { address: "10.0.0.9" });
    await following.endpointsAre("young-rank-0=10.0.0.9:8000");
    const told = following.warnings.filter((text) => text.includes("10.0.0.9:8000"));
    expect(told).toEqual([
      `the pods ${namespace}/young and ${namespace}/old have the same address 10.0.0.9:8000; Sluice uses ${namespace}/young, which started later`,
    ]);
    // The same from a list.
    await (await follower().start()).endpointsAre("young-rank-0=10.0.0.9:8000");
    await objects.delete("pods", "young", "");
    await following.endpointsAre("old-rank-0=10.0.0.9:8000");
  });

  it("R-29: addresses of IPv6 are in brackets", async () => {
    const { objects, follower } = place();
    await objects.pool({ app: "a", ports: [8000, 8001] });
    await objects.pod("one", "a", { address: "fd00::7" });
    await (await follower().start()).endpointsAre("one-rank-0=[fd00::7]:8000", "one-rank-1=[fd00::7]:8001");
  });

  it("an empty selector of v1alpha2 takes every pod of the namespace, and says so once", async () => {
    const { namespace, objects, follower } = place();
    await objects.pod("one", "a");
    await objects.pod("two", "b");
    const following = await follower().start();
    const apiVersion = `${GROUP.experimental}/v1alpha2`;
    for (const picker of ["x", "y"]) {
      const spec = { selector: {}, targetPortNumber: 8000, extensionRef: { name: picker } };
      await cluster.server.put({ apiVersion, kind: "InferencePool", metadata: { name: "pool", namespace }, spec });
      await following.until("the pool", () => following.store.pool?.picker?.name === picker);
    }
    await following.endpointsAre("one-rank-0", "two-rank-0");
    await objects.pool({ app: "b", group: GROUP.experimental });
    await following.endpointsAre("two-rank-0");
    const spec = { selector: {}, targetPortNumber: 8000, extensionRef: { name: "z" } };
    await cluster.server.put({ apiVersion, kind: "InferencePool", metadata: { name: "pool", namespace }, spec });
    await following.endpointsAre("one-rank-0", "two-rank-0");
    expect(following.warnings.filter((text) => text.includes("selector is empty"))).toHaveLength(1);
  });

  it("without a pool the selector decides, and nothing but pods is read", async () => {
    const { namespace, objects, follower } = place();
    await objects.pod("one", "a");
    await objects.pod("two", "b");
    cluster.server.log.length = 0;
    const membership = {
      namespace,
      selects: (labels: Readonly<Record<string, string>>) => labels["app"] === "b",
      ports: [9],
    };
    const following = await follower({ source: { kind: "selector", membership } }).start();
    await following.endpointsAre("two-rank-0=10.0.0.2:9");
    expect(following.state.synced).toBe(true);
    expect(new Set(cluster.server.log.map(({ path }) => path))).toEqual(
      new Set([`/api/v1/namespaces/${namespace}/pods`]),
    );
  });

  it("R-30: whatever happened while the API server was away, the endpoints are those of its pods afterwards", async () => {
    const own = await TestCluster.start();
    const { objects, follower } = place(own);
    await objects.pool({ app: "a" });
    for (const name of ["one", "two", "three"]) await objects.pod(name, "a");
    const following = await follower().start();
    await following.endpointsAre("one-rank-0", "two-rank-0", "three-rank-0");
    await own.server.down();
    await objects.delete("pods", "one", "");
    await objects.pod("two", "b");
    await objects.pod("four", "a");
    await following.until("a failure", () => following.state.kinds()[0]!.state.failures > 0);
    expect([following.endpoints.size, following.state.synced]).toEqual([3, true]);
    await own.server.up();
    await following.endpointsAre("three-rank-0", "four-rank-0");
    await objects.delete("pods", "three", "");
    own.server.expire();
    own.server.dropWatches();
    await following.endpointsAre("four-rank-0");
    await following.close();
    await own.server.close();
  });
});

describe("a pool that goes and comes back (R-25)", () => {
  const filled = async () => {
    const { objects, follower } = place();
    await objects.pod("one", "a");
    await objects.pool({ app: "a", group: GROUP.experimental }, { finalizers: ["example.com/wait"] });
    await objects.model("chat", "chat-model");
    await objects.objective("gold", 7, GROUP.llmd, GROUP.experimental);
    const following = await follower().start();
    const all = () => {
      const { store, endpoints, state } = following;
      return [state.synced, endpoints.size, store.model("chat-model")?.model.meta.name, store.objective("gold")];
    };
    await following.endpointsAre("one-rank-0");
    expect(all()).toEqual([true, 1, "chat", 7]);
    return { objects, following, all };
  };
  const NOTHING = [false, 0, undefined, undefined];

  it("takes everything with it from the moment of its deletion on; re-created it has everything back", async () => {
    const { objects, following, all } = await filled();
    await objects.delete("inferencepools", "pool");
    expect(await cluster.server.get(objects.path("inferencepools", "pool"))).toBeDefined();
    await following.endpointsAre();
    expect(all()).toEqual(NOTHING);
    await objects.pool({ app: "a", group: GROUP.experimental }, { finalizers: [] });
    await following.until("the end of it", () => following.store.size === 2);
    expect(all()).toEqual(NOTHING);

    cluster.server.log.length = 0;
    await objects.pool({ app: "a", group: GROUP.experimental });
    await following.endpointsAre("one-rank-0");
    expect(all()).toEqual([true, 1, "chat", 7]);
    expect(cluster.server.log).toEqual([]);
  });

  it("R-28: takes the scraping of its pods with it, which no other word about a pod or a pool begins anew", async () => {
    const { namespace, objects, follower } = place();
    await objects.pod("one", "a");
    await objects.pool({ app: "a" });
    const following = await follower().start();
    await following.endpointsAre("one-rank-0");
    const { clock, endpoints } = following;
    const [scrapes, forgotten]: [string[], string[]] = [[], []];
    const collector = new Collector({
      ...{ clock, registry: endpoints, random: new SeededRandom(1) },
      metrics: { pollFailed() {}, extractFailed() {} },
      scraper: {
        scrape({ id }, done) {
          scrapes.push(id);
          const timer = clock.after(1, () =>
            done({ kind: "read", partial: false, metrics: { ...UNKNOWN_METRICS, scrapedAt: clock.now() } }),
          );
          return {
            cancel: () => timer.cancel(),
            expire: (detail) => ({ kind: "unreachable", failure: "timeout", detail }),
          };
        },
        forget: ({ id }) => void forgotten.push(id),
        close: async () => {},
      },
    });
    collector.start();
    const counted = (): number => {
      scrapes.length = 0;
      clock.advance(10_000);
      return scrapes.length;
    };
    expect(counted()).toBeGreaterThanOrEqual(10);
    const changes = () => following.state.kinds().reduce((sum, { state }) => sum + state.heardAt, 0);
    const before = changes();
    await objects.pod("one", "a", { annotations: { "example.com/note": "of no interest" } });
    await objects.pool({ app: "a", picker: "another" });
    await following.until("the change", () => following.store.pool?.picker?.name === "another" && changes() > before);
    expect([counted() >= 10, forgotten]).toEqual([true, []]);

    await objects.delete(...POOLS);
    await following.endpointsAre();
    expect([counted(), forgotten]).toEqual([0, [`${namespace}/one-rank-0`]]);
    await objects.pool({ app: "a" });
    await following.endpointsAre("one-rank-0");
    expect(counted()).toBeGreaterThanOrEqual(10);
    await collector.close();
  });

  it("what changed while it was away counts when it is back", async () => {
    const { objects, following, all } = await filled();
    await objects.pool({ app: "a", group: GROUP.experimental }, { finalizers: [] });
    await objects.delete("inferencepools", "pool");
    await following.endpointsAre();
    await objects.pod("one", "b");
    await objects.pod("two", "a");
    await objects.objective("gold", 9, GROUP.llmd, GROUP.experimental);
    await objects.delete("inferencemodels", "chat");
    await following.until("the changes", () => following.store.size === 1);
    await objects.pool({ app: "a", group: GROUP.experimental });
    await following.endpointsAre("two-rank-0");
    expect(all()).toEqual([true, 1, undefined, 9]);
  });
});

describe("why a picker is not ready (api-resources 3.6)", () => {
  it("is told once for each time that there is no pool, and so is that there is one", async () => {
    const { namespace, objects, follower } = place();
    const following = await follower({ source: { kind: "pool", name: "pool", group: GROUP.stable } }).start();
    const group = `of group ${GROUP.stable}`;
    const missing = `not ready: the InferencePool ${namespace}/pool ${group} is not visible, or is being deleted`;
    const served = `this process serves the InferencePool ${namespace}/pool ${group}`;
    const told = () => [...following.warnings, ...following.infos].filter((text) => text.includes("InferencePool "));
    expect(told()).toEqual([missing]);
    await objects.pool({ app: "a" });
    await following.until("the pool", () => following.store.synced);
    await objects.pool({ app: "b" });
    await objects.objective("gold", 1);
    await following.until("the objective", () => following.store.objective("gold") === 1);
    expect(told()).toEqual([missing, served]);
    await objects.delete(...POOLS);
    await following.until("its end", () => !following.store.synced);
    expect(told()).toEqual([missing, missing, served]);
  });

  it("is not told while it is not known", async () => {
    const { objects, follower } = place();
    await objects.pool({ app: "a" });
    const following = await follower().start();
    expect(following.store.synced).toBe(true);
    expect(following.warnings.filter((text) => text.includes("not ready"))).toEqual([]);
  });
});

describe("a pool in both groups (api-resources 3.1)", () => {
  it("is that of the newer group for as long as there is one", async () => {
    const { objects, follower } = place();
    await objects.pod("one", "a");
    await objects.pool({ app: "a", ports: [8000], group: GROUP.experimental });
    const following = await follower().start();
    await following.endpointsAre("one-rank-0=10.0.0.1:8000");
    await objects.pool({ app: "a", ports: [9000] });
    await following.endpointsAre("one-rank-0=10.0.0.1:9000");
    await objects.pool({ app: "b", group: GROUP.experimental });
    await objects.delete(...POOLS);
    await following.endpointsAre();
    await objects.pool({ app: "a", group: GROUP.experimental });
    await following.endpointsAre("one-rank-0=10.0.0.1:8000");
  });

  it("is that of the group that was asked for, and the other is not even read", async () => {
    const { objects, follower } = place();
    await objects.pod("one", "a");
    await objects.pool({ app: "a", ports: [9000] });
    await objects.pool({ app: "a", ports: [8000], group: GROUP.experimental });
    cluster.server.log.length = 0;
    const source = { kind: "pool", name: "pool", group: GROUP.experimental } as const;
    await (await follower({ source }).start()).endpointsAre("one-rank-0=10.0.0.1:8000");
    expect(cluster.server.log.filter(({ path }) => path.includes(`${GROUP.stable}/`))).toEqual([]);
  });
});

describe("readiness (api-resources 3.6)", () => {
  it("waits for the objects, too", async () => {
    const { namespace, objects, follower } = place();
    await objects.pool({ app: "a" });
    await objects.pod("one", "a");
    const path = `/apis/${GROUP.llmd}/v1alpha2/namespaces/${namespace}/inferencemodelrewrites`;
    cluster.server.failNext(1, 503, undefined, (request) => request.path === path);
    const following = follower();
    const others = () => following.state.kinds().filter(({ name }) => name !== `inferencemodelrewrites.${GROUP.llmd}`);
    following.state.start();
    // Without time passing nothing is tried again.
    await following.until(
      "all but one to be seen",
      () =>
        others().every(({ state }) => state.synced) &&
        failuresOf(following, `inferencemodelrewrites.${GROUP.llmd}`) > 0,
      0,
    );
    expect([following.endpoints.size, following.store.synced, following.state.synced]).toEqual([1, true, false]);
    await following.until("the last one", () => following.state.synced);
  });

  it("waits for pods and objects, and for no kind that cannot be read", async () => {
    const { namespace, objects, follower } = place();
    await objects.pool({ app: "a" });
    await objects.pod("one", "a");
    const objectives = `/apis/${GROUP.llmd}/v1alpha2/namespaces/${namespace}/inferenceobjectives`;
    cluster.server.failNext(1000, 500, undefined, ({ path }) => path === objectives);
    const following = follower();
    following.state.start();
    await following.until("all to be seen", () => following.state.synced);
    expect(following.endpoints.size).toBe(1);
    const states = new Map(following.state.kinds().map(({ name, state }) => [name, state]));
    expect(states.get("inferenceobjectives.llm-d.ai")).toMatchObject({ synced: false, absent: false });
  });
});

describe("permissions (R-38)", () => {
  const PODS = (namespace: string) => mayRead(namespace, "", "pods");
  const generations: [string, string, (namespace: string) => ReturnType<typeof mayRead>[]][] = [
    [
      "v0.3",
      GROUP.experimental,
      (ns) => [PODS(ns), mayRead(ns, GROUP.experimental, "inferencepools", "inferencemodels")],
    ],
    [
      "v1.0 to v1.5",
      GROUP.stable,
      (ns) => [
        PODS(ns),
        mayRead(ns, GROUP.stable, "inferencepools"),
        mayRead(ns, GROUP.experimental, "inferencepools", "inferenceobjectives", "inferencemodelrewrites"),
      ],
    ],
    [
      "llm-d",
      GROUP.stable,
      (ns) => [
        PODS(ns),
        mayRead(ns, GROUP.stable, "inferencepools"),
        mayRead(ns, GROUP.llmd, "inferenceobjectives", "inferencemodelrewrites"),
      ],
    ],
    ["conformance", GROUP.stable, (ns) => [PODS(ns), mayRead(ns, GROUP.stable, "inferencepools")]],
  ];

  it.each(generations)(
    "%s: has nothing to warn of where the cluster has the kinds of its charts",
    async (_, group, rules) => {
      const own = await TestCluster.start((file) =>
        rules("").some(({ apiGroups, resources }) =>
          resources?.some((name) => file === `${name}.${apiGroups?.[0]}.yaml`),
        ),
      );
      const { namespace, objects, follower } = place(own);
      await objects.pool({ app: "a", group });
      await objects.pod("one", "a");
      const token = `token-${namespace}`;
      await own.server.users.addUser(token, { name: `epp-${namespace}`, rules: rules(namespace) });
      const following = await follower({ token }).start();
      await following.endpointsAre("one-rank-0");
      expect([following.warnings, following.errors]).toEqual([[], []]);
      await following.close();
      await own.server.close();
    },
  );

  it.each(generations)(
    "%s: serves with what its charts permit, and tells once of each kind beyond",
    async (chart, group, rules) => {
      const { namespace, objects, follower } = place();
      await objects.pod("one", "a");
      await objects.pool({ app: "a", group });
      await objects.model("chat", "chat-model");
      await objects.objective("old", 3, GROUP.experimental, group);
      await objects.objective("new", 5, GROUP.llmd, group);
      const token = `token-${namespace}`;
      await cluster.server.users.addUser(token, { name: `epp-${namespace}`, rules: rules(namespace) });
      const following = await follower({ token }).start();
      await following.endpointsAre("one-rank-0");
      const { store, state, warnings, errors } = following;
      expect(state.synced).toBe(true);
      const found = {
        model: store.model("chat-model")?.model.meta.name,
        old: store.objective("old"),
        new: store.objective("new"),
      };
      const EXPECTED: Record<string, object> = {
        "v0.3": { model: "chat" },
        "v1.0 to v1.5": { old: 3 },
        "llm-d": { new: 5 },
        conformance: {},
      };
      expect(found).toEqual({ model: undefined, old: undefined, new: undefined, ...EXPECTED[chart] });
      const missing = state.kinds().filter((kind) => kind.state.absent);
      const refusals = () => warnings.filter((text) => text.includes("forbidden"));
      expect(refusals()).toHaveLength(missing.length);
      for (const { name } of missing) expect(refusals().filter((text) => text.startsWith(name))).toHaveLength(1);
      await following.until("another look", () => missing.every(({ name }) => failuresOf(following, name) > 1), 30_000);
      expect(refusals()).toHaveLength(missing.length);
      expect(errors).toEqual([]);
    },
  );
});

function failuresOf({ state }: Follower, kind: string): number {
  return state.kinds().find(({ name }) => name === kind)!.state.failures;
}
