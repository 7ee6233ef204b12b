import { describe, expect, it, vi } from "vitest";
import { clusterOfFile, type Follower, mayRead, TestCluster } from "../../../test/support/controllers/cluster.cases.ts";
import { poll } from "../../../test/support/poll.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import { objectivesFromFlags } from "../resources/objectives.ts";
import { GROUP } from "../resources/objects.ts";
import { ModelResolver } from "../resources/resolve.ts";

const { cluster, place } = await clusterOfFile("watched");

/** What a request with these headers for this model would be. */
function resolved({ store }: Follower, model: string, headers: Readonly<Record<string, string>> = {}) {
  const resolver = new ModelResolver({
    random: new SeededRandom(1),
    objectives: objectivesFromFlags([]),
    resources: store,
  });
  const body = { model, modelRange: { start: 0, end: 1 }, modelInsertAt: -1 };
  return resolver.resolve(body, HeaderList.of(Object.entries(headers)));
}

describe("InferenceModels", () => {
  /** What becomes of a request for this model: `target priority`, or the status it is refused with. */
  const answer = (following: Follower, model = "chat"): string => {
    const made = resolved(following, model);
    return made instanceof Rejection ? `${made.status}` : `${made.targetModel} ${made.priority}`;
  };
  const started = async () => {
    const { objects, follower } = place();
    await objects.pool({ app: "a", group: GROUP.experimental });
    return { objects, follower };
  };

  it("R-8, R-10, R-14: the oldest counts from the moment it is seen, as it is at the moment, and after it the next; none is 404", async () => {
    const { objects, follower } = await started();
    // A name that somebody has taken makes all others unknown.
    await objects.model("other", "another");
    cluster.pass(60);
    await objects.model("second", "chat", { targets: ["from-second"] });
    const following = await follower().start();
    expect([answer(following), answer(following, "nobody")]).toEqual(["from-second 0", "404"]);
    cluster.pass(60);
    await objects.model("third", "chat", { targets: ["from-third"] });
    cluster.pass(-120);
    await objects.model("first", "chat", { targets: ["from-first"] });
    cluster.pass(120);
    await following.until("the oldest", () => answer(following) === "from-first 0");
    await objects.model("third", "chat", { targets: ["changed-third"], criticality: "Critical" });
    await objects.model("first", "chat", { targets: ["changed-first"], criticality: "Sheddable" });
    await following.until("its change", () => answer(following) === "changed-first -1");
    await objects.model("first", "chat", { pool: "elsewhere" });
    await following.until("the second", () => answer(following) === "from-second 0");
    // Being deleted, with somebody who holds it, is being gone.
    await objects.model("second", "chat", { targets: ["from-second"], meta: { finalizers: ["example.com/wait"] } });
    await objects.delete("inferencemodels", "second");
    await following.until("the third", () => answer(following) === "changed-third 1");
    expect(await cluster.server.get(objects.path("inferencemodels", "second"))).toBeDefined();
    await objects.delete("inferencemodels", "third");
    await following.until("none", () => answer(following) === "404");
  });

  it("R-11, R-12: one that is deleted and made anew is young, and leaves nothing under the name it had, told of or only listed", async () => {
    for (const away of [false, true]) {
      const own = await TestCluster.start();
      const { objects, follower } = place(own);
      await objects.pool({ app: "a", group: GROUP.experimental });
      await objects.model("winner", "chat", { targets: ["winner"] });
      await objects.model("alone", "once");
      own.pass(60);
      await objects.model("rival", "chat", { targets: ["rival"] });
      const following = await follower().start();
      expect([answer(following), answer(following, "once")]).toEqual(["winner 0", "once 0"]);
      own.pass(60);
      if (away) await own.server.down();
      for (const name of ["winner", "alone"]) await objects.delete("inferencemodels", name);
      await objects.model("winner", "chat", { targets: ["winner"] });
      await objects.model("alone", "then");
      if (away) own.server.expire();
      if (away) await own.server.up();
      await following.until("the rival", () => answer(following) === "rival 0");
      await following.until("the other name", () => answer(following, "then") === "then 0");
      expect(answer(following, "once")).toBe("404");
      await following.close();
      await own.server.close();
    }
  });

  it("R-9: of one age they are decided alike by whoever looks, whenever it began to", async () => {
    const { objects, follower } = await started();
    await objects.model("b", "chat", { targets: ["b"] });
    const early = await follower().start();
    await objects.model("c", "chat", { targets: ["c"] });
    await objects.model("a", "chat", { targets: ["a"] });
    await early.until("the first by name", () => answer(early) === "a 0");
    const late = await follower().start();
    expect(answer(late)).toBe("a 0");
  });

  it("R-13: those of other pools and namespaces have no effect", async () => {
    const { objects, follower } = await started();
    const neighbour = place().objects;
    await neighbour.model("theirs", "chat", { targets: ["theirs"] });
    await objects.model("strange", "chat", { targets: ["strange"], pool: "other" });
    cluster.pass(60);
    await objects.model("ours", "chat", { targets: ["ours"] });
    const following = await follower().start();
    expect(answer(following)).toBe("ours 0");
    await objects.delete("inferencemodels", "strange");
    await neighbour.delete("inferencemodels", "theirs");
    await objects.model("last", "last");
    await following.until("the last one", () => answer(following, "last") === "last 0");
    expect(answer(following)).toBe("ours 0");
  });
});

