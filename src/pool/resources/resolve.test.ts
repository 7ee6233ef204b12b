import { describe, expect, it } from "vitest";
import {
  madeModel,
  madeObjective,
  madePool,
  madeRewrite,
  rule,
  targets,
} from "../../../test/support/resources/made.cases.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import { objectivesFromFlags } from "./objectives.ts";
import { GROUP, type ResourceObject } from "./objects.ts";
import { ModelResolver, type NamedBody, type ResolvedModel, type ResolverOptions } from "./resolve.ts";
import { ResourceStore } from "./resource-store.ts";

type Headers = Readonly<Record<string, string>>;

const NAMELESS: NamedBody = { model: "", modelRange: undefined, modelInsertAt: -1 };

/** A body that asks for `model`; "" = it has no such member. */
const asking = (model: string): NamedBody =>
  model === ""
    ? { model, modelRange: undefined, modelInsertAt: 1 }
    : { model, modelRange: { start: 9, end: 11 }, modelInsertAt: 1 };

function resolverOf(objects: readonly ResourceObject[] | undefined, options: Partial<ResolverOptions> = {}) {
  const resources = objects && new ResourceStore();
  if (objects !== undefined) resources?.replace(objects);
  return new ModelResolver({
    random: new SeededRandom(1),
    objectives: objectivesFromFlags(["interactive=10", "batch=-1"]),
    resources,
    ...options,
  });
}

const answer = (resolver: ModelResolver, model: string | NamedBody, headers: Headers = {}) =>
  resolver.resolve(typeof model === "string" ? asking(model) : model, HeaderList.of(Object.entries(headers)));

function resolved(resolver: ModelResolver, model: string | NamedBody, headers: Headers = {}): ResolvedModel {
  const result = answer(resolver, model, headers);
  if (result instanceof Rejection) throw new Error(result.text);
  return result;
}

function refused(resolver: ModelResolver, model: string, headers: Headers = {}): string {
  const result = answer(resolver, model, headers);
  return result instanceof Rejection ? `${result.status} ${result.detail}` : `routed to ${result.targetModel}`;
}

