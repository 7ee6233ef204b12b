import { describe, expect, it } from "vitest";
import { z } from "zod";
import { TestCore, type TestCoreOptions } from "../../../test/support/core.ts";
import { HEADERS } from "../../../test/support/exchange/fakes.cases.ts";
import { madeModel, madePool, targets } from "../../../test/support/resources/made.cases.ts";
import { SessionHarness } from "../../../test/support/session-harness.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import { defineAdmitter } from "../../base/plugin/define.ts";
import type { ResourceObject } from "../../pool/resources/objects.ts";
import { ResourceStore } from "../../pool/resources/resource-store.ts";

// Items of the checklist in section 10 of the scheduling specification, as a client of the whole core meets them: ext_proc
// messages in, replies out, in virtual time.

type Headers = readonly (readonly [string, string])[];

const HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n";
const LEGACY = `${HEAD}plugins: [{type: decision-tree-filter}, {type: random-picker}, {type: never-saturated-detector}]
flowControl: {saturationDetector: {pluginRef: never-saturated-detector}}
`;
const bodyOf = (prompt: string, model = "m"): string =>
  JSON.stringify({ ...(model === "" ? {} : { model }), messages: [{ role: "user", content: prompt }] });

/** What came of one request: where it went, or `STATUS dropped-reason`, the reason being "-" where there is none. */
function ask(core: TestCore, headers: Headers = [], body: string = bodyOf("hi")): string {
  const h = new SessionHarness(core);
  h.post(body, headers);
  if (h.destination === undefined) {
    const { status, dropped = "-" } = h.refusal();
    h.reset();
    return `${status} ${dropped}`;
  }
  const { destination } = h;
  h.answer('{"object":"chat.completion"}').reset();
  expect(h.wrongs).toEqual([]);
  return destination;
}

/** The same with a hint which endpoints are allowed. */
function askWith(core: TestCore, hint: unknown): string {
  const h = new SessionHarness(core);
  const metadata = { "envoy.lb.subset_hint": { "x-gateway-destination-endpoint-subset": hint } };
  h.envoy.requestHeaders([[":path", "/v1/chat/completions"]], false, { metadata });
  h.envoy.requestBody(bodyOf("hi"), true, { metadata });
  if (h.destination !== undefined) return h.destination;
  const { status, dropped } = h.refusal();
  return `${status} ${dropped}`;
}

const withObjects = (objects: readonly ResourceObject[], options: TestCoreOptions = {}): TestCore => {
  const resources = new ResourceStore();
  resources.replace(objects);
  return new TestCore({ ...options, models: { resources } });
};

