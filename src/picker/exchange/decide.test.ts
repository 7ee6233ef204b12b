import { describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import { madePool, madeRewrite, rule } from "../../../test/support/resources/made.cases.ts";
import { chatBody } from "../../../test/support/session-harness.ts";
import type { Caller } from "../../base/inference/caller.ts";
import type { SchedulingResult } from "../../base/inference/decision-record.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import { statedModels } from "../../pool/endpoints/served-models.ts";
import { ResourceStore } from "../../pool/resources/resource-store.ts";
import { explain } from "../decisions/explain.ts";
import type { Decided, Processed } from "./decide.ts";

const headers = (...pairs: (readonly [string, string])[]) => HeaderList.of(pairs);
/** API objects with one rule: `from` becomes `to`. */
function rewriting(from: string, to: string): ResourceStore {
  const resources = new ResourceStore();
  resources.replace([madePool(), madeRewrite("r", [rule(from, to)])]);
  return resources;
}
const COMPLETION = Buffer.from('{"model":"m","prompt":"p"}');

describe("a decision without a body (epp-protocol 3.2)", () => {
  it("draws uniformly: 8,000 draws over eight endpoints, each first about 1,000 times", () => {
    const { decider } = new TestCore({ endpoints: 8 });
    const counts = new Map<string, number>();
    for (let i = 0; i < 8000; i++) {
      const decision = decider.withoutBody(undefined);
      if (decision instanceof Rejection) throw new Error(decision.text);
      const { id } = decision.endpoints[0]!;
      counts.set(id, (counts.get(id) ?? 0) + 1);
    }
    expect(counts.size).toBe(8);
    // Four standard deviations of a binomial count: 4 x sqrt(8000 x 1/8 x 7/8).
    for (const count of counts.values()) expect(Math.abs(count - 1000)).toBeLessThan(119);
  });

  it("lists at most eight endpoints, each once, for a wire that retries; one is offered", () => {
    const { decider } = new TestCore({ endpoints: 20 });
    const decision = decider.withoutBody(undefined);
    if (decision instanceof Rejection) throw new Error(decision.text);
    expect(new Set(decision.endpoints).size).toBe(8);
    expect([decision.offered, decision.bodyLength, decision.record]).toEqual([1, 0, undefined]);
  });

  it("keeps to the hint (E-13), unless hints are ignored (E-58)", () => {
    const hint = [{ address: "10.0.0.2", port: undefined }];
    const strict = new TestCore().decider.withoutBody(hint);
    expect(strict instanceof Rejection ? strict.text : strict.endpoints.map((endpoint) => endpoint.name)).toEqual([
      "pod-2",
    ]);
    const ignoring = new TestCore({ ignoreSubset: true }).decider.withoutBody([]);
    expect(ignoring instanceof Rejection).toBe(false);
    expect(new TestCore().decider.withoutBody([])).toMatchObject({
      reason: "no_endpoints",
      detail: "no pods available in datastore",
    });
  });

  it("leaves out endpoints that are down, as long as one is not", () => {
    const core = new TestCore({ endpoints: 2 });
    core.endpoints.attemptFailed(core.endpoint(1), "connect", "refused");
    for (let i = 0; i < 20; i++)
      expect(core.decider.withoutBody(undefined)).toMatchObject({ endpoints: [{ name: "pod-2" }] });
    core.endpoints.attemptFailed(core.endpoint(2), "connect", "refused");
    expect(core.decider.withoutBody(undefined)).toMatchObject({ kind: "routed", endpoints: { length: 2 } });
  });
});

/** As an exchange does it. */
function decideWith({ decider }: TestCore, id: string, list: HeaderList, body: Uint8Array): Decided | Rejection {
  const understood = decider.understand(id, list, body);
  return understood instanceof Rejection ? understood : decider.decide(decider.process(understood), undefined);
}

describe("a decision with a body", () => {
  const decide = (list: HeaderList, body: Uint8Array = COMPLETION) => decideWith(new TestCore(), "id", list, body);

  it("takes the path from :path, else from what a proxy kept of it, else completions (epp-protocol 10.1)", () => {
    const chat = Buffer.from(chatBody());
    for (const [pairs, body] of [
      [[], COMPLETION],
      [[["x-original-path", "/v1/chat/completions?x=1"]], chat],
      [[["x-forwarded-path", "/v1/chat/completions/"]], chat],
      [
        [
          ["x-original-path", "/v1/completions"],
          ["x-forwarded-path", "/v1/chat/completions"],
        ],
        COMPLETION,
      ],
      [
        [
          [":path", "/v1/chat/completions"],
          ["x-original-path", "/v1/completions"],
        ],
        chat,
      ],
    ] as const)
      expect(decide(headers(...pairs), body), JSON.stringify(pairs)).not.toBeInstanceOf(Rejection);
    expect(decide(headers([":path", "/v1/chat/completions"]))).toBeInstanceOf(Rejection);
  });

  it("takes objective, priority, fairness ID and names into the request (E-106, E-107)", () => {
    const core = new TestCore({ objectives: ["interactive=7"] });
    const decided = decideWith(
      core,
      "id-1",
      headers(["x-llm-d-inference-objective", "interactive"], ["x-gateway-inference-fairness-id", "tenant"]),
      COMPLETION,
    );
    expect(decided).toMatchObject({
      request: {
        id: "id-1",
        model: "m",
        targetModel: "m",
        priority: 7,
        objective: "interactive",
        fairnessId: "tenant",
      },
      offered: 1,
    });
  });

  it.each([
    ["a rewrite header", ["x-llm-d-model-name-rewrite", "n"], "n"],
    ["the older name of the header", ["x-gateway-model-name-rewrite", "n"], "n"],
    ["a rewrite to the same model", ["x-gateway-model-name-rewrite", "m"], "m"],
    ["an empty rewrite (E-108)", ["x-gateway-model-name-rewrite", " "], "m"],
  ] as const)("%s", (_, header, targetModel) => {
    expect(decide(headers(header))).toMatchObject({ request: { model: "m", targetModel } });
  });

  it("keeps the request of a refusal that comes after it was understood", () => {
    const empty = new TestCore({ endpoints: 0 });
    expect(decideWith(empty, "id", headers(), COMPLETION)).toMatchObject({
      request: { model: "m" },
      result: { reason: "no_endpoints" },
    });
  });
});

describe("a decision about a model of its own endpoints", () => {
  const asking = (model: string) => Buffer.from(JSON.stringify({ model, prompt: "p" }));
  const stated = (core: TestCore, place: number, ...models: readonly string[]) =>
    core.endpoints.upsert({ ...core.endpoint(place), models: statedModels(models) });
  const decide = (core: TestCore, model: string, list = headers()) => {
    const decided = decideWith(core, "id", list, asking(model));
    if (decided instanceof Rejection) throw new Error(decided.text);
    return decided;
  };
  const split = (): TestCore => {
    const core = new TestCore({ endpoints: 3 });
    stated(core, 1, "m", "shared");
    stated(core, 2, "n", "shared");
    stated(core, 3, "n");
    return core;
  };

  it("chooses among the endpoints that serve it, and records the others", () => {
    const core = split();
    const { result, record } = decide(core, "m");
    expect(result).toMatchObject({ endpoints: [{ name: "pod-1" }] });
    expect(record.candidates).toBe(3);
    expect(explain(record)).toMatchObject({
      filters: [{ text: "2 endpoints do not serve m: default/pod-2, default/pod-3" }],
      reason: "it was the only one left of 3 candidates; served-models dropped 2.",
    });
    for (let i = 0; i < 20; i++)
      expect((decide(core, "n").result as SchedulingResult).endpoints[0]!.name).toMatch(/^pod-[23]$/);
  });

  it("goes by the target, not by the name that the client sent", () => {
    const to = (target: string) => decide(split(), "whatever", headers(["x-llm-d-model-name-rewrite", target])).result;
    expect(to("m")).toMatchObject({ endpoints: [{ name: "pod-1" }] });
    expect((to("gone") as Rejection).detail).toContain("the model `gone`, the target of `whatever`.");
  });

  it("refuses a model that no endpoint serves with 404, and waits for none", () => {
    const core = split();
    const { result } = decide(core, "shard");
    expect(result).toMatchObject({ reason: "model_not_found", status: 404 });
    expect((result as Rejection).detail).toBe(
      "no endpoint serves the model `shard`; did you mean `shared`? The models are `m`, `n`, `shared`.",
    );
    const wanted = (targetModel: string) => ({ targetModel }) as InferenceRequest;
    expect(["m", "shard", ""].map((model) => core.decider.mayWait(undefined, wanted(model)))).toEqual([
      true,
      false,
      true,
    ]);
    expect(new TestCore({ endpoints: 0 }).decider.mayWait(undefined, wanted("m"))).toBe(true);
  });

  it("tells a caller with a list of models of no other model, neither of a server nor of an alias", () => {
    const core = split();
    const refusal = (models: readonly string[] | undefined, ...list: (readonly [string, string])[]) => {
      const caller = { ...{ id: "k", name: "k", choosesFlow: true }, models: models && new Set(models) } as Caller;
      const processed = core.decider.read("id", headers(...list), asking("gone"), caller) as Processed;
      return (core.decider.decide(processed, undefined).result as Rejection).detail;
    };
    expect(refusal(["gone", "m"])).toBe("no endpoint serves the model `gone`. The models are `m`.");
    expect(refusal(undefined)).toBe("no endpoint serves the model `gone`. The models are `m`, `n`, `shared`.");
    const aliased = new TestCore({ endpoints: 1, models: { resources: rewriting("gone", "hidden") } });
    stated(aliased, 1, "n");
    const caller = { ...{ id: "k", name: "k", choosesFlow: false }, models: new Set(["gone"]) } as unknown as Caller;
    const processed = aliased.decider.read("id", headers(), asking("gone"), caller) as Processed;
    const { detail } = aliased.decider.decide(processed, undefined).result as Rejection;
    expect(detail).toBe("no endpoint serves the model `gone`.");
  });

  it("refuses with 503, not with 404, where only the hint of the proxy leaves none", () => {
    const core = split();
    const understood = core.decider.understand("id", headers(), asking("m")) as InferenceRequest;
    const hint = [{ address: "10.0.0.2", port: undefined }];
    expect(core.decider.mayWait(hint, understood)).toBe(false);
    expect(core.decider.decide(core.decider.process(understood), hint).result).toMatchObject({
      reason: "no_endpoints",
    });
  });

  it("tries the endpoints of a model that are all down, and no others", () => {
    const core = split();
    core.endpoints.attemptFailed(core.endpoint(1), "connect", "refused");
    expect(decide(core, "m").result).toMatchObject({ endpoints: [{ name: "pod-1" }] });
    expect(decide(core, "shared")).toMatchObject({
      result: { endpoints: [{ name: "pod-2" }] },
      record: { excludedDown: 1 },
    });
  });
});
