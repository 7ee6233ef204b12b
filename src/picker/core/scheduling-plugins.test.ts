import { describe, expect, it } from "vitest";
import { TestCore, type TestCoreOptions } from "../../../test/support/core.ts";
import { HEADERS, NO_WIRE } from "../../../test/support/exchange/fakes.cases.ts";
import { chatBody } from "../../../test/support/session-harness.ts";
import { parseDocument } from "../../base/document/parse.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { OUTCOMES, Rejection } from "../../base/inference/outcomes.ts";
import { loadConfig } from "../config/load.ts";
import type { Routed } from "../exchange/wire.ts";
import { PLUGIN_REGISTRY } from "./plugins/plugins.ts";

const HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n";
const load = (text: string) => loadConfig(parseDocument(`${HEAD}${text}`, { file: "c.yaml" }), PLUGIN_REGISTRY);
const withHeaders = (headers: Readonly<Record<string, string>>) =>
  HeaderList.of([...HEADERS.keys.map((key, i) => [key, HEADERS.values[i]!] as const), ...Object.entries(headers)]);
const kindsOf = (config: ReturnType<typeof load>) =>
  config.profiles[0]!.plugins.map(({ name, definition }) => `${definition.kind} ${name}`);

describe("warnings of a configuration", () => {
  it("tells a deprecated type once, with what to write instead", () => {
    const { warnings } = load(`plugins:
- {name: a, type: by-label-selector, parameters: {matchLabels: {tier: gold}}}
- {name: b, type: by-label-selector}
- {type: by-label, parameters: {label: role, validValues: [decode]}}
- type: queue-scorer
`);
    expect(warnings).toEqual([
      "c.yaml:4:3: plugin type by-label-selector is deprecated; write label-selector-filter, with the same parameters",
      expect.stringContaining("c.yaml:6:3: plugin type by-label is deprecated; write label-selector-filter, with a"),
    ]);
  });

  it("tells each number that is out of range what it counts as, and no other", () => {
    const { warnings } = load(`plugins:
- {type: load-aware-scorer, parameters: {threshold: 0}}
- {type: token-load-scorer, parameters: {queueThresholdTokens: -1}}
- {type: active-request-scorer, parameters: {idleThreshold: -2, maxBusyScore: 1.5}}
- {type: no-hit-lru-scorer, parameters: {lruSize: 0}}
- {type: prefix-cache-scorer, parameters: {matchLengthWeight: 0.5, matchLengthScaleTokens: 1024}}
- {type: weighted-random-picker, parameters: {maxNumOfEndpoints: 0}}
`);
    expect(warnings).toEqual([
      "c.yaml:4:42: threshold 0 of plugin load-aware-scorer is out of range and counts as 128",
      "c.yaml:5:42: queueThresholdTokens -1 of plugin token-load-scorer is out of range and counts as 4194304",
      "c.yaml:6:46: idleThreshold -2 of plugin active-request-scorer is out of range and counts as 0",
      "c.yaml:6:65: maxBusyScore 1.5 of plugin active-request-scorer is out of range and counts as 1",
      "c.yaml:7:42: lruSize 0 of plugin no-hit-lru-scorer is out of range and counts as 1024",
      "c.yaml:9:47: maxNumOfEndpoints 0 of plugin weighted-random-picker is out of range and counts as 1",
    ]);
  });

  it("asks whether a headroom above 1 was meant as a fraction (scheduling 5.3)", () => {
    const { warnings } = load(
      "plugins: [{type: utilization-detector, parameters: {headroom: 20}}, {type: queue-scorer}]",
    );
    expect(warnings).toEqual([
      "c.yaml:3:40: plugin utilization-detector: headroom 20 tolerates 2000 percent above saturation; did you mean 0.2?",
    ]);
    expect(load("plugins: [{type: utilization-detector, parameters: {headroom: 1}}]").warnings).toEqual([]);
  });
});