describe("the profile of v0.3", () => {
  it("S-25: 404 for a model that nobody made, 400 without a model, a random pod without a body", () => {
    const core = withObjects([madePool(), madeModel("a", "chat")], { config: LEGACY });
    expect(ask(core, [], bodyOf("hi", "chat"))).toMatch(/^10\.0\.0\.\d:8000$/);
    expect(ask(core, [], bodyOf("hi", "gpt"))).toBe("404 -");
    expect(ask(core, [], bodyOf("hi", ""))).toBe("400 -");
    expect(ask(core, [], '{"model":7,"messages":[]}')).toBe("400 -");
    const picked = new Map<string | undefined, number>();
    for (let i = 0; i < 600; i++) {
      const h = new SessionHarness(core);
      h.envoy.requestHeaders([[":path", "/v1/models"]], true);
      picked.set(h.destination, (picked.get(h.destination) ?? 0) + 1);
      h.reset();
    }
    expect([...picked.keys()].sort()).toEqual(["10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000"]);
    // Five standard deviations of a binomial count.
    for (const count of picked.values()) expect(Math.abs(count - 200)).toBeLessThan(58);
  });

  it("S-25: the targets of a model are drawn by weight, within one percent of 100,000 draws", () => {
    const resources = new ResourceStore();
    resources.replace([madePool(), madeModel("a", "chat", { targets: targets("x:1", "y:3", "z:6") })]);
    const { decider } = new TestCore({ config: LEGACY, models: { resources } });
    const body = Buffer.from(bodyOf("hi", "chat"));
    const drawn = { x: 0, y: 0, z: 0 };
    for (let i = 0; i < 100_000; i++) {
      const request = decider.understand("id", HEADERS, body);
      if (request instanceof Rejection) throw new Error(request.text);
      drawn[request.targetModel as keyof typeof drawn]++;
    }
    expect(Math.abs(drawn.x / 100_000 - 0.1)).toBeLessThan(0.01);
    expect(Math.abs(drawn.y / 100_000 - 0.3)).toBeLessThan(0.01);
    expect(Math.abs(drawn.z / 100_000 - 0.6)).toBeLessThan(0.01);
  });

  it("S-21: on busy pods every criticality but Critical is refused, unset among them", () => {
    const levels = ["Critical", "Standard", "Sheddable", undefined] as const;
    const models = levels.map((criticality, i) => madeModel(`m${i}`, `m${i}`, { criticality }));
    const at = (waiting: number, kvUsage: number) => {
      const core = withObjects([madePool(), ...models], {
        config: LEGACY,
        endpoints: [{ metrics: { waiting, kvUsage } }, { metrics: { waiting, kvUsage } }],
      });
      return levels.map((_, i) => ask(core, [], bodyOf("hi", `m${i}`)).replace(/^10.*/, "served"));
    };
    expect(at(5, 0.8)).toEqual(["served", "served", "served", "served"]);
    const refused = "429 rejected-saturated";
    expect(at(6, 0.8)).toEqual(["served", refused, refused, refused]);
    expect(at(5, 0.81)).toEqual(["served", refused, refused, refused]);
  });
});

describe("subset hints", () => {
  it("S-42: one matching address leaves only that endpoint, no hint leaves all", () => {
    const core = new TestCore();
    for (let i = 0; i < 20; i++) expect(askWith(core, ["10.0.0.2:8000"])).toBe("10.0.0.2:8000");
    for (let i = 0; i < 20; i++) expect(askWith(core, "10.0.0.3, 192.168.0.1:80")).toBe("10.0.0.3:8000");
    const all = new TestCore();
    const seen = new Set(Array.from({ length: 60 }, (_, i) => ask(all, [], bodyOf(`${i}`.repeat(99)))));
    expect(seen.size).toBe(3);
  });

  it("S-42: an empty list and one that matches nobody are 503, rejected-no-endpoints", () => {
    const core = new TestCore();
    expect(askWith(core, [])).toBe("503 rejected-no-endpoints");
    expect(askWith(core, "")).toBe("503 rejected-no-endpoints");
    expect(askWith(core, ["10.9.9.9:8000"])).toBe("503 rejected-no-endpoints");
  });
});

