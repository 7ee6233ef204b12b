import { describe, expect, it } from "vitest";
import { madeModel, madeObjective, madePool } from "../../../test/support/resources/made.cases.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import type { Caller } from "../../base/inference/caller.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { objectivesFromFlags } from "./objectives.ts";
import { ModelResolver, type ResolvedModel, type ResolverOptions } from "./resolve.ts";
import { ResourceStore } from "./resource-store.ts";

type Headers = Readonly<Record<string, string>>;

const BODY = { model: "m", modelRange: { start: 9, end: 11 }, modelInsertAt: 1 };

function callerOf(more: Partial<Caller> = {}): Caller {
  return {
    ...{ id: "k", name: "team-a", models: undefined, choosesFlow: false },
    ...{ objective: undefined, priority: undefined, fairnessId: undefined },
    ...more,
  };
}

function resolverOf(options: Partial<ResolverOptions> = {}): ModelResolver {
  const resources = new ResourceStore();
  resources.replace([madePool(), madeObjective("gold", 7), madeModel("im", "chat", { criticality: "Sheddable" })]);
  const objectives = objectivesFromFlags(["batch=-5"]);
  return new ModelResolver({ random: new SeededRandom(1), objectives, resources, ...options });
}

const resolve = (caller?: Caller, headers: Headers = {}, model = "m") =>
  resolverOf({ matching: model === "m" ? "off" : "auto" }).resolve(
    { ...BODY, model },
    HeaderList.of(Object.entries(headers)),
    caller,
  ) as ResolvedModel;

describe("the priority of a caller", () => {
  it("is that of its objective, from flags or objects", () => {
    expect(resolve(callerOf({ objective: "batch" }))).toMatchObject({ objective: "batch", priority: -5, shedAt: 1 });
    expect(resolve(callerOf({ objective: "gold" }))).toMatchObject({ objective: "gold", priority: 7 });
  });

  it("is its own where it has no objective that exists, and wins over the criticality of an InferenceModel", () => {
    expect(resolve(callerOf({ priority: -3 }))).toMatchObject({ objective: "", priority: -3, shedAt: 1 });
    expect(resolve(callerOf({ objective: "gone", priority: 3 }))).toMatchObject({ objective: "", priority: 3 });
    expect(resolve(callerOf({ priority: 3 }), {}, "chat")).toMatchObject({
      priority: 3,
      shedAt: Number.POSITIVE_INFINITY,
    });
    expect(resolve(callerOf(), {}, "chat")).toMatchObject({ priority: -1 });
  });

  it("gives way to a header that is still there: only a caller that chooses keeps it", () => {
    const header = { "x-llm-d-inference-objective": "gold" };
    expect(resolve(callerOf({ objective: "batch" }), header)).toMatchObject({ objective: "gold", priority: 7 });
    const unknown = { "x-llm-d-inference-objective": "made-up" };
    expect(resolve(callerOf({ objective: "batch" }), unknown)).toMatchObject({ objective: "batch", priority: -5 });
  });

  it("is among the priorities that have a band", () => {
    expect([...resolverOf({ keyPriorities: () => [42] }).priorities()]).toContain(42);
  });
});

describe("the flow of a caller", () => {
  it("is its fairness ID, else its name; without a caller it is as ever", () => {
    expect(resolve(callerOf({ fairnessId: "f" })).fairnessId).toBe("f");
    expect(resolve(callerOf()).fairnessId).toBe("team-a");
    expect(resolve(callerOf(), { "x-gateway-inference-fairness-id": "mine" }).fairnessId).toBe("mine");
    expect(resolve().fairnessId).toBe("default-flow");
  });

  it("is named where the key states it, so that no header processor replaces it", () => {
    const none = new HeaderList();
    expect(resolverOf().flowNamed(none, callerOf({ fairnessId: "f" }))).toBe("f");
    expect(resolverOf().flowNamed(none, callerOf())).toBeUndefined();
  });
});

describe("the models of a caller", () => {
  const allows = (models: string[] | undefined, model: string, headers: Headers = {}) =>
    resolverOf().allows(
      callerOf({ models: models && new Set(models) }),
      { model },
      HeaderList.of(Object.entries(headers)),
    );

  it.each([
    [["a"], "a", {}, true],
    [["a"], "b", {}, false],
    [[], "a", {}, false],
    [undefined, "a", {}, true],
    [undefined, "", {}, true],
    // A body that names no model reaches any.
    [["a"], "", {}, false],
    [["a"], "", { "x-llm-d-model-name-rewrite": "a" }, true],
    [["a"], "a", { "x-llm-d-model-name-rewrite": "b" }, false],
    [["a"], "a", { "x-gateway-model-name-rewrite": "b" }, false],
    [["a"], "b", { "x-llm-d-model-name-rewrite": "a" }, false],
    [["a"], "a", { ":path": "/v2/models/b/infer" }, false],
    [["a"], "a", { ":path": "/v2/models/%62/versions/1/generate?x" }, false],
    [["a"], "a", { ":path": "/v2/models/%zz/infer" }, false],
    [["a"], "a", { ":path": "/v2/models/%61/infer" }, true],
    [["a", "b"], "a", { "x-llm-d-model-name-rewrite": "b" }, true],
  ])("%j allow %j with %j: %s", (models, model, headers, expected) => {
    expect(allows(models as string[] | undefined, model, headers as Headers)).toBe(expected);
  });
});
