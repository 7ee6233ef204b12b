import { describe, expect, it } from "vitest";
import { endpointOf, requestOf } from "../../../test/support/scheduling/fakes.cases.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { parseDocument } from "../../base/document/parse.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import { loadConfig } from "../config/load.ts";
import { UNTIMED } from "../exchange/request-hooks.ts";
import { FLOW_RULES } from "../flowcontrol/rules.ts";
import { Scheduler } from "../scheduling/scheduler.ts";
import { flowControlSettings, type InForce, makeInForce } from "./in-force.ts";
import { instancesOf } from "./plan.ts";
import { PLUGIN_REGISTRY } from "./plugins/plugins.ts";

const HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n";
const SECTION = `plugins:
- {name: turns, type: round-robin-fairness-policy}
- {type: edf-ordering-policy}
- {name: half, type: static-usage-limit-policy, parameters: {threshold: 0.5}}
flowControl:
  maxBytes: 10Gi
  noEndpointRequestTTL: 5m
  usageLimitPolicyPluginRef: half
  priorityBands:
  - {priority: 5, maxRequests: 7, defaultRequestTTL: 0s, fairnessPolicyRef: turns}
  - {priority: -5, maxBytes: 9, fairnessPolicyRef: turns, orderingPolicyRef: edf-ordering-policy}
  defaultNegativePriorityBand: {maxRequests: 3}
`;

const configOf = (text: string) => loadConfig(parseDocument(text, { file: "c" }), PLUGIN_REGISTRY);
const parts = () => ({ clock: new VirtualClock(), random: new SeededRandom(1), log: silentLogger });

function inForce(text: string): InForce {
  const own = parts();
  const failures = new RateLimitedLog(own.log, own.clock, { intervalMs: 1000, maxKeys: 8 });
  return makeInForce(configOf(text), { ...own, ownHooks: [], failures, calls: UNTIMED });
}

describe("the parts in force of flow control", () => {
  it("do not exist with the gate off: then saturation refuses sheddable requests", () => {
    const { flowControl, admission } = inForce(HEAD + SECTION);
    expect(flowControl).toBeUndefined();
    expect(admission.admit(requestOf("p", { priority: -1 }), [], 0)).toMatchObject({ status: 429 });
  });

  it("scheduling 5.5: with the gate on admission refuses nobody for the sign of the priority", () => {
    const { flowControl, admission, detector } = inForce(`${HEAD}featureGates: [flowControl]\n${SECTION}`);
    const busy = endpointOf(0, { metrics: { waiting: 500, kvUsage: 1 } });
    expect(detector.plugin.saturation([busy], 0)).toBeGreaterThan(1);
    expect(admission.admit(requestOf("p", { priority: -1 }), [busy], 0)).toBeUndefined();
    expect(admission.admit(requestOf("p", { priority: -1 }), [], 0)).toBeUndefined();
    expect(flowControl!.detector).toBe(detector.plugin);
  });

  it("are the settings of the file, with each policy made once", () => {
    const config = configOf(`${HEAD}featureGates: [flowControl]\n${SECTION}`);
    const detector = { saturation: () => 0 };
    const settings = flowControlSettings(config.flowControl!, instancesOf(config, parts()), detector);
    const [high, low] = [settings.bands.get(5)!, settings.bands.get(-5)!];
    expect(settings).toMatchObject({ maxBytes: 10 * 2 ** 30, maxRequests: Number.POSITIVE_INFINITY });
    expect(settings.noEndpointTtl).toBe(300_000);
    expect(high).toMatchObject({ maxBytes: 1e9, maxRequests: 7, ttl: Number.POSITIVE_INFINITY });
    expect(low).toMatchObject({ maxBytes: 9, maxRequests: 5000, ttl: 60_000 });
    expect(high.fairness).toBe(low.fairness);
    expect(high.ordering).toBe(settings.template.ordering);
    expect(low.ordering).not.toBe(high.ordering);
    expect(settings.template).toMatchObject({ maxRequests: 5000, fairness: { oneQueue: true } });
    expect(settings.negativeTemplate).toMatchObject({ maxRequests: 3 });
    expect(settings.detector).toBe(detector);
    const ceilings = [1, 1];
    settings.usageLimit.limit(0, [5, -5], ceilings);
    expect(ceilings).toEqual([0.5, 0.5]);
  });

  it("have the rules of the release that counts (scheduling 6.10)", () => {
    const text = `${HEAD}featureGates: [flowControl]\n`;
    for (const parity of ["", "v1.5"] as const) {
      const config = loadConfig(parseDocument(text, { file: "c" }), PLUGIN_REGISTRY, { parity });
      const detector = { saturation: () => 0 };
      const settings = flowControlSettings(config.flowControl!, instancesOf(config, parts()), detector);
      expect(settings.rules).toBe(FLOW_RULES[parity]);
    }
  });
});

describe("producers in force", () => {
  it("may change the headers of a routed request, after they learned where it goes", () => {
    const { hooks, plan } =
      inForce(`${HEAD}plugins: [{type: p2p-source-producer}, {type: prefix-cache-scorer}, {type: queue-scorer}]
schedulingProfiles: [{name: p, plugins: [{pluginRef: queue-scorer}]}]
`);
    const scheduler = new Scheduler({ plan, clock: new VirtualClock(), random: new SeededRandom(1) });
    const prompt = "all work and no play makes jack a dull boy ".repeat(50);
    const ask = (waiting: readonly number[], id: string) => {
      const endpoints = waiting.map((figure, slot) => endpointOf(slot, { metrics: { waiting: figure } }));
      const request = requestOf(prompt, { id });
      const result = scheduler.schedule(request, endpoints, 0);
      if (result instanceof Rejection) throw new Error(result.detail);
      return hooks.preRequest(request, result);
    };
    const first = ask([0, 9], "1");
    expect([first.headers, first.removed]).toEqual([undefined, ["x-kv-cache-source-host-port"]]);
    // The other endpoint has none of it, and the first one has all.
    const second = ask([9, 0], "2");
    expect([second.headers?.keys, second.headers?.values]).toEqual([
      ["x-kv-cache-source-host-port"],
      ["10.0.0.0:8000"],
    ]);
  });
});