describe("InferenceObjectives (R-32)", () => {
  it("count by name in either header, and only those of the pool", async () => {
    const { objects, follower } = place();
    await objects.pool({ app: "a" });
    await objects.objective("gold", 7);
    await objects.objective("plain", undefined);
    await objects.objective("strange", 9, GROUP.llmd, GROUP.experimental);
    await place().objects.objective("elsewhere", 9);
    const following = await follower().start();
    const priority = (header: string, name: string) => resolved(following, "m", { [header]: name });
    for (const header of ["x-llm-d-inference-objective", "x-gateway-inference-objective"]) {
      expect(priority(header, "gold")).toMatchObject({ priority: 7, objective: "gold" });
      expect(priority(header, "plain")).toMatchObject({ priority: 0, objective: "plain" });
      for (const unknown of ["strange", "elsewhere", "nobody"])
        expect(priority(header, unknown)).toMatchObject({ priority: 0, objective: "" });
    }
    await objects.objective("gold", -2);
    await following.until("the change", () => following.store.objective("gold") === -2);
    await objects.delete("inferenceobjectives", "gold", GROUP.llmd);
    await following.until("the end of it", () => following.store.objective("gold") === undefined);
  });
});

describe("InferenceModelRewrites (R-33)", () => {
  it("exact over generic, older over newer, and what is left after deletion", async () => {
    const { objects, follower } = place();
    await objects.pool({ app: "a" });
    await objects.rewrite("all", undefined, "generic");
    cluster.pass(10);
    await objects.rewrite("older", "chat", "chat-v1");
    cluster.pass(10);
    // By name it would be first.
    await objects.rewrite("a-newer", "chat", "chat-v2");
    const following = await follower().start();
    const target = () => resolved(following, "chat");
    expect(target()).toMatchObject({ targetModel: "chat-v1" });
    await objects.delete("inferencemodelrewrites", "older", GROUP.llmd);
    await following.until("the newer one", () => following.store.rewrite("chat")?.rewrite === "a-newer");
    expect(target()).toMatchObject({ targetModel: "chat-v2" });
    await objects.delete("inferencemodelrewrites", "a-newer", GROUP.llmd);
    await following.until("the generic one", () => following.store.rewrite("chat")?.rewrite === "all");
    expect(target()).toMatchObject({ targetModel: "generic" });
    await objects.delete("inferencemodelrewrites", "all", GROUP.llmd);
    await following.until("none", () => following.store.rewrite("chat") === undefined);
    expect(target()).toMatchObject({ targetModel: "chat" });
  });
});

