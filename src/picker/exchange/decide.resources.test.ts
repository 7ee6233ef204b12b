import { describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import { madeModel, madePool, madeRewrite, rule, targets } from "../../../test/support/resources/made.cases.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { ResourceObject } from "../../pool/resources/objects.ts";
import { ResourceStore } from "../../pool/resources/resource-store.ts";
import type { Decision, Wire } from "./wire.ts";

const WIRE: Wire = { pauseRequest() {}, resumeRequest() {}, evict() {} };

/** What the wire is told for a chat request; "" = the body has no model. */
function ask(core: TestCore, model: string, ...headers: (readonly [string, string])[]): Decision {
  const exchange = core.openExchange(WIRE);
  exchange.requestHeaders(HeaderList.of([[":path", "/v1/chat/completions"], ...headers]), false);
  const name = model === "" ? "" : `"model":"${model}",`;
  const body = Buffer.from(`{${name}"messages":[{"role":"user","content":"hi"}]}`);
  const decision = exchange.requestBody(body, true) as Decision;
  if (decision instanceof Rejection) exchange.end("rejected");
  return decision;
}

/** Status of a refusal, or the body that is forwarded. */
function outcome(decision: Decision): string {
  if (decision instanceof Rejection) return `${decision.status} ${decision.detail}`;
  const body = Buffer.concat(decision.body).toString();
  expect(decision.bodyLength).toBe(body.length);
  return body;
}

function coreWith(objects: readonly ResourceObject[], waiting = 0) {
  const resources = new ResourceStore();
  resources.replace(objects);
  return { resources, core: new TestCore({ models: { resources }, endpoints: [{ metrics: { waiting } }] }) };
}

describe("exchanges with API objects", () => {
  const rest = '"messages":[{"role":"user","content":"hi"}]}';

  it("forward the target of the InferenceModel, the same bytes without targets, 404 for others (E-87, R-7, R-15)", () => {
    const { core } = coreWith([
      madePool(),
      madeModel("a", "chat", { targets: targets("chat-v2") }),
      madeModel("b", "plain"),
    ]);
    expect(outcome(ask(core, "chat"))).toBe(`{"model":"chat-v2",${rest}`);
    expect(outcome(ask(core, "plain"))).toBe(`{"model":"plain",${rest}`);
    expect(outcome(ask(core, "gpt"))).toBe("404 error finding a model object in InferenceModel for input gpt");
    expect(core.total("llm_d_epp_request_error_total", { error_code: "BadConfiguration" })).toBe(1);
    expect(core.total("llm_d_epp_request_total", { model_name: "chat", target_model_name: "chat-v2" })).toBe(1);
  });

  it("add the model that a rule or the header supplies (E-109)", () => {
    const { core } = coreWith([madePool(), madeRewrite("r", [rule("x", "y")])]);
    expect(outcome(ask(core, "", ["x-llm-d-model-name-rewrite", "z"]))).toMatch(/^\{"model":"z",\s*"messages"/);
    expect(outcome(ask(core, ""))).toBe("400 model not found in request body");
    expect(outcome(ask(core, "x", ["x-llm-d-model-name-rewrite", "z"]))).toBe(`{"model":"y",${rest}`);
  });

  it("end with 503 while there is no pool, with a body or without, and go on when it is back (E-130, R-25)", () => {
    const objects = [madePool(), madeModel("a", "chat")];
    const { core, resources } = coreWith(objects);
    const bodiless = () => outcome(core.decider.withoutBody(undefined)).slice(0, 3);
    expect([outcome(ask(core, "chat")).slice(0, 9), bodiless()]).toEqual([`{"model":`, ""]);
    resources.replace([]);
    expect([outcome(ask(core, "chat")), outcome(ask(core, "gpt")), bodiless()]).toEqual([
      "503 failed to find endpoint candidates for serving the request",
      "503 failed to find endpoint candidates for serving the request",
      "503",
    ]);
    expect(outcome(ask(core, ""))).toMatch(/^400 /);
    resources.replace(objects);
    expect([outcome(ask(core, "chat")).slice(0, 9), outcome(ask(core, "gpt")).slice(0, 3), bodiless()]).toEqual([
      `{"model":`,
      "404",
      "",
    ]);
  });

  it("shed Sheddable models first, then Standard ones, Critical ones never (R-18)", () => {
    const models = (["Critical", "Standard", "Sheddable"] as const).map((criticality) =>
      madeModel(criticality.toLowerCase(), criticality, { criticality }),
    );
    // A queue of five is saturation 1 by the default detector.
    const statuses = [4, 5, 10].map((waiting) => {
      const { core } = coreWith([madePool(), ...models], waiting);
      return models
        .map(({ modelName }) => ask(core, modelName))
        .map((decision) => (decision instanceof Rejection ? decision.status : 200));
    });
    expect(statuses).toEqual([
      [200, 200, 200],
      [200, 200, 429],
      [200, 429, 429],
    ]);
  });
});