describe("detectors in a profile (scheduling 3.8, 3.15)", () => {
  const PROFILE = (detector: string, parameters = "{}") => `plugins:
- {name: d, type: ${detector}, parameters: ${parameters}}
- type: queue-scorer
schedulingProfiles: [{name: p, plugins: [{pluginRef: d}, {pluginRef: queue-scorer}]}]
`;

  it("one type is a filter there and a detector where it is named as one", () => {
    const config = load(`${PROFILE("concurrency-detector")}flowControl: {saturationDetector: {pluginRef: d}}`);
    expect(kindsOf(config)).toEqual(["filter d", "scorer queue-scorer", "picker max-score-picker"]);
    expect(config.detector.definition.kind).toBe("saturation-detector");
    expect(config.warnings).toEqual([]);
    // Filtering is use enough.
    expect(load(PROFILE("concurrency-detector")).warnings).toEqual([]);
  });

  it("S-61: without profiles they are members of the profile `default`, as every filter is", () => {
    const config = load("plugins: [{type: utilization-detector}, {type: queue-scorer}]");
    expect(kindsOf(config)).toEqual(["filter utilization-detector", "scorer queue-scorer", "picker max-score-picker"]);
  });

  function decide(config: string, endpoints: TestCoreOptions["endpoints"], busy: readonly number[] = []) {
    const core = new TestCore({ config: `${HEAD}${config}`, ...(endpoints === undefined ? {} : { endpoints }) });
    busy.forEach((requests, i) => {
      core.endpoint(i + 1).inFlight.requests = requests;
    });
    const exchange = core.openExchange(NO_WIRE);
    exchange.requestHeaders(HEADERS, false);
    return exchange.requestBody(Buffer.from(chatBody()), true);
  }

  it("S-41: a concurrency-detector that leaves nobody refuses: 429, rejected-saturated", () => {
    const config = PROFILE("concurrency-detector", "{maxConcurrency: 2}");
    expect((decide(config, 2, [2, 1]) as Routed).endpoints.map(({ id }) => id)).toEqual(["default/pod-2"]);
    const refused = decide(config, 2, [2, 3]);
    if (!(refused instanceof Rejection)) throw new Error("was routed");
    expect(OUTCOMES[refused.reason]).toMatchObject({ status: 429, dropped: "rejected-saturated" });
  });

  it("S-41: a utilization-detector that leaves nobody falls back to all", () => {
    const config = PROFILE("utilization-detector");
    const full = { metrics: { waiting: 50 } };
    expect((decide(config, [full, full]) as Routed).endpoints).toHaveLength(2);
    expect((decide(config, [full, { metrics: { waiting: 1 } }]) as Routed).endpoints).toHaveLength(1);
  });
});