describe("who is refused, and how", () => {
  const FILTERED = (filter: string) => `${HEAD}plugins: [${filter}, {type: queue-scorer}]`;

  it("S-41: a filter that leaves nobody is 429 rejected-saturated, but not a utilization-detector", () => {
    const endpoints = [{ metrics: { waiting: 9 } }, { metrics: { waiting: 8 } }];
    const nobody = "{type: label-selector-filter, parameters: {matchLabels: {tier: gold}}}";
    expect(ask(new TestCore({ endpoints, config: FILTERED(nobody) }))).toBe("429 rejected-saturated");
    const saturated = "{type: utilization-detector}";
    expect(ask(new TestCore({ endpoints, config: FILTERED(saturated) }))).toBe("10.0.0.2:8000");
    const full = new TestCore({
      endpoints,
      config: FILTERED("{type: concurrency-detector, parameters: {maxConcurrency: 1}}"),
    });
    for (const n of [1, 2]) full.endpoint(n).inFlight.requests = 1;
    expect(ask(full)).toBe("429 rejected-saturated");
  });

  it("S-44: an admitter's denial keeps its code on the wire, 429 where it has none", () => {
    const denying = (answer: Rejection | string) =>
      defineAdmitter({
        type: "denying-admitter",
        describe: "Denies everything.",
        parameters: z.strictObject({}),
        create: () => ({ admit: () => answer }),
      });
    const by = (answer: Rejection | string) => ask(new TestCore({ plugins: [denying(answer)] }));
    expect(by("not now")).toBe("429 -");
    expect(by(new Rejection("saturated", "too much"))).toBe("429 rejected-saturated");
    expect(by(new Rejection("no_endpoints", "nobody"))).toBe("503 rejected-no-endpoints");
  });

  it("S-45: with prefer: if-available a request is 412 until the target holds the beginning of its prompt", () => {
    const core = new TestCore({ endpoints: 1 });
    const prefer = (value: string) => ask(core, [["prefer", value]], bodyOf("long ".repeat(200)));
    expect(prefer("if-available")).toBe("412 -");
    expect(prefer("wait=1, If-Available;x=y")).toBe("412 -");
    expect(prefer("wait=1")).toBe("10.0.0.1:8000");
    expect(prefer("if-available")).toBe("10.0.0.1:8000");
    expect(ask(core, [["prefer", "if-available"]], bodyOf("other ".repeat(200)))).toBe("412 -");
  });

  it("S-72: at saturation 1 priority -1 is 429 with the header and priority 0 is served", () => {
    const objectives = ["batch=-1", "plain=0"];
    const batch: Headers = [["x-llm-d-inference-objective", "batch"]];
    const at = (waiting: number, config = "") =>
      new TestCore({ objectives, endpoints: [{ metrics: { waiting } }], ...(config === "" ? {} : { config }) });
    expect(ask(at(5), batch)).toBe("429 rejected-saturated");
    expect(ask(at(4), batch)).toBe("10.0.0.1:8000");
    expect(ask(at(500), [["x-llm-d-inference-objective", "plain"]])).toBe("10.0.0.1:8000");
    expect(ask(at(500))).toBe("10.0.0.1:8000");
  });

  it("S-72: by v1.0's rule one good pod is enough, whatever the others are", () => {
    const config = `${HEAD}plugins: [{type: queue-scorer}, {type: no-capacity-detector}]
flowControl: {saturationDetector: {pluginRef: no-capacity-detector}}
`;
    const pool = (waiting: number) => [{ metrics: { waiting } }, { metrics: { waiting: 500 } }, {}];
    const served = (waiting: number, config: string) =>
      ask(new TestCore({ objectives: ["batch=-1"], endpoints: pool(waiting), config }), [
        ["x-llm-d-inference-objective", "batch"],
      ]);
    expect(served(5, config)).toBe("10.0.0.1:8000");
    expect(served(6, config)).toBe("429 rejected-saturated");
    expect(served(5, `${HEAD}plugins: [{type: queue-scorer}]\n`)).toBe("429 rejected-saturated");
  });

  it("S-73: an unknown objective has priority 0, and of both header names the canonical one counts", () => {
    const core = new TestCore({ objectives: ["batch=-1", "gold=5"], endpoints: [{ metrics: { waiting: 500 } }] });
    const canonical = "x-llm-d-inference-objective";
    const alias = "x-gateway-inference-objective";
    expect(ask(core, [[canonical, "made-up"]])).toBe("10.0.0.1:8000");
    expect(core.total("llm_d_epp_request_total", { priority: "0" })).toBe(1);
    const both = (first: string, second: string): Headers => [
      [alias, first],
      [canonical, second],
    ];
    expect(ask(core, both("gold", "batch"))).toBe("429 rejected-saturated");
    expect(ask(core, both("batch", "gold"))).toBe("10.0.0.1:8000");
    expect(core.total("llm_d_epp_request_total", { priority: "5" })).toBe(1);
    expect(ask(core, [[alias, "batch"]])).toBe("429 rejected-saturated");
  });
});

