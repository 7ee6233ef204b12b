import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import type { EndpointMetrics } from "../../base/inference/endpoint.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { STICKY_CONFIG } from "../config/defaults.ts";
import { effectiveSummary } from "../config/effective.ts";
import { readConfig } from "./config-source.ts";

const EXAMPLE = readFileSync(new URL("../../../examples/sticky-until-saturated.yaml", import.meta.url), "utf8");
const PROFILE = "sticky-until-saturated";

interface Sent {
  /** Number of the endpoint, from 1 up. */
  readonly pod: number;
  /** Ends it: it is in flight no longer. */
  end(): void;
}

type Metrics = Partial<EndpointMetrics>;

/** A pool of endpoints with these metrics, or of which nothing is known; what is sent stays in flight until it is ended. */
function pool(metrics: readonly (Metrics | undefined)[] = [{}, {}, {}]) {
  const endpoints = metrics.map((each) => (each === undefined ? {} : { metrics: each }));
  const core = new TestCore({ config: STICKY_CONFIG, endpoints, objectives: ["low=-1"] });
  const send = (prompt: string, { objective = "", model = "m" } = {}): Sent => {
    const exchange = core.openExchange({ pauseRequest() {}, resumeRequest() {}, evict() {} });
    const headers: [string, string][] = [[":path", "/v1/completions"]];
    if (objective !== "") headers.push(["x-gateway-inference-objective", objective]);
    exchange.requestHeaders(HeaderList.of(headers), false);
    const decision = exchange.requestBody(Buffer.from(JSON.stringify({ model, prompt })), true);
    if (decision === undefined || decision instanceof Rejection || !("endpoints" in decision))
      throw new Error("not routed");
    const pod = Number(decision.endpoints[0]!.name.slice("pod-".length));
    return { pod, end: () => exchange.end("client-gone") };
  };
  /** Requests that others have there. */
  const busy = (pod: number, requests: number): void => {
    for (let n = 0; n < requests; n++) core.endpoints.inFlight.open(core.endpoint(pod), 0);
  };
  return { send, busy, loads: () => metrics.map((_, i) => core.endpoint(i + 1).inFlight.requests) };
}

/** 4 KB: 16 blocks; the same letter is the same prompt but for the end. */
const prompt = (letter: string, end = 0): string => `${letter.repeat(4096)} ${end}`;

describe("the profile sticky-until-saturated", () => {
  it("is the same by its name and from the example, and sheds by the same measure as the default", async () => {
    const { source: _, ...byName } = effectiveSummary(await readConfig({ profile: PROFILE }, silentLogger));
    const { source: __, ...byText } = effectiveSummary(await readConfig({ configText: EXAMPLE }, silentLogger));
    expect(byName).toEqual(byText);
    const { saturationDetector } = effectiveSummary(await readConfig({}, silentLogger));
    expect(byName).toMatchObject({ profile: PROFILE, picker: "max-score-picker", saturationDetector });
    const send = (waiting: number) => () =>
      pool([{ waiting }, { waiting }, { waiting }]).send(prompt("a"), { objective: "low" });
    expect(send(4)).not.toThrow();
    expect(send(5)).toThrow("not routed");
  });

  it("sends requests that come one after the other to the endpoint that holds the prompt", () => {
    const { send } = pool();
    const home = send(prompt("a"));
    home.end();
    for (let n = 1; n <= 40; n++) {
      const next = send(prompt("a", n));
      expect(next.pod).toBe(home.pod);
      next.end();
    }
  });

  it.each<[string, readonly (Metrics | undefined)[]]>([
    ["that are idle by their own account", [{}, {}, {}]],
    ["without metrics", [undefined, undefined, undefined]],
    ["that report queues and full caches", [1, 2, 3].map(() => ({ waiting: 50, kvUsage: 0.95 }))],
  ])(
    "stays with one of three %s until that has 1.4 times its share, then goes elsewhere, and returns",
    (_, metrics) => {
      const { send, busy, loads } = pool(metrics);
      const home = send(prompt("a"));
      const others = [1, 2, 3].filter((pod) => pod !== home.pod);
      busy(home.pod, 9);
      for (const pod of others) busy(pod, 10);
      // The twentieth would be 20 of 40, and 1.4 times a third of 40 is 18.7.
      const more = Array.from({ length: 9 }, (_, n) => send(prompt("a", n)));
      expect(new Set(more.map(({ pod }) => pod))).toEqual(new Set([home.pod]));
      expect(loads()[home.pod - 1]).toBe(19);
      const away = send(prompt("a", 10));
      expect(others).toContain(away.pod);
      // Both hold it now: the less loaded one gets the next.
      expect(send(prompt("a", 11)).pod).toBe(away.pod);
      for (const one of more) one.end();
      expect(send(prompt("a", 12)).pod).toBe(home.pod);
    },
  );

  it("leaves an endpoint by its share of what is in flight, not by the queue that it reports", () => {
    const { send, busy } = pool([{ waiting: 0 }, { waiting: 9, kvUsage: 0.9 }, { waiting: 9, kvUsage: 0.9 }]);
    const home = send(prompt("a"));
    expect(home.pod).toBe(1);
    for (const pod of [1, 2, 3]) busy(pod, 10);
    expect(send(prompt("a", 1)).pod).toBe(1);
    busy(1, 9);
    expect([2, 3]).toContain(send(prompt("a", 2)).pod);
  });

  it("spreads prompts that nobody holds evenly, and sends them to others than those with a queue", () => {
    const even = pool();
    const first = Array.from("abcdefghi", (letter) => even.send(prompt(letter)).pod);
    expect([1, 2, 3].map((pod) => first.filter((other) => other === pod).length)).toEqual([3, 3, 3]);
    const { send, busy, loads } = pool([{}, { waiting: 9 }, {}]);
    for (const pod of [1, 2, 3]) busy(pod, 10);
    for (const letter of "abcdef") send(prompt(letter));
    expect(loads()).toEqual([13, 10, 13]);
  });

  it("sends a new prompt for an adapter where that is loaded, until this has 1.4 times its share", () => {
    const holding = (adapter: string): Metrics => ({ maxLora: 1, loraRunning: new Set([adapter]) });
    const { send, busy, loads } = pool([holding("chat"), holding("sql"), holding("code")]);
    for (const pod of [1, 2, 3]) busy(pod, 10);
    for (const letter of "abcdefghi") expect(send(prompt(letter), { model: "sql" }).pod).toBe(2);
    expect(send(prompt("j"), { model: "sql" }).pod).not.toBe(2);
    expect(loads()[1]).toBe(19);
  });
});