describe("without API objects", () => {
  const resolver = resolverOf(undefined);
  const resolve = (headers: Headers) => resolved(resolver, "llama", headers);

  it("asks for the model as received, priority 0 and the default flow when nothing else is said (E-86, E-107)", () => {
    expect(resolver.poolKnown).toBe(true);
    expect(resolve({})).toEqual({
      targetModel: "llama",
      objective: "",
      priority: 0,
      shedAt: Number.POSITIVE_INFINITY,
      fairnessId: "default-flow",
      fairnessWeight: 1,
    });
  });

  it("takes the priority of the objective named by either header (E-106)", () => {
    expect(resolve({ "x-llm-d-inference-objective": "interactive" })).toMatchObject({
      objective: "interactive",
      priority: 10,
      shedAt: Number.POSITIVE_INFINITY,
    });
    expect(resolve({ "X-Gateway-Inference-Objective": "batch" })).toMatchObject({
      objective: "batch",
      priority: -1,
      shedAt: 1,
    });
  });

  it("gives an unknown objective priority 0 and no name (E-106, S-73)", () => {
    expect(resolve({ "x-llm-d-inference-objective": "made-up" })).toMatchObject({ objective: "", priority: 0 });
  });

  it("prefers the x-llm-d names over the aliases (E-107, S-73)", () => {
    expect(
      resolve({
        "x-gateway-inference-objective": "interactive",
        "x-llm-d-inference-objective": "batch",
        "x-gateway-inference-fairness-id": "alias",
        "x-llm-d-inference-fairness-id": "tenant-a",
        "x-gateway-model-name-rewrite": "older",
        "x-llm-d-model-name-rewrite": "newer",
      }),
    ).toMatchObject({ objective: "batch", priority: -1, fairnessId: "tenant-a", targetModel: "newer" });
  });

  it("treats an empty value as absent and falls through to the alias (E-107, E-108)", () => {
    expect(
      resolve({
        "x-llm-d-inference-objective": "",
        "x-gateway-inference-objective": "batch",
        "x-llm-d-inference-fairness-id": " ",
        "x-llm-d-model-name-rewrite": " ",
      }),
    ).toMatchObject({ objective: "batch", fairnessId: "default-flow", targetModel: "llama" });
    expect(resolve({ "x-gateway-inference-fairness-id": "tenant-b" }).fairnessId).toBe("tenant-b");
    expect(resolve({ "x-llm-d-model-name-rewrite": "", "x-gateway-model-name-rewrite": "older" }).targetModel).toBe(
      "older",
    );
  });

  it("takes the target model from the rewrite header, read as UTF-8 (E-103)", () => {
    expect(resolve({ "x-llm-d-model-name-rewrite": "llama-v2" }).targetModel).toBe("llama-v2");
    const bytes = Buffer.from("模型").toString("latin1");
    expect(resolve({ "x-llm-d-model-name-rewrite": bytes }).targetModel).toBe("模型");
  });

  it("reads every control header as UTF-8, whatever its last byte; blanks around it are none of it", () => {
    const objectives = objectivesFromFlags(["voilà=3"]);
    // The last byte of "à" is 0xA0, which alone would be a blank, too.
    const value = ` \t${Buffer.from("voilà").toString("latin1")}\t `;
    expect(
      resolved(resolverOf(undefined, { objectives }), "llama", {
        "x-llm-d-model-name-rewrite": value,
        "x-llm-d-inference-fairness-id": value,
        "x-llm-d-inference-objective": value,
      }),
    ).toMatchObject({ targetModel: "voilà", fairnessId: "voilà", objective: "voilà", priority: 3 });
  });

  it("refuses a missing model with 400, unless the header supplies one (E-82, E-109)", () => {
    expect(refused(resolver, "")).toBe("400 model not found in request body");
    expect(refused(resolver, "", { "x-llm-d-model-name-rewrite": "" })).toBe("400 model not found in request body");
    expect(resolved(resolver, "", { "x-gateway-model-name-rewrite": "llama" }).targetModel).toBe("llama");
  });

  it("rewrites nothing in an API that names no model, whose control headers still count (E-110)", () => {
    const headers = { "x-llm-d-model-name-rewrite": "n", "x-llm-d-inference-objective": "batch" };
    expect(resolved(resolver, NAMELESS, headers)).toMatchObject({ targetModel: "", priority: -1 });
  });

  it("enforces nothing, whatever the mode", () => {
    expect(refused(resolverOf(undefined, { matching: "enforce" }), "llama")).toBe("routed to llama");
  });
});