describe("kinds that are not there (R-31)", () => {
  it("keep nothing from starting, are told of once each without a warning, and count from when they come", async () => {
    const own = await TestCluster.start((file) => file === `inferencepools.${GROUP.stable}.yaml`);
    const { objects, follower } = place(own);
    await objects.pool({ app: "a" });
    await objects.pod("one", "a");
    const following = await follower().start();
    await following.endpointsAre("one-rank-0");
    expect(following.state.synced).toBe(true);
    const absent = () => following.state.kinds().filter(({ state }) => state.absent);
    const missing = absent().map(({ name }) => name);
    expect(missing.sort()).toEqual([
      `inferencemodelrewrites.${GROUP.experimental}`,
      `inferencemodelrewrites.${GROUP.llmd}`,
      `inferencemodels.${GROUP.experimental}`,
      `inferenceobjectives.${GROUP.experimental}`,
      `inferenceobjectives.${GROUP.llmd}`,
      `inferencepools.${GROUP.experimental}`,
    ]);
    await following.until("other looks", () => absent().every(({ state }) => state.failures > 2), 30_000);
    const told = (texts: readonly string[]) =>
      texts.filter((text) => text.includes("cannot be read; Sluice tries again")).map((text) => text.split(" ", 1)[0]);
    expect([told(following.warnings), told(following.infos).sort()]).toEqual([[], missing]);

    await own.install((file) => file.startsWith("inferenceobjectives"));
    await objects.objective("gold", 7);
    await following.until("the objective", () => following.store.objective("gold") === 7, 30_000);
    await following.close();
    await own.server.close();
  });

  it("are none while another group has the kind: that one counts, until the newer one is there", async () => {
    const own = await TestCluster.start((file) => !file.endsWith(`${GROUP.llmd}.yaml`));
    const { objects, follower } = place(own);
    await objects.pool({ app: "a" });
    await objects.objective("gold", 3, GROUP.experimental);
    const following = follower();
    // That there is nothing of the newer group comes to light last.
    const request = following.api.request.bind(following.api);
    const older = () =>
      following.state.kinds().find(({ name }) => name === `inferenceobjectives.${GROUP.experimental}`);
    vi.spyOn(following.api, "request").mockImplementation(async (asked) => {
      if (asked.path.startsWith(`/apis/${GROUP.llmd}/`)) await poll("the older group", () => older()?.state.synced);
      return request(asked);
    });
    following.state.start();
    await following.until("the objective, at once", () => following.store.objective("gold") === 3, 0);
    const deprecated = () => following.infos.filter((text) => text.includes("deprecated"));
    await following.until("both notices", () => deprecated().length === 2);
    expect(deprecated()).toEqual([
      `inferenceobjectives.${GROUP.experimental} are deprecated; use the group ${GROUP.llmd}`,
      `inferencemodelrewrites.${GROUP.experimental} are deprecated; use the group ${GROUP.llmd}`,
    ]);
    expect(following.warnings.some((text) => text.includes("have no effect"))).toBe(false);

    await own.install((file) => file.endsWith(`${GROUP.llmd}.yaml`));
    await objects.objective("silver", 1);
    await following.until("the newer group", () => following.store.objective("silver") === 1, 30_000);
    expect(following.store.objective("gold")).toBeUndefined();
    await following.close();
    await own.server.close();
  });
});

