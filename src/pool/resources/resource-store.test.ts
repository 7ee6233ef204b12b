import { describe, expect, it } from "vitest";
import {
  madeModel,
  madeObjective,
  madePool,
  madeRewrite,
  rule,
  targets,
} from "../../../test/support/resources/made.cases.ts";
import { GROUP, type InferenceModel } from "./objects.ts";
import { ResourceStore } from "./resource-store.ts";

type ModelOptions = NonNullable<Parameters<typeof madeModel>[2]>;

/** An InferenceModel for the model name `chat`, created at `created` seconds. */
const chat = (name: string, created: number, more: ModelOptions = {}) =>
  madeModel(name, "chat", { ...more, meta: { creationTimestamp: created * 1000, ...more.meta } });

function storeOf(...objects: Parameters<ResourceStore["put"]>[0][]) {
  const notices: string[] = [];
  const store = new ResourceStore({ notice: (text) => notices.push(text) });
  store.put(madePool());
  for (const object of objects) store.put(object);
  const winner = (modelName = "chat"): string => store.model(modelName)?.model.meta.name ?? "none";
  return { store, notices, winner };
}

describe("conflicts between InferenceModels, row by row (api-resources 2.2)", () => {
  it("the first object for a name becomes the winner", () => {
    expect(storeOf(chat("a", 5)).winner()).toBe("a");
  });

  it("a newer object with the same name stays the loser (R-8)", () => {
    expect(storeOf(chat("a", 5), chat("b", 6)).winner()).toBe("a");
  });

  it("an older object that is observed later takes over (R-8)", () => {
    expect(storeOf(chat("a", 5), chat("b", 4)).winner()).toBe("b");
  });

  it("an update of the winner counts at once, one of a loser does not (R-14)", () => {
    const { store, winner } = storeOf(chat("a", 5), chat("b", 6));
    store.put(chat("b", 6, { criticality: "Sheddable" }));
    expect(store.model("chat")?.model.criticality).toBeUndefined();
    store.put(chat("a", 5, { criticality: "Critical", targets: targets("t") }));
    expect([winner(), store.model("chat")?.model.criticality]).toEqual(["a", "Critical"]);
    expect(store.model("chat")?.draw?.draw({ next: () => 0, below: () => 0 })).toBe("t");
  });

  it("a winner that goes, ends or refers to another pool makes room for the next oldest, at last for none (R-10)", () => {
    const { store, winner } = storeOf(chat("a", 1), chat("b", 2), chat("c", 3), chat("d", 4));
    store.remove(chat("a", 1));
    expect(winner()).toBe("b");
    store.put(chat("b", 2, { meta: { deleting: true, creationTimestamp: 2000 } }));
    expect(winner()).toBe("c");
    store.put(chat("c", 3, { poolRef: { name: "elsewhere" } }));
    expect(winner()).toBe("d");
    store.remove(chat("d", 4));
    expect(winner()).toBe("none");
    store.put(chat("c", 3));
    expect(winner()).toBe("c");
  });

  it("a loser that goes changes nothing", () => {
    const { store, winner } = storeOf(chat("a", 1), chat("b", 2));
    store.remove(chat("b", 2));
    expect(winner()).toBe("a");
  });

  it("a winner deleted and made anew, newer than its rival, loses; seen as one change, too (R-11)", () => {
    const apart = storeOf(chat("a", 1), chat("b", 2));
    apart.store.remove(chat("a", 1));
    apart.store.put(chat("a", 3));
    expect(apart.winner()).toBe("b");
    const together = storeOf(chat("a", 1), chat("b", 2));
    together.store.put(chat("a", 3));
    expect(together.winner()).toBe("b");
  });

  it("an object made anew with another modelName leaves its old one (R-12)", () => {
    const { store, winner } = storeOf(chat("a", 1));
    store.put(madeModel("a", "code"));
    expect([winner("chat"), winner("code")]).toEqual(["none", "a"]);
    store.put(madeModel("a", ""));
    expect([winner("code"), winner("")]).toEqual(["none", "none"]);
  });

  it("the same modelName for another pool or namespace has no effect (R-13)", () => {
    const { winner, store } = storeOf(
      chat("a", 5),
      chat("b", 1, { poolRef: { name: "other" } }),
      chat("c", 1, { meta: { namespace: "x", creationTimestamp: 1 } }),
      chat("a", 1, { meta: { namespace: "x", creationTimestamp: 1 } }),
    );
    expect(winner()).toBe("a");
    store.remove(chat("a", 1, { meta: { namespace: "x" } }));
    expect([winner(), store.model("chat")?.model.meta.namespace]).toEqual(["a", "default"]);
  });

  it("an event for an unknown object does nothing", () => {
    const { store, winner } = storeOf(chat("a", 1));
    let events = 0;
    store.onChange(() => events++);
    for (const unknown of [chat("z", 1), madeObjective("z", 1), madeRewrite("z", []), madePool("z")])
      store.remove(unknown);
    expect([winner(), events]).toEqual(["a", 0]);
  });

  it("objects of one age are decided by name, then uid, in any order of arrival (R-9)", () => {
    const pair = [chat("a", 5), chat("b", 5)];
    expect([storeOf(...pair).winner(), storeOf(...pair.toReversed()).winner()]).toEqual(["a", "a"]);
    const replaced = new ResourceStore();
    replaced.replace([madePool(), ...pair.toReversed()]);
    expect(replaced.model("chat")?.model.meta.name).toBe("a");
  });

  it("whatever the order of events, the winner is the oldest there is (E-111)", () => {
    const objects = [3, 1, 2, 1, 5].map((created, i) => chat(`m${i}`, created));
    for (let shift = 0; shift < objects.length; shift++) {
      const { store, winner } = storeOf(...objects.slice(shift), ...objects.slice(0, shift));
      for (const [gone, next] of [
        ["m1", "m3"],
        ["m3", "m2"],
        ["m2", "m0"],
        ["m0", "m4"],
        ["m4", "none"],
      ] as const) {
        store.remove(objects.find(({ meta }) => meta.name === gone) as InferenceModel);
        expect(winner()).toBe(next);
      }
    }
  });
});

