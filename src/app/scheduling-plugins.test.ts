import { describe, expect, it } from "vitest";
import { TestCore, type TestCoreOptions } from "../../test/support/core.ts";
import { chatBody } from "../../test/support/session-harness.ts";
import { loadConfig } from "../config/load.ts";
import { parseDocument } from "../document/parse.ts";
import { HEADERS, NO_WIRE } from "../exchange/fakes.cases.ts";
import type { Routed } from "../exchange/wire.ts";
import { HeaderList } from "../inference/headers.ts";
import { OUTCOMES, Rejection } from "../inference/outcomes.ts";
import { PLUGIN_REGISTRY } from "./plugins.ts";

const HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n";
const load = (text: string) => loadConfig(parseDocument(`${HEAD}${text}`, { file: "c.yaml" }), PLUGIN_REGISTRY);
const withHeaders = (headers: Readonly<Record<string, string>>) =>
  HeaderList.of([...HEADERS.keys.map((key, i) => [key, HEADERS.values[i]!] as const), ...Object.entries(headers)]);
const kindsOf = (config: ReturnType<typeof load>) =>
  config.profile.plugins.map(({ name, definition }) => `${definition.kind} ${name}`);

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

  it("asks whether a headroom above 1 was meant as a fraction (5.3)", () => {
    const { warnings } = load(
      "plugins: [{type: utilization-detector, parameters: {headroom: 20}}, {type: queue-scorer}]",
    );
    expect(warnings).toEqual([
      "c.yaml:3:40: plugin utilization-detector: headroom 20 tolerates 2000 percent above saturation; did you mean 0.2?",
    ]);
    expect(load("plugins: [{type: utilization-detector, parameters: {headroom: 1}}]").warnings).toEqual([]);
  });
});

describe("detectors in a profile (3.8, 3.15)", () => {
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

  it("scorer and filter share what they know, and must agree on how", () => {
    const both = (filter: string) => `plugins:
- {type: session-affinity-scorer, parameters: {strategy: session_id}}
- {type: session-affinity-filter, parameters: ${filter}}
`;
    const { producers, hooks } = load(both("{strategy: session_id}"));
    expect([producers.map(({ name }) => name), hooks]).toEqual([["session-affinity-producer"], []]);
    expect(() => load(both("{}"))).toThrow(
      "c.yaml:5:3: plugins[1]: the plugins session-affinity-scorer and session-affinity-filter share what they know, so their parameters must agree",
    );
  });

  it("a plugin that stands in no profile brings nothing along", () => {
    const { producers, hooks } = load(`plugins: [{type: session-affinity-scorer}, {type: queue-scorer}]
schedulingProfiles: [{name: p, plugins: [{pluginRef: queue-scorer}]}]`);
    expect([producers, hooks]).toEqual([[], []]);
  });
});

describe("scorers with a memory", () => {
  it("S-40: lruSize of no-hit-lru-scorer is that of its memory", () => {
    const { producers } = load("plugins: [{type: no-hit-lru-scorer, parameters: {lruSize: 7}}]");
    expect(producers.map(({ name, parameters }) => [name, parameters])).toEqual([
      ["no-hit-lru-producer", { lruSize: 7 }],
    ]);
  });
});

describe("a configured plugin of a type that others bring along", () => {
  it("takes its place", () => {
    const { producers } = load(`plugins:
- {type: no-hit-lru-scorer}
- {name: mine, type: no-hit-lru-producer, parameters: {lruSize: 5}}`);
    expect(producers.map(({ name, parameters }) => [name, parameters])).toEqual([["mine", { lruSize: 5 }]]);
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