describe("a kind in two groups (R-31)", () => {
  it("is that of llm-d.ai; objects of the other are told to be without effect by their names, once each", async () => {
    const { namespace, objects, follower } = place();
    await objects.pool({ app: "a" });
    await objects.objective("gold", 3, GROUP.experimental);
    await objects.objective("old", 4, GROUP.experimental);
    await objects.objective("gold", 7);
    // The older group answers first.
    const path = `/apis/${GROUP.llmd}/v1alpha2/namespaces/${namespace}/inferenceobjectives`;
    cluster.server.failNext(2, 503, undefined, (request) => request.path === path);
    const seen = new Set<number | undefined>();
    const following = follower();
    following.store.onChange(() => seen.add(following.store.objective("gold")));
    await following.start();
    await following.until("the objective", () => following.store.objective("gold") !== undefined);
    expect([...seen].filter((priority) => priority !== undefined)).toEqual([7]);
    expect(following.store.objective("old")).toBeUndefined();
    await following.until("a word", () => following.warnings.some((text) => text.includes("have no effect")));
    const known = () =>
      following.state.kinds().find(({ name }) => name === `inferenceobjectives.${GROUP.experimental}`)!.state.objects;
    await objects.objective("older", 4, GROUP.experimental);
    await following.until("a third", () => known() === 3);
    const told = () => following.warnings.filter((text) => text.includes("have no effect"));
    await following.until("a word about it", () => told().length === 2);
    await objects.delete("inferenceobjectives", "gold");
    await following.until("its end", () => known() === 2);
    following.clock.advance(20_000);
    expect([following.store.objective("gold"), following.store.objective("older")]).toEqual([7, undefined]);
    const word = (names: string) =>
      `the API server has inferenceobjectives.${GROUP.llmd}, so these inferenceobjectives.${GROUP.experimental} have no effect: ${names}; create them again in the group ${GROUP.llmd}`;
    expect(told()).toEqual([word("gold, old"), word("gold, old, older")]);
    expect(following.infos.filter((text) => text.includes("deprecated"))).toEqual([]);
  });

  it("names ten of the objects that the definitions of llm-d.ai switch off, and counts the rest (bound)", async () => {
    const own = await TestCluster.start((file) => !file.endsWith(`${GROUP.llmd}.yaml`));
    const { objects, follower } = place(own);
    await objects.pool({ app: "a" });
    for (let at = 10; at < 22; at++) await objects.objective(`o${at}`, at, GROUP.experimental);
    const following = await follower().start();
    await following.until("the objectives", () => following.store.objective("o21") === 21);
    const told = () => following.warnings.filter((text) => text.includes("have no effect"));
    expect(told()).toEqual([]);
    await own.install((file) => file.endsWith(`${GROUP.llmd}.yaml`));
    await following.until("a word", () => told().length > 0, 30_000);
    expect(told()[0]).toContain(" have no effect: o10, o11, o12, o13, o14, o15, o16, o17, o18, o19 and 2 more; create");
    expect(following.store.objective("o21")).toBeUndefined();
    following.clock.advance(60_000);
    expect(told()).toHaveLength(1);
    await following.close();
    await own.server.close();
  });

  it("is the other one while that of llm-d.ai cannot be found out about", async () => {
    const { namespace, objects, follower } = place();
    await objects.pool({ app: "a" });
    await objects.objective("gold", 3, GROUP.experimental);
    const path = `/apis/${GROUP.llmd}/v1alpha2/namespaces/${namespace}/inferenceobjectives`;
    cluster.server.failNext(1000, 500, undefined, (request) => request.path === path);
    const following = follower();
    following.state.start();
    await following.until("the objective", () => following.store.objective("gold") === 3);
  });
});

describe("a kind that may be read no longer", () => {
  it.each([
    ["stays as it was last known", 7],
    ["stays without objects where there were none", undefined],
  ] as const)("%s, also where there is an older group of it", async (_, priority) => {
    const { namespace, objects, follower } = place();
    await objects.pool({ app: "a" });
    if (priority !== undefined) await objects.objective("gold", priority);
    await objects.objective("old", 3, GROUP.experimental);
    const name = `reader-${namespace}`;
    const old = ["inferencepools", "inferencemodels", "inferenceobjectives", "inferencemodelrewrites"];
    const least = [
      mayRead(namespace, "", "pods"),
      mayRead(namespace, GROUP.stable, "inferencepools"),
      mayRead(namespace, GROUP.experimental, ...old),
    ];
    await cluster.server.users.addUser(name, { name, rules: [...least, mayRead(namespace, GROUP.llmd, "*")] });
    const following = await follower({ token: name }).start();
    const held = () => [following.store.objective("gold"), following.store.objective("old")];
    expect(held()).toEqual([priority, undefined]);
    await cluster.server.users.addUser(name, { name, rules: least });
    cluster.server.dropWatches();
    const objectives = () => following.state.kinds().find(({ name }) => name === `inferenceobjectives.${GROUP.llmd}`)!;
    await following.until("the refusal to count", () => objectives().state.absent, 10_000);
    expect(objectives().state.kept).toBe(true);
    following.clock.advance(20_000);
    expect(held()).toEqual([priority, undefined]);
    const kept = "Sluice uses their last known state";
    expect(following.warnings.filter((text) => text.includes(kept)).map((text) => text.split(" ", 1)[0])).toContain(
      `inferenceobjectives.${GROUP.llmd}`,
    );

    // With the right back, what happened meanwhile counts.
    await objects.objective("gold", 9);
    await cluster.server.users.addUser(name, { name, rules: [...least, mayRead(namespace, GROUP.llmd, "*")] });
    await following.until("the objective", () => following.store.objective("gold") === 9, 10_000);
    expect(objectives().state).toMatchObject({ absent: false, kept: false });
  });
});