describe("which objects belong to the pool (api-resources 2.1, R-32)", () => {
  it("InferenceModels need name, namespace, group and kind; the others no kind", () => {
    const { store, winner, notices } = storeOf(
      chat("group", 1, { poolRef: { group: GROUP.stable } }),
      chat("kind", 1, { poolRef: { kind: "Service" } }),
      madeObjective("kind", 1, { poolRef: { kind: "Service" } }),
      madeObjective("group", 1, { poolRef: { group: GROUP.stable } }),
      madeObjective("name", 1, { poolRef: { name: "other" } }),
      madeObjective("namespace", 1, { meta: { namespace: "x" } }),
      madeObjective("ending", 1, { meta: { deleting: true } }),
      madeRewrite("group", [rule("m", "x")], { poolRef: { group: GROUP.stable } }),
    );
    expect(winner()).toBe("none");
    expect(["kind", "group", "name", "namespace", "ending"].map((name) => store.objective(name))).toEqual([
      1,
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
    expect(store.rewrite("m")).toBeUndefined();
    expect(notices.map((text) => text.split(" ").slice(0, 2).join(" "))).toEqual([
      "InferenceModel default/group",
      "InferenceModel default/kind",
      "InferenceObjective default/group",
      "InferenceModelRewrite default/group",
    ]);
    expect(notices[0]).toBe(
      "InferenceModel default/group has no effect: it refers to InferencePool pool of group inference.networking.k8s.io, but " +
        "this process serves InferencePool pool of group inference.networking.x-k8s.io",
    );
  });

  it("says so once per object, and again when it was put right in between", () => {
    const wrong = madeObjective("o", 1, { poolRef: { group: GROUP.stable } });
    const { store, notices } = storeOf(wrong, wrong);
    store.replace([madePool(), wrong]);
    expect(notices).toHaveLength(1);
    store.remove(wrong);
    store.put(wrong);
    expect(notices).toHaveLength(2);
  });

  it("warns once of targets with and without weight in one list", () => {
    const mixed = { targets: targets("a", "b:1") };
    const { notices, store } = storeOf(chat("m", 1, mixed), madeRewrite("r", [rule("", "x"), rule("y", "a", "b:1")]));
    store.put(chat("m", 1, mixed));
    const what = "gives weights to only some targets: targets without a weight get no requests";
    expect(notices).toEqual([`InferenceModel default/m ${what}`, `InferenceModelRewrite default/r ${what}`]);
  });

  it("knows an objective's priority, 0 when it states none, and forgets it", () => {
    const { store } = storeOf(madeObjective("a", -3), madeObjective("b", undefined));
    expect(["a", "b", "c", "__proto__"].map((name) => store.objective(name))).toEqual([-3, 0, undefined, undefined]);
    store.put(madeObjective("a", 9, { meta: { namespace: "x" } }));
    store.remove(madeObjective("a", 9, { meta: { namespace: "x" } }));
    expect(store.objective("a")).toBe(-3);
    store.remove(madeObjective("a", -3));
    expect(store.objective("a")).toBeUndefined();
  });
});

describe("the pool", () => {
  it("that goes takes everything with it, and brings it back: no event of the objects is needed (R-25, E-130)", () => {
    const { store, winner } = storeOf(chat("a", 1), madeObjective("o", 4), madeRewrite("r", [rule("m", "x")]));
    const all = () => [store.synced, winner(), store.objective("o"), store.rewrite("m")?.rewrite];
    const there = [true, "a", 4, "r"];
    const gone = [false, "none", undefined, undefined];
    expect(all()).toEqual(there);
    store.remove(madePool());
    expect(all()).toEqual(gone);
    store.put(madePool());
    expect(all()).toEqual(there);
    store.put(madePool("pool", { meta: { deleting: true } }));
    expect(all()).toEqual(gone);
  });

  it("may come last", () => {
    const store = new ResourceStore();
    store.put(chat("a", 1));
    expect([store.synced, store.model("chat")]).toEqual([false, undefined]);
    store.put(madePool());
    expect([store.synced, store.model("chat")?.model.meta.name]).toEqual([true, "a"]);
  });

  it("that changes is the one that is seen, with the same objects", () => {
    const { store, winner } = storeOf(chat("a", 1));
    store.put({ ...madePool(), targetPorts: [9000] });
    expect([store.pool?.targetPorts, winner()]).toEqual([[9000], "a"]);
  });

  it("of another name than the one asked for is none of ours (R-20)", () => {
    const store = new ResourceStore({ pool: { name: "ours" } });
    store.replace([madePool("theirs"), madePool("ours"), chat("a", 1)]);
    expect([store.pool?.meta.name, store.model("chat")]).toEqual(["ours", undefined]);
    store.replace([madePool("theirs")]);
    expect(store.synced).toBe(false);
  });

  it("that cannot be told from another changes nothing", () => {
    const { store, winner } = storeOf(chat("a", 1));
    expect(() => store.put(madePool("second"))).toThrow(/there are 2 InferencePools/);
    expect(() => store.replace([madePool("x"), madePool("y")])).toThrow(/there are 2 InferencePools/);
    expect([store.pool?.meta.name, winner(), store.size]).toEqual(["pool", "a", 2]);
  });

  it("of v1alpha2 with an InferenceModel is remembered to have had one", () => {
    const stable = { group: GROUP.stable };
    const newer = new ResourceStore();
    newer.replace([madePool("pool", stable), chat("a", 1), chat("b", 1, { poolRef: stable })]);
    expect([newer.model("chat")?.model.meta.name, newer.modelSeen]).toEqual(["b", false]);
    const { store } = storeOf(madeModel("a", ""), chat("b", 1, { poolRef: { name: "other" } }));
    expect(store.modelSeen).toBe(false);
    store.put(chat("c", 1));
    store.replace([]);
    expect(store.modelSeen).toBe(true);
  });
});

describe("the store as a whole", () => {
  it("replaces everything at once and tells each listener once, until it is let go", () => {
    const { store, winner } = storeOf(chat("a", 1), madeObjective("o", 1));
    const events: string[] = [];
    const stop = store.onChange(() => events.push(winner()));
    store.replace([madePool(), chat("b", 1), chat("c", 1)]);
    expect([winner(), store.objective("o"), store.size]).toEqual(["b", undefined, 3]);
    stop();
    store.put(madeObjective("p", 1));
    expect(events).toEqual(["b"]);
  });

  it("holds 10,000 objects, still changes known ones, and refuses the next", () => {
    const store = new ResourceStore();
    const many = Array.from({ length: 10_000 }, (_, i) => madeObjective(`o${i}`, i));
    store.replace([madePool(), ...many]);
    store.put(madeObjective("o7", 70));
    expect([store.size, store.full, store.objective("o7")]).toEqual([10_001, true, 70]);
    const refusal = { code: "RESOURCE_LIMIT", message: "there are more than 10000 API objects, the limit" };
    for (const another of [chat("x", 1), madeObjective("x", 1)])
      expect(() => store.put(another)).toThrow(expect.objectContaining(refusal));
    expect(() => store.replace([madePool(), ...many, chat("x", 1)])).toThrow(expect.objectContaining(refusal));
    expect([store.size, store.objective("o7")]).toEqual([10_001, 70]);
  });

  it("takes its pool however many objects there are already (bound of pools: their own)", () => {
    const store = new ResourceStore({ pool: { name: "pool" }, maxObjects: 2 });
    store.replaceKind("InferenceObjective", undefined, [madeObjective("a", 1), madeObjective("b", 2)]);
    store.put(madePool());
    expect([store.synced, store.objective("b")]).toEqual([true, 2]);
    store.put(madePool("second"));
    expect(() => store.put(madePool("third"))).toThrow("more than 2 API objects");
  });

  it("holds the oldest of a list that has more than there is room for, whatever its order", () => {
    const aged = (name: string, seconds: number) =>
      madeObjective(name, 1, { meta: { creationTimestamp: seconds * 1000 } });
    const list = [aged("new", 9), aged("old", 1), aged("middle", 5)];
    for (const given of [list, list.toReversed()]) {
      const store = new ResourceStore({ maxObjects: 3 });
      store.replace([madePool(), chat("a", 1)]);
      expect(store.replaceKind("InferenceObjective", undefined, given)).toBe(1);
      const names = ["old", "middle", "new"].filter((name) => store.objective(name) !== undefined);
      expect([names, store.model("chat") !== undefined]).toEqual([["old", "middle"], true]);
      store.remove(list[1]!);
      expect([store.full, store.replaceKind("InferenceObjective", undefined, list.slice(0, 2))]).toEqual([false, 0]);
    }
  });
});