describe("with InferenceModels", () => {
  it("answers 404 for a name without one, from the first InferenceModel on and for good (E-86, E-87, R-7)", () => {
    const resources = new ResourceStore();
    const resolver = resolverOf([], { resources });
    resources.replace([madePool()]);
    expect([resolver.enforcing, refused(resolver, "gpt")]).toEqual([false, "routed to gpt"]);
    resources.put(madeModel("a", "chat"));
    expect(refused(resolver, "chat")).toBe("routed to chat");
    expect(refused(resolver, "gpt")).toBe("404 error finding a model object in InferenceModel for input gpt");
    expect(refused(resolver, "")).toBe("400 model not found in request body");
    resources.replace([madePool()]);
    expect(refused(resolver, "chat")).toBe("404 error finding a model object in InferenceModel for input chat");
  });

  it("matches byte for byte", () => {
    const resolver = resolverOf([madePool(), madeModel("a", "Chat")]);
    for (const near of ["chat", "Chat ", "Cha", "Chat:lora"]) expect(refused(resolver, near)).toMatch(/^404 /);
  });

  it("keeps a name of any length out of the answer", () => {
    const resolver = resolverOf([madePool(), madeModel("a", "chat")]);
    expect(refused(resolver, `${"x".repeat(100_000)}\n`).length).toBeLessThan(1100);
  });

  it("enforces for a v1 pool only when told to, and nothing when it is off (decisions: model matching)", () => {
    const poolRef = { group: GROUP.stable };
    const stable = [
      madePool("pool", { group: GROUP.stable }),
      madeModel("a", "chat", { poolRef, targets: targets("t") }),
    ];
    expect(refused(resolverOf(stable), "gpt")).toBe("routed to gpt");
    expect(refused(resolverOf(stable), "chat")).toBe("routed to t");
    expect(refused(resolverOf(stable, { matching: "enforce" }), "gpt")).toMatch(/^404 /);
    expect(refused(resolverOf([madePool()], { matching: "enforce" }), "gpt")).toMatch(/^404 /);
    const older = [madePool(), madeModel("a", "chat", { targets: targets("t"), criticality: "Sheddable" })];
    const off = resolverOf(older, { matching: "off" });
    expect(refused(off, "gpt")).toBe("routed to gpt");
    expect(resolved(off, "chat")).toMatchObject({ targetModel: "chat", priority: 0, fairnessId: "default-flow" });
  });

  it("enforces nothing for a v1 pool because one of v1alpha2 was seen before it, and does again for that one", () => {
    const resources = new ResourceStore({ pool: { name: "pool" } });
    const resolver = resolverOf([], { resources });
    const newer = madePool("pool", { group: GROUP.stable });
    // At the start of a process either of the two may be read first.
    for (const object of [madePool(), madeModel("a", "chat"), newer]) resources.put(object);
    expect([resources.modelSeen, refused(resolver, "gpt")]).toEqual([true, "routed to gpt"]);
    resources.remove(newer);
    expect(refused(resolver, "gpt")).toMatch(/^404 /);
  });

  it("leaves unknown names to the lack of candidates while there is no pool (E-130)", () => {
    const resources = new ResourceStore();
    const resolver = resolverOf([], { resources, matching: "enforce" });
    expect([resolver.poolKnown, refused(resolver, "gpt")]).toEqual([false, "routed to gpt"]);
    resources.replace([madePool(), madeModel("a", "chat")]);
    expect([resolver.poolKnown, refused(resolver, "gpt").slice(0, 3)]).toEqual([true, "404"]);
    resources.replace([]);
    expect([resolver.poolKnown, refused(resolver, "gpt")]).toEqual([false, "routed to gpt"]);
  });

  it("draws a target; without targets the name stays (R-15, E-111)", () => {
    const resolver = resolverOf([
      madePool(),
      madeModel("plain", "chat"),
      madeModel("one", "code", { targets: targets("code-v2:5") }),
    ]);
    expect(refused(resolver, "chat")).toBe("routed to chat");
    expect(refused(resolver, "code")).toBe("routed to code-v2");
  });

  it("answers 404 when no target can be drawn: only zero weights, a target without a name (R-17, X-1)", () => {
    const resolver = resolverOf([
      madePool(),
      madeModel("zero", "reserved", { targets: targets("t:0") }),
      madeModel("empty", "empty", { targets: targets(":1") }),
    ]);
    for (const name of ["reserved", "empty"])
      expect(refused(resolver, name)).toBe(
        `404 error getting target model name for model ${name}: no valid target model`,
      );
  });

  it("maps criticality to priority and the order of shedding, unset as Standard (R-18)", () => {
    const objects = [
      madePool(),
      madeModel("c", "critical", { criticality: "Critical" }),
      madeModel("s", "standard", { criticality: "Standard" }),
      madeModel("u", "unset"),
      madeModel("b", "batch", { criticality: "Sheddable" }),
    ];
    const levels = (options: Partial<ResolverOptions> = {}) =>
      ["critical", "standard", "unset", "batch"].map((name) => {
        const { priority, shedAt } = resolved(resolverOf(objects, options), name);
        return [priority, shedAt];
      });
    const never = Number.POSITIVE_INFINITY;
    const critical = [1, never];
    const sheddable = [-1, 1];
    expect(levels()).toEqual([critical, [0, 2], [0, 2], sheddable]);
    expect(levels({ standardShedAt: 1.5 })).toEqual([critical, [0, 1.5], [0, 1.5], sheddable]);
    expect(levels({ legacyCriticality: true, standardShedAt: 3 })).toEqual([critical, [0, 1], [0, 1], sheddable]);
  });

  it("makes the modelName the flow of requests that name none (decisions: fairness ID)", () => {
    const resolver = resolverOf([madePool(), madeModel("a", "chat", { targets: targets("t") })]);
    expect(resolved(resolver, "chat").fairnessId).toBe("chat");
    expect(resolved(resolver, "chat", { "x-llm-d-inference-fairness-id": "tenant" }).fairnessId).toBe("tenant");
  });

  it("lets an objective that the request names decide the priority instead of the criticality", () => {
    const resolver = resolverOf([
      madePool(),
      madeModel("a", "chat", { criticality: "Critical" }),
      madeObjective("low", -5),
      madeObjective("plain", undefined),
    ]);
    const of = (objective: string) => resolved(resolver, "chat", { "x-llm-d-inference-objective": objective });
    expect(of("low")).toMatchObject({ objective: "low", priority: -5, shedAt: 1 });
    expect(of("plain")).toMatchObject({ objective: "plain", priority: 0, shedAt: Number.POSITIVE_INFINITY });
    expect(of("unheard-of")).toMatchObject({ objective: "", priority: 1 });
  });

  it("looks a body without a model up under the name in the header (E-109)", () => {
    const resolver = resolverOf([madePool(), madeModel("a", "chat", { targets: targets("t") })]);
    expect(refused(resolver, "", { "x-llm-d-model-name-rewrite": "chat" })).toBe("routed to t");
    expect(refused(resolver, "", { "x-llm-d-model-name-rewrite": "gpt" })).toMatch(/^404 .* gpt$/);
  });

  it("matches nothing in an API that names no model", () => {
    const resolver = resolverOf([madePool(), madeModel("a", "chat"), madeRewrite("all", [rule("", "everything")])]);
    expect(resolved(resolver, NAMELESS)).toMatchObject({ targetModel: "", fairnessId: "default-flow" });
  });
});