describe("more objects than are kept", () => {
  it("change nothing, and are told of now and then", async () => {
    const { objects, follower } = place();
    await objects.pool({ app: "a" });
    await objects.objective("gold", 7);
    const following = await follower().start();
    await following.until("the objective", () => following.store.objective("gold") === 7);
    vi.spyOn(following.store, "put").mockImplementation(() => {
      throw new SluiceError("RESOURCE_LIMIT", "more than 2 API objects");
    });
    const known = () =>
      following.state.kinds().find(({ name }) => name === `inferenceobjectives.${GROUP.llmd}`)!.state.objects;
    for (let at = 0; at < 20; at++) await objects.objective(`more-${at}`, at);
    await following.until("all of them", () => known() === 21, 0);
    expect(following.errors).toEqual(["Sluice keeps the previous API objects: more than 2 API objects"]);
    expect(following.store.objective("gold")).toBe(7);
  });
});

describe("more objects than there is room for", () => {
  it("keep no pool out, and count when others have gone: no event of their own is needed (bound)", async () => {
    const { objects, follower } = place();
    for (const [at, name] of ["a", "b", "c"].entries()) {
      await objects.objective(name, at);
      cluster.pass(1);
    }
    const following = await follower({ maxObjects: 2 }).start();
    await objects.pool({ app: "a" });
    await following.until("the pool", () => following.state.synced);
    const held = () => ["a", "b", "c"].filter((name) => following.store.objective(name) !== undefined);
    expect(held()).toEqual(["a", "b"]);
    expect(following.errors).toEqual([
      `no room for more objects: the 1 youngest of 3 inferenceobjectives.${GROUP.llmd} have no effect`,
    ]);
    await objects.delete("inferenceobjectives", "a", GROUP.llmd);
    await following.until("the youngest", () => held().join() === "b,c", 1000);
    await objects.rewrite("r", "x", "y");
    await following.until("the refusal", () => following.errors.length === 2, 0);
    expect(following.errors[1]).toBe(
      "Sluice keeps the previous API objects: there are more than 2 API objects, the limit",
    );
    await objects.delete("inferenceobjectives", "b", GROUP.llmd);
    await following.until("the rewrite", () => following.store.rewrite("x"), 1000);
  });

  it("are not those of other pools, which are not kept", async () => {
    const { objects, follower } = place();
    await objects.pool({ app: "a", group: GROUP.experimental });
    await objects.model("theirs", "their-model", { pool: "other" });
    await objects.model("ours", "our-model");
    const following = await follower().start();
    expect([following.store.size, following.store.model("our-model")?.model.meta.name]).toEqual([2, "ours"]);
    // Pointed at ours, it is one of ours.
    await objects.model("theirs", "their-model");
    await following.until("the model", () => following.store.model("their-model"));
    await objects.model("theirs", "their-model", { pool: "other" });
    await following.until("its end", () => following.store.size === 2);
    expect(following.store.model("their-model")).toBeUndefined();
  });
});

describe("objects that cannot be read", () => {
  it("count as not there and are told of once per change, however often they are listed", async () => {
    const own = await TestCluster.start();
    const { namespace, objects, follower } = place(own);
    await objects.pool({ app: "a", group: GROUP.experimental });
    await objects.model("chat", "chat-model");
    const broken = (priority: number | undefined) =>
      own.server.put({
        apiVersion: `${GROUP.experimental}/v1alpha2`,
        kind: "InferenceModel",
        metadata: { name: "broken", namespace },
        ...(priority === undefined ? {} : { spec: { modelName: "late-model", poolRef: { name: "pool" } } }),
      });
    await broken(undefined);
    const following = await follower().start();
    const told = () => following.warnings.filter((text) => text.startsWith(`InferenceModel ${namespace}/broken`));
    expect(following.store.models().next().value?.model.meta.name).toBe("chat");
    expect(told()).toHaveLength(1);
    await objects.pod("one", "a");
    own.server.expire();
    own.server.dropWatches();
    const lists = () => following.state.kinds().find(({ name }) => name.startsWith("inferencemodels."))!.state.lists;
    await following.until("another list", () => lists() > 1);
    expect(told()).toHaveLength(1);
    await broken(1);
    await following.until("the model", () => following.store.model("late-model"));
    await broken(undefined);
    await following.until("its end", () => following.store.model("late-model") === undefined);
    expect(told()).toHaveLength(2);
    await following.close();
    await own.server.close();
  });
});