describe("what is counted", () => {
  const FAMILIES = ["llm_d_epp", "inference_objective", "inference_model"];

  it("S-93: of a refused request the error and nothing else; nothing stays in flight", () => {
    const core = new TestCore({ objectives: ["batch=-1"], endpoints: [{ metrics: { waiting: 5 } }] });
    expect(ask(core, [["x-llm-d-inference-objective", "batch"]])).toBe("429 rejected-saturated");
    for (const family of FAMILIES) {
      expect([family, core.total(`${family}_request_error_total`)]).toEqual([family, 1]);
      expect([family, core.total(`${family}_request_total`)]).toEqual([family, 0]);
    }
    expect(core.total("llm_d_epp_request_error_total", { error_code: "ResourceExhausted", priority: "-1" })).toBe(1);
    expect(core.total("llm_d_epp_request_running")).toBe(0);
    expect(core.total("inference_objective_running_requests")).toBe(0);
    expect(core.inFlight).toBe(0);
  });

  it("S-94: an answer of 500 is one ModelServerError, and a request that was handled", () => {
    const core = new TestCore();
    const h = new SessionHarness(core);
    h.post(bodyOf("hi"));
    h.answer('{"error":"out of memory"}', "500").reset();
    for (const family of FAMILIES) {
      expect([family, core.total(`${family}_request_error_total`, { error_code: "ModelServerError" })]).toEqual([
        family,
        1,
      ]);
      expect([family, core.total(`${family}_request_error_total`)]).toEqual([family, 1]);
      expect([family, core.total(`${family}_request_total`)]).toEqual([family, 1]);
    }
    expect(core.inFlight).toBe(0);
  });

  it("S-101: the scores of all candidates go out as metadata where that is switched on, and not otherwise", () => {
    const metadataOf = (emitScores: boolean) => {
      const h = new SessionHarness(new TestCore({ emitScores, endpoints: [{ metrics: { waiting: 4 } }, {}] }));
      h.post(bodyOf("hi"));
      return h.replies.map(({ dynamicMetadata }) => JSON.stringify(dynamicMetadata)).join("");
    };
    expect(metadataOf(true)).toContain("x-gateway-destination-endpoint-scores");
    for (const endpoint of ["10.0.0.1:8000", "10.0.0.2:8000"])
      expect(metadataOf(true).split(endpoint).length - 1).toBeGreaterThanOrEqual(1);
    expect(metadataOf(false)).toContain("x-gateway-destination-endpoint");
    expect(metadataOf(false)).not.toContain("x-gateway-destination-endpoint-scores");
  });
});

describe("sessions by an id", () => {
  it("S-46: the binding survives when another scorer wins while the bound endpoint is a candidate, not when it is gone", () => {
    const core = new TestCore({
      endpoints: [{ metrics: { waiting: 0 } }, { metrics: { waiting: 5 } }, { metrics: { waiting: 5 } }],
      config: `${HEAD}plugins:
- {type: session-affinity-scorer, parameters: {strategy: session_id}}
- type: queue-scorer
schedulingProfiles:
- {name: p, plugins: [{pluginRef: session-affinity-scorer, weight: 1}, {pluginRef: queue-scorer, weight: 10}]}
`,
    });
    const waiting = (...values: readonly number[]) => {
      for (const [i, value] of values.entries()) {
        const endpoint = core.endpoint(i + 1);
        endpoint.metrics = { ...endpoint.metrics, waiting: value };
      }
    };
    const session: Headers = [["x-session-id", "u"]];
    expect(ask(core, session)).toBe("10.0.0.1:8000");
    // The queue wins, the session stays bound to the first ...
    waiting(5, 0, 5);
    expect(ask(core, session)).toBe("10.0.0.2:8000");
    // ... as is seen as soon as queues are equal.
    waiting(3, 3, 3);
    expect([ask(core, session), ask(core, session)]).toEqual(["10.0.0.1:8000", "10.0.0.1:8000"]);
    core.endpoints.remove(core.endpoint(1).id);
    const next = ask(core, session);
    expect(["10.0.0.2:8000", "10.0.0.3:8000"]).toContain(next);
    for (let i = 0; i < 20; i++) expect(ask(core, session)).toBe(next);
  });
});