describe("InferenceObjectives (R-32)", () => {
  it("give their priority, 0 when they state none; a flag of the same name wins", () => {
    const resolver = resolverOf([
      madePool(),
      madeObjective("gold", 7),
      madeObjective("plain", undefined),
      madeObjective("batch", 3),
    ]);
    const of = (name: string) => resolved(resolver, "m", { "x-gateway-inference-objective": name });
    expect(of("gold")).toMatchObject({ objective: "gold", priority: 7 });
    expect(of("plain")).toMatchObject({ objective: "plain", priority: 0 });
    expect(of("batch")).toMatchObject({ objective: "batch", priority: -1 });
    expect(of("silver")).toMatchObject({ objective: "", priority: 0 });
  });
});

describe("InferenceModelRewrites (E-104, R-33)", () => {
  const header = { "x-llm-d-model-name-rewrite": "from-header" };

  it("go by the name in the body and beat the header", () => {
    const resolver = resolverOf([madePool(), madeRewrite("r", [rule("chat", "v2"), rule("from-header", "wrong")])]);
    expect(resolved(resolver, "chat", header).targetModel).toBe("v2");
    expect(resolved(resolver, "other", header).targetModel).toBe("from-header");
    expect(resolved(resolver, "other").targetModel).toBe("other");
  });

  it("rewrite nothing where the rule lists no targets: the header counts, then the body", () => {
    const resolver = resolverOf([madePool(), madeRewrite("r", [rule("chat"), rule("", "all")])]);
    expect(resolved(resolver, "chat").targetModel).toBe("chat");
    expect(resolved(resolver, "chat", header).targetModel).toBe("from-header");
    expect(resolved(resolver, "other").targetModel).toBe("all");
  });

  it("supply a model that the body lacks, by a rule for every request (epp-protocol 10.6)", () => {
    const resolver = resolverOf([madePool(), madeRewrite("r", [rule("", "all")])]);
    expect(resolved(resolver, "").targetModel).toBe("all");
  });

  it("end in 400 when the target has no name", () => {
    const resolver = resolverOf([madePool(), madeRewrite("r", [rule("", ":1")])]);
    expect(refused(resolver, "chat")).toBe("400 model not found in request body");
  });

  it("choose the target where an InferenceModel matches, too; its criticality and flow stay", () => {
    const resolver = resolverOf([
      madePool(),
      madeModel("a", "chat", { targets: targets("old"), criticality: "Sheddable" }),
      madeModel("z", "reserved", { targets: targets("t:0") }),
      madeRewrite("r", [rule("chat,reserved", "new")]),
    ]);
    expect(resolved(resolver, "chat")).toMatchObject({ targetModel: "new", priority: -1, fairnessId: "chat" });
    expect(resolved(resolver, "reserved").targetModel).toBe("new");
  });

  it("make a name known that has no InferenceModel", () => {
    const resolver = resolverOf([madePool(), madeModel("a", "chat"), madeRewrite("r", [rule("gpt", "chat")])]);
    expect(refused(resolver, "gpt")).toBe("routed to chat");
    expect(refused(resolver, "gpt-2")).toMatch(/^404 /);
  });

  it("are told of with every draw, for model_rewrite_decisions_total (scheduling 8.5)", () => {
    const told: string[] = [];
    const onRewrite = (...words: string[]): void => void told.push(words.join(" "));
    const objects = [madePool(), madeRewrite("r", [rule("chat", "v2"), rule("none")])];
    const resolver = resolverOf(objects, { onRewrite });
    for (const name of ["chat", "none", "other"]) resolved(resolver, name, header);
    expect(told).toEqual(["r chat v2"]);
  });
});