describe("session affinity through the exchange (S-46)", () => {
  const SCORER = (parameters: string) => `${HEAD}plugins:
- {type: session-affinity-scorer, parameters: ${parameters}}
- type: random-picker
- type: max-score-picker
schedulingProfiles: [{name: p, plugins: [{pluginRef: session-affinity-scorer}, {pluginRef: max-score-picker}]}]
`;

  /** One request: where it went, and the token of its answer. */
  function send(core: TestCore, headers: Readonly<Record<string, string>>): { id: string; token: string | undefined } {
    const exchange = core.openExchange(NO_WIRE);
    exchange.requestHeaders(withHeaders(headers), false);
    const route = exchange.requestBody(Buffer.from(chatBody()), true) as Routed;
    const answer = exchange.responseHeaders(200, new HeaderList(), true);
    exchange.end("complete");
    return { id: route.endpoints[0]!.id, token: answer?.get("x-session-token") };
  }

  it("the answer carries a token, a request with it goes to the same endpoint, and elsewhere once that is gone", () => {
    const core = new TestCore({ config: SCORER("{}"), endpoints: 8 });
    const first = send(core, {});
    expect(first.token).toBe(Buffer.from(first.id).toString("base64"));
    for (let i = 0; i < 10; i++) expect(send(core, { "x-session-token": first.token! })).toEqual(first);
    core.endpoints.remove(first.id);
    const next = send(core, { "x-session-token": first.token! });
    expect(next.id).not.toBe(first.id);
    expect(next.token).toBe(Buffer.from(next.id).toString("base64"));
    expect(send(core, { "x-session-token": next.token! })).toEqual(next);
  });

  it("by session id nothing is added to the answer, and sessions keep their endpoint", () => {
    const core = new TestCore({ config: SCORER("{strategy: session_id}"), endpoints: 8 });
    const places = ["a", "b", "c", "d"].map((id) => send(core, { "x-session-id": id }));
    expect(places.map(({ token }) => token)).toEqual([undefined, undefined, undefined, undefined]);
    for (let i = 0; i < 5; i++)
      expect(["a", "b", "c", "d"].map((id) => send(core, { "x-session-id": id }))).toEqual(places);
    expect(new Set(places.map(({ id }) => id)).size).toBeGreaterThan(1);
  });

  const FOUND = (sources: string) => `plugins:
- {name: cookies, type: session-id-producer, parameters: {cookieName: sid}}
- {type: agent-identity, parameters: {additionalSessionHeaders: [x-own-agent]}}
- type: session-affinity-filter
  parameters:
    strategy: session_id
    sessionIdConfig: {sources: ${sources}}
- type: max-score-picker
schedulingProfiles: [{name: p, plugins: [{pluginRef: session-affinity-filter}, {pluginRef: max-score-picker}]}]
`;

  it("sessions are found in cookies and in what agents send, too", () => {
    const sources = "[{attribute: SessionIDDataKey, producer: cookies}, {attribute: agent-identity}]";
    const core = new TestCore({ config: HEAD + FOUND(sources), endpoints: 8 });
    const [one, two] = [{ cookie: "a=b; sid=one" }, { "x-own-agent": "two" }];
    const places = [send(core, one).id, send(core, two).id];
    for (let i = 0; i < 8; i++) expect([send(core, one).id, send(core, two).id]).toEqual(places);
    expect(new Set(Array.from({ length: 8 }, (_, i) => send(core, { cookie: `sid=${i}` }).id)).size).toBeGreaterThan(1);
  });

  it("a source that names no plugin of the file is refused at its place", () => {
    const without = (type: string, sources: string) =>
      FOUND(sources).replace(new RegExp(`^- .*type: ${type}.*\\n`, "m"), "");
    expect(() => load(without("session-id-producer", "[{attribute: SessionIDDataKey}]"))).toThrow(
      "c.yaml:8:34: plugins[1].parameters.sessionIdConfig.sources[0].attribute: plugin session-affinity-filter has a dependency on the unregistered plugin session-id-producer; add `- type: session-id-producer` to plugins",
    );
    expect(() => load(without("agent-identity", "[{attribute: agent-identity}]"))).toThrow(
      "the unregistered plugin agent-identity; add `- type: agent-identity` to plugins",
    );
    expect(() => load(FOUND("[{attribute: SessionIDDataKey, producer: cookie}]"))).toThrow(
      "the unregistered plugin cookie; did you mean `cookies`?",
    );
    expect(() => load(FOUND("[{attribute: agent-identity, producer: cookies}]"))).toThrow(
      "takes a request-header-processor here, but cookies is a producer",
    );
  });

  it("scorer and filter share what they know where they are told the same", () => {
    const both = (filter: string) => `plugins:
- {type: session-affinity-scorer, parameters: {strategy: session_id}}
- {type: session-affinity-filter, parameters: ${filter}}
`;
    const { producers, hooks } = load(both("{strategy: session_id}"));
    expect([producers.map(({ name }) => name), hooks]).toEqual([["session-affinity-producer"], []]);
    const apart = load(both("{}"));
    expect(apart.producers.map(({ name, parameters }) => [name, parameters])).toMatchObject([
      ["session-affinity-producer", { strategy: "session_id" }],
      ["session-affinity-producer-of-session-affinity-filter", { strategy: "encoded_endpoint_header" }],
    ]);
    expect(apart.hooks.map(({ name }) => name)).toEqual(["session-token-hook"]);
  });

  it("each stage of disaggregated serving can have its own: both endpoints of a session stay", () => {
    const core = new TestCore({
      config: `${HEAD}plugins:
- {name: at-decode, type: session-affinity-scorer}
- name: at-prefill
  type: session-affinity-scorer
  parameters: {profileName: prefill, encodedEndpointHeaderConfig: {header: x-session-token-prefill}}
- {type: disagg-profile-handler, parameters: {deciders: {prefill: always-disagg-pd-decider}}}
- type: always-disagg-pd-decider
- type: max-score-picker
schedulingProfiles:
- {name: decode, plugins: [{pluginRef: at-decode}, {pluginRef: max-score-picker}]}
- {name: prefill, plugins: [{pluginRef: at-prefill}, {pluginRef: max-score-picker}]}
`,
      endpoints: 20,
    });
    const tokens = (headers: Readonly<Record<string, string>>) => {
      const exchange = core.openExchange(NO_WIRE);
      exchange.requestHeaders(withHeaders(headers), false);
      const route = exchange.requestBody(Buffer.from(chatBody()), true) as Routed;
      const answer = exchange.responseHeaders(200, new HeaderList(), true)!;
      exchange.end("complete");
      expect(answer.get("x-session-token")).toBe(Buffer.from(route.endpoints[0]!.id).toString("base64"));
      return { decode: answer.get("x-session-token")!, prefill: answer.get("x-session-token-prefill")! };
    };
    const first = tokens({});
    const sent = { "x-session-token": first.decode, "x-session-token-prefill": first.prefill };
    for (let i = 0; i < 10; i++) expect(tokens(sent)).toEqual(first);
    // Each header is heard by the stage it belongs to.
    const swapped = { "x-session-token": first.prefill, "x-session-token-prefill": first.decode };
    expect(first.prefill).not.toBe(first.decode);
    expect(tokens(swapped)).toEqual({ decode: first.prefill, prefill: first.decode });
  });

  it("a plugin that stands in no profile brings nothing along", () => {
    const { producers, hooks } = load(`plugins: [{type: session-affinity-scorer}, {type: queue-scorer}]
schedulingProfiles: [{name: p, plugins: [{pluginRef: queue-scorer}]}]`);
    expect([producers, hooks]).toEqual([[], []]);
  });
});

