import { describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import { NO_WIRE } from "../../../test/support/exchange/fakes.cases.ts";
import { chatBody } from "../../../test/support/session-harness.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceExchange } from "../exchange/exchange.ts";
import type { Decision, Routed } from "../exchange/wire.ts";

// Configuration to headers and counters, everything real but the wire and the clock (scheduling 3.7.1).

const HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n";

/** The sample of scheduling 4.6, with other parameters for its handler and more plugins. */
function config({
  handler = "disagg-profile-handler",
  parameters = "{deciders: {prefill: by-prefix}}",
  more = "",
} = {}) {
  return `${HEAD}plugins:
- {type: prefill-filter}
- {type: decode-filter}
- {type: encode-filter}
- {type: queue-scorer}
- {type: prefix-cache-scorer}
- {name: by-prefix, type: prefix-based-pd-decider, parameters: {nonCachedTokens: 512}}
- {type: ${handler}, parameters: ${parameters}}
${more}schedulingProfiles:
- name: prefill
  plugins: [{pluginRef: prefill-filter}, {pluginRef: prefix-cache-scorer, weight: 2}, {pluginRef: queue-scorer}]
- name: decode
  plugins: [{pluginRef: decode-filter}, {pluginRef: prefix-cache-scorer, weight: 2}, {pluginRef: queue-scorer}]
- name: encode
  plugins: [{pluginRef: encode-filter}, {pluginRef: queue-scorer}, {pluginRef: many}]
`.replace(
    "schedulingProfiles:",
    "- {name: many, type: max-score-picker, parameters: {maxNumOfEndpoints: 2}}\nschedulingProfiles:",
  );
}

/** A pool of one endpoint per role, `10.0.0.1` upwards. */
function core(roles: readonly string[], text = config()): TestCore {
  const made = new TestCore({ endpoints: 0, config: text });
  for (const [i, role] of roles.entries())
    made.endpoints.upsert({
      namespace: "default",
      name: `pod-${i + 1}`,
      address: `10.0.0.${i + 1}`,
      port: 8000,
      rank: 0,
      labels: { "llm-d.ai/role": role },
    });
  return made;
}

const FORGED = [
  [":path", "/v1/chat/completions"],
  ["x-prefiller-host-port", "6.6.6.6:1"],
  ["x-encoder-hosts-ports", "6.6.6.6:1"],
] as const;

function ask(given: TestCore, body: string): { exchange: InferenceExchange; decision: Decision } {
  const exchange = given.openExchange(NO_WIRE);
  exchange.requestHeaders(HeaderList.of(FORGED), false);
  return { exchange, decision: exchange.requestBody(Buffer.from(body), true) as Decision };
}

/** Where a request went, and which headers it was given. */
function routed(given: TestCore, body: string) {
  const { exchange, decision } = ask(given, body);
  const route = decision as Routed;
  expect(route.kind).toBe("routed");
  const headers = (route.headers?.keys ?? []).map((key, i) => [key, route.headers!.values[i]]);
  return { exchange, route, to: route.endpoints[0]!.hostPort, headers: Object.fromEntries(headers) };
}

const LONG = chatBody("x".repeat(4096), { model: "m" });
const SHORT = chatBody();
const EPP = "llm_d_epp_disagg_decision_total";
const TWIN = "llm_d_inference_scheduler_disagg_decision_total";

describe("disaggregated serving, decode first", () => {
  it("S-47 a short prompt is decoded where it is prefilled: no header, and the client's own are removed", () => {
    const given = core(["decode", "prefill"]);
    const { to, headers, route } = routed(given, SHORT);
    expect(to).toBe("10.0.0.1:8000");
    expect(headers).toEqual({});
    expect(route.removed).toEqual(["x-prefiller-host-port", "x-encoder-hosts-ports"]);
    expect(given.total(EPP, { decision_type: "decode-only", plugin_type: "disagg-profile-handler" })).toBe(1);
    expect(given.total(TWIN, { decision_type: "decode-only" })).toBe(1);
    expect(given.errors).toEqual([]);
  });

  it("S-47 a long one is prefilled elsewhere as long as nobody has it cached", () => {
    const given = core(["decode", "prefill"]);
    const first = routed(given, LONG);
    expect(first.to).toBe("10.0.0.1:8000");
    expect(first.headers).toEqual({ "x-prefiller-host-port": "10.0.0.2:8000" });
    // A header that is set is not removed besides.
    expect(first.route.removed).toEqual(["x-encoder-hosts-ports"]);
    expect(routed(given, LONG).headers).toEqual({});
    expect(routed(given, chatBody("y".repeat(4096), { model: "other" })).headers).toEqual({
      "x-prefiller-host-port": "10.0.0.2:8000",
    });
    const counted = (model: string, decision: string) => {
      const labels = { model_name: model, decision_type: decision };
      expect(given.total(TWIN, labels)).toBe(given.total(EPP, { ...labels, plugin_name: "disagg-profile-handler" }));
      return given.total(EPP, labels);
    };
    expect([counted("m", "prefill-decode"), counted("m", "decode-only"), counted("other", "prefill-decode")]).toEqual([
      1, 1, 1,
    ]);
    expect(given.total(EPP)).toBe(3);
  });

  it("S-48 nobody to decode: 429, whatever else there is", () => {
    const given = core(["prefill", "encode"]);
    const { decision } = ask(given, LONG);
    expect(decision).toBeInstanceOf(Rejection);
    expect((decision as Rejection).status).toBe(429);
    expect((decision as Rejection).detail).toContain("failed to find available decode workers");
    expect(given.total(EPP)).toBe(0);
    expect(given.inFlight).toBe(0);
  });

  it("the only one to decode is asked though it is marked down, and prefills go to who is up", () => {
    const given = core(["decode", "prefill", "prefill"]);
    given.endpoints.attemptFailed(given.endpoint(1), "connect", "ECONNREFUSED");
    given.endpoints.attemptFailed(given.endpoint(2), "connect", "ECONNREFUSED");
    for (let i = 0; i < 20; i++) {
      const { to, headers } = routed(given, chatBody(`${i}${"x".repeat(4096)}`, { model: "m" }));
      expect([to, headers]).toEqual(["10.0.0.1:8000", { "x-prefiller-host-port": "10.0.0.3:8000" }]);
    }
    expect(given.total(EPP)).toBe(20);
    expect(given.errors).toEqual([]);
  });

  it("one to decode that is down gets nothing while another one is up", () => {
    const given = core(["decode", "decode", "prefill"]);
    given.endpoints.attemptFailed(given.endpoint(1), "connect", "ECONNREFUSED");
    for (let i = 0; i < 20; i++) expect(routed(given, chatBody(`${i}`, { model: "m" })).to).toBe("10.0.0.2:8000");
  });

  it("S-48 nobody to prefill: decoded all the same, without a header", () => {
    const given = core(["decode", "encode"]);
    const { to, headers } = routed(given, LONG);
    expect([to, headers]).toEqual(["10.0.0.1:8000", {}]);
    expect(given.total(EPP, { decision_type: "decode-only" })).toBe(1);
  });

  it("images go to all encoders that the profile chose, and are counted so", () => {
    const parameters = "{deciders: {prefill: by-prefix, encode: always-disagg-multimodal-decider}}";
    const more = "- {type: always-disagg-multimodal-decider}\n";
    const given = core(["decode", "prefill", "encode", "encode"], config({ parameters, more }));
    const content = [{ type: "image_url", image_url: { url: `data:image/png;base64,${"A".repeat(4096)}` } }];
    const image = JSON.stringify({ model: "m", messages: [{ role: "user", content }] });
    const { headers } = routed(given, image);
    expect(headers["x-prefiller-host-port"]).toBe("10.0.0.2:8000");
    expect(headers["x-encoder-hosts-ports"]!.split(",").sort()).toEqual(["10.0.0.3:8000", "10.0.0.4:8000"]);
    expect(given.total(EPP, { decision_type: "encode-prefill-decode" })).toBe(1);
    expect(routed(given, SHORT).headers).toEqual({});
  });

  it("the one that prefills counts as loaded until the answer begins (scheduling 3.12)", () => {
    const given = core(["decode", "prefill"]);
    const { exchange } = routed(given, LONG);
    const load = () => [1, 2].map((n) => given.endpoint(n).inFlight.requests);
    expect(load()).toEqual([1, 1]);
    expect(given.endpoint(2).inFlight.tokens).toBeGreaterThan(512);
    exchange.responseHeaders(200, HeaderList.of([["content-type", "text/event-stream"]]), false);
    expect(load()).toEqual([1, 1]);
    exchange.responseBody(Buffer.from("data: {}\n\n"), false);
    expect(load()).toEqual([1, 0]);
    expect(given.endpoint(2).inFlight.tokens).toBe(0);
    exchange.end("client-gone");
    expect(load()).toEqual([0, 0]);
    // Gone before the first byte: gone everywhere.
    const { exchange: left } = routed(given, chatBody("z".repeat(4096), { model: "m" }));
    expect(load()).toEqual([1, 1]);
    left.end("client-gone");
    expect(load()).toEqual([0, 0]);
  });
});

describe("disaggregated serving otherwise", () => {
  it("prefill first: for every request, with a header", () => {
    const given = core(["decode", "prefill"], config({ parameters: "{stageOrder: Prefill_First}" }));
    expect(routed(given, SHORT).headers).toEqual({ "x-prefiller-host-port": "10.0.0.2:8000" });
    expect(given.total(EPP, { decision_type: "prefill-decode" })).toBe(1);
  });

  it("pd-profile-handler counts under its own name", () => {
    const given = core(
      ["decode", "prefill"],
      config({ handler: "pd-profile-handler", parameters: "{deciderPluginName: by-prefix}" }),
    );
    expect(routed(given, LONG).headers).toEqual({ "x-prefiller-host-port": "10.0.0.2:8000" });
    const labels = { decision_type: "prefill-decode", model_name: "m" };
    expect(given.total("llm_d_epp_pd_decision_total", { ...labels, plugin_type: "pd-profile-handler" })).toBe(1);
    expect(given.total("llm_d_inference_scheduler_pd_decision_total", labels)).toBe(1);
    expect(given.total(EPP)).toBe(0);
  });

  it("a configured disagg-headers-handler takes the place of the handler's own", () => {
    const more = "- {type: disagg-headers-handler, parameters: {prefillProfile: nobody}}\n";
    expect(routed(core(["decode", "prefill"], config({ more })), LONG).headers).toEqual({});
    const older = "- {type: prefill-header-handler}\n";
    expect(routed(core(["decode", "prefill"], config({ more: older })), LONG).headers).toEqual({
      "x-prefiller-host-port": "10.0.0.2:8000",
    });
  });

  it("the decider reads the producer of prefix matches that it names", () => {
    // In blocks of 2,048 tokens two prompts that end differently have nothing in common.
    const coarse = "{name: coarse, type: approx-prefix-cache-producer, parameters: {blockSizeTokens: 2048}}";
    const text = config({ more: `- ${coarse}\n- {type: approx-prefix-cache-producer}\n` });
    const second = (configured: string) => {
      const given = core(["decode", "prefill"], configured);
      routed(given, chatBody(`${"x".repeat(4096)}a`));
      return routed(given, chatBody(`${"x".repeat(4096)}b`)).headers;
    };
    expect(second(text)).toEqual({});
    const named = "{nonCachedTokens: 512, prefixMatchInfoProducerName: coarse}";
    expect(second(text.replace("{nonCachedTokens: 512}", named))).toEqual({ "x-prefiller-host-port": "10.0.0.2:8000" });
  });

  it("keeps the first 1,000 models of clients in its counters and counts the rest as other (S-96, bound)", () => {
    const given = core(["decode", "prefill"]);
    for (let i = 0; i < 1100; i++) routed(given, chatBody("hello", { model: `m-${i}` })).exchange.end("client-gone");
    expect(given.total(EPP)).toBe(1100);
    expect(given.total(EPP, { model_name: "other" })).toBe(100);
  });

  it("a header names the profile", () => {
    const text = config({ handler: "header-profile-handler", parameters: "{headerName: X-Stage}" });
    const given = core(["decode", "prefill"], text);
    const to = (...headers: (readonly [string, string])[]): Decision => {
      const exchange = given.openExchange(NO_WIRE);
      exchange.requestHeaders(HeaderList.of([[":path", "/v1/chat/completions"], ...headers]), false);
      return exchange.requestBody(Buffer.from(SHORT), true) as Decision;
    };
    expect((to() as Routed).endpoints[0]!.hostPort).toBe("10.0.0.1:8000");
    expect((to(["x-stage", "prefill"]) as Routed).endpoints[0]!.hostPort).toBe("10.0.0.2:8000");
    expect((to(["x-stage", "nobody"]) as Rejection).status).toBe(429);
  });
});
