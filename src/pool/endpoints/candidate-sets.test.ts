import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { EndpointRegistry } from "./registry.ts";
import { modelsIn, type ServedModels, statedModels } from "./served-models.ts";

const listed = (...names: readonly string[]): ServedModels =>
  modelsIn(JSON.stringify({ data: names.map((id) => ({ id })) })) as ServedModels;

/** One endpoint for each entry, `undefined` = its models are unknown. */
function pool(...models: readonly (ServedModels | undefined)[]) {
  const registry = new EndpointRegistry({ clock: new VirtualClock(), random: new SeededRandom(1) });
  const endpoints = models.map((served, i) => {
    const endpoint = registry.upsert({
      ...{ namespace: "default", name: `e${i}`, address: `10.0.0.${i}`, port: 8000, rank: 0, labels: {} },
      models: served,
    })!;
    if (served?.source === "server") registry.listed(endpoint, served);
    return endpoint;
  });
  const names = (model: string) => registry.candidates(undefined, model).endpoints.map(({ name }) => name);
  return { registry, endpoints, names };
}

describe("candidates by model", () => {
  it("are the endpoints that serve the name, and those that are unknown or serve every name", () => {
    const { names } = pool(listed("a"), listed("b", "sql"), undefined, statedModels(["*"]), statedModels(["a", "c"]));
    expect(names("a")).toEqual(["e0", "e2", "e3", "e4"]);
    expect(names("sql")).toEqual(["e1", "e2", "e3"]);
    expect(names("nobody")).toEqual(["e2", "e3"]);
    expect(names("")).toHaveLength(5);
  });

  it("are nobody for a name that no endpoint serves", () => {
    const { registry } = pool(listed("a"), statedModels(["b"]));
    expect(registry.candidates(undefined, "c")).toEqual({
      ...{ endpoints: [], down: [], poolSize: 2 },
      unserving: { name: "served-models", dropped: 2, ids: ["default/e0", "default/e1"] },
    });
  });

  it("leave out those that are down only while another one serves the same model", () => {
    const { registry, endpoints, names } = pool(listed("a"), listed("a", "b"), listed("c"));
    registry.attemptFailed(endpoints[1]!, "connect", "refused");
    expect(names("a")).toEqual(["e0"]);
    expect(registry.candidates(undefined, "a").down).toEqual([endpoints[1]]);
    expect(names("b")).toEqual(["e1"]);
    registry.attemptSucceeded(endpoints[1]!);
    expect(names("a")).toEqual(["e0", "e1"]);
  });

  it("leave out those whose server has not answered yet, while another one lists the model and is not down", () => {
    const { registry, endpoints, names } = pool(listed("a"), listed("b"), undefined);
    registry.lookForModels(endpoints[2]!, "overdue");
    expect(names("a")).toEqual(["e0"]);
    expect(registry.candidates(undefined, "a").unserving).toMatchObject({
      dropped: 2,
      ids: ["default/e1", "default/e2"],
    });
    expect([names("new"), names("")]).toEqual([["e2"], ["e0", "e1", "e2"]]);
    registry.attemptFailed(endpoints[0]!, "connect", "refused");
    expect(names("a")).toEqual(["e2"]);
    registry.attemptSucceeded(endpoints[0]!);
    expect(names("a")).toEqual(["e0"]);
    registry.lookForModels(endpoints[2]!, "over");
    expect(names("a")).toEqual(["e0", "e2"]);
  });

  it("keep to the hint of a proxy", () => {
    const { registry } = pool(listed("a"), listed("b"));
    const hint = [{ address: "10.0.0.1", port: undefined }];
    expect(registry.candidates(hint, "b").endpoints.map(({ name }) => name)).toEqual(["e1"]);
    expect(registry.candidates(hint, "a")).toMatchObject({ endpoints: [], unserving: { dropped: 1 } });
  });

  it("are the list of the pool where all serve the name, and the same set until something changes", () => {
    const { registry, endpoints } = pool(listed("a"), listed("a"));
    const set = registry.candidates(undefined, "a");
    expect(set.endpoints).toBe(registry.list());
    expect(set.unserving).toBeUndefined();
    registry.listed(endpoints[0]!, listed("a"));
    expect(registry.candidates(undefined, "a")).toBe(set);
    registry.listed(endpoints[0]!, listed("b"));
    expect(registry.candidates(undefined, "a").endpoints).toEqual([endpoints[1]]);
    registry.remove("default/e1");
    expect(registry.candidates(undefined, "a").endpoints).toEqual([]);
  });

  it("are one set for all names where no models are known", () => {
    const { registry } = pool(undefined, undefined);
    expect(registry.candidates(undefined, "a")).toBe(registry.candidates(undefined, "b"));
  });

  it("are kept for 1,024 served names, never for names that only clients know", () => {
    const names = (from: number, count: number) => Array.from({ length: count }, (_, i) => `m${from + i}`);
    const { registry } = pool(statedModels(names(0, 1024)), statedModels(names(1024, 6)), undefined);
    const isKept = (name: string) => {
      const first = registry.candidates(undefined, name);
      return registry.candidates(undefined, name) === first;
    };
    for (let i = 0; i < 2000; i++) expect(isKept(`invented-${i}`)).toBe(false);
    const kept = names(0, 1030).filter(isKept);
    expect(kept).toEqual(names(0, 1024));
    expect(registry.candidates(undefined, "m1029").endpoints.map(({ name }) => name)).toEqual(["e1", "e2"]);
  });
});

describe("the models of an endpoint", () => {
  const spec = { namespace: "default", name: "e0", address: "10.0.0.0", port: 8000, rank: 0, labels: {} };

  it("are those of the file; what the server lists counts only without them", () => {
    const { registry, endpoints, names } = pool(statedModels(["a"]));
    registry.listed(endpoints[0]!, listed("b"));
    expect([names("a"), names("b")]).toEqual([["e0"], []]);
    const asked: string[] = [];
    registry.onModelsUnstated(({ name }) => asked.push(name));
    registry.upsert({ ...spec, models: statedModels(["c"]) });
    expect([names("a"), names("c"), asked]).toEqual([[], ["e0"], []]);
    registry.upsert(spec);
    expect([names("a"), asked]).toEqual([["e0"], ["e0"]]);
    registry.listed(endpoints[0]!, listed("b"));
    registry.upsert(spec);
    expect([names("a"), names("b"), asked]).toEqual([[], ["e0"], ["e0"]]);
  });

  it("have all names sorted, and a revision that grows with each change", () => {
    const { registry, endpoints } = pool(listed("b", "a"), statedModels(["c", "a"]), statedModels(["*"]), undefined);
    expect(registry.modelNames()).toEqual(["a", "b", "c"]);
    const before = registry.modelsRevision;
    registry.listed(endpoints[3]!, listed("d"));
    expect(registry.modelsRevision).toBeGreaterThan(before);
    expect(registry.modelNames()).toEqual(["a", "b", "c", "d"]);
    registry.remove("default/e3");
    registry.listed(endpoints[3]!, listed("e"));
    expect(registry.modelNames()).toEqual(["a", "b", "c"]);
  });
});