describe("scorers with a memory", () => {
  it("S-40: lruSize of no-hit-lru-scorer is that of its memory, and both read the same prefix matches", () => {
    const parameters = "{lruSize: 7, prefixMatchInfoProducerName: second}";
    const { producers } = load(`plugins:
- {type: no-hit-lru-scorer, parameters: ${parameters}}
- {type: approx-prefix-cache-producer}
- {type: approx-prefix-cache-producer, name: second}`);
    expect(producers.slice(2).map(({ name, parameters }) => [name, parameters])).toEqual([
      ["no-hit-lru-producer", { lruSize: 7, prefixMatchInfoProducerName: "second" }],
    ]);
  });
});

describe("a configured plugin of a type that others bring along", () => {
  it("takes its place", () => {
    const { producers } = load(`plugins:
- {type: no-hit-lru-scorer}
- {name: mine, type: no-hit-lru-producer, parameters: {lruSize: 5}}`);
    expect(producers).toMatchObject([{ name: "mine", parameters: { lruSize: 5 } }]);
  });
});

describe("weighted-random-picker through the scheduler", () => {
  it("S-32: maxNumOfEndpoints 2 offers two distinct endpoints", () => {
    const core = new TestCore({
      config: `${HEAD}plugins: [{type: queue-scorer}, {type: weighted-random-picker, parameters: {maxNumOfEndpoints: 2}}]`,
      endpoints: 5,
    });
    expect(core.scheduler.offered).toBe(2);
    const exchange = core.openExchange(NO_WIRE);
    exchange.requestHeaders(HEADERS, false);
    const { endpoints } = exchange.requestBody(Buffer.from(chatBody()), true) as Routed;
    expect(new Set(endpoints.slice(0, 2)).size).toBe(2);
  });
});