describe("an InferenceModel and a rewrite header", () => {
  it("object beats header: the header neither leads to another model nor past the check", () => {
    const resolver = resolverOf([
      madePool(),
      madeModel("a", "chat", { targets: targets("t") }),
      madeModel("b", "plain"),
    ]);
    const header = { "x-llm-d-model-name-rewrite": "forbidden" };
    expect(refused(resolver, "chat", header)).toBe("routed to t");
    expect(refused(resolver, "plain", header)).toBe("routed to plain");
    expect(refused(resolver, "gpt", header)).toMatch(/^404 .* gpt$/);
  });
});

describe("with the parity of v1.5 (scheduling 6.10)", () => {
  const canonical = { "x-llm-d-inference-fairness-id": "new" };
  const alias = { "x-gateway-inference-fairness-id": "old" };
  const objects = [madePool(), madeModel("chat", "chat")];

  it("only the older header names a flow, and no InferenceModel does", () => {
    const v15 = resolverOf(objects, { parity: "v1.5" });
    const ids = [{}, canonical, alias, { ...canonical, ...alias }].map((headers) => [
      ...[resolved(v15, "chat", headers).fairnessId, resolved(resolverOf(objects), "chat", headers).fairnessId],
    ]);
    expect(ids).toEqual([
      ["default-flow", "chat"],
      ["default-flow", "new"],
      ["old", "old"],
      ["old", "new"],
    ]);
    expect(v15.flowNamed(HeaderList.of(Object.entries(canonical)))).toBeUndefined();
  });
});

describe("the presence of InferenceModels", () => {
  it("is unknown without a pool, and needs a model that counts of a v1alpha2 pool", () => {
    const present = (objects: readonly ResourceObject[] | undefined, options?: Partial<ResolverOptions>) =>
      resolverOf(objects, options).modelsPresent;
    const models = [madePool(), madeModel("chat", "chat")];
    expect(present(undefined)).toBe(false);
    expect(present([madeModel("chat", "chat")])).toBeUndefined();
    expect(present([madePool()])).toBe(false);
    expect(present(models)).toBe(true);
    expect(present(models, { matching: "off" })).toBe(false);
    expect(present([madePool(), madeModel("empty", "")])).toBe(false);
    expect(present([madePool(), madeModel("other", "o", { poolRef: { name: "other" } })])).toBe(false);
    expect(present([madePool(), madeModel("gone", "g", { meta: { deleting: true } })])).toBe(false);
    const stable = { group: GROUP.stable };
    expect(present([madePool("pool", stable), madeModel("chat", "chat", { poolRef: stable })])).toBe(false);
  });
});
