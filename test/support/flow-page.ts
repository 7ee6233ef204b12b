import { SeededRandom } from "../../src/base/clock/random.ts";
import { VirtualClock } from "../../src/base/clock/virtual.ts";
import { parseDocument } from "../../src/base/document/parse.ts";
import { UNKNOWN_METRICS } from "../../src/base/inference/endpoint.ts";
import { HeaderList } from "../../src/base/inference/headers.ts";
import { render } from "../../src/base/telemetry/exposition.ts";
import { silentLogger } from "../../src/base/telemetry/logger.ts";
import { loadConfig } from "../../src/picker/config/load.ts";
import { showSaturation } from "../../src/picker/core/core-metrics.ts";
import { InferenceCore } from "../../src/picker/core/inference-core.ts";
import { PLUGIN_REGISTRY } from "../../src/picker/core/plugins/plugins.ts";
import { startEndpointMetrics } from "../../src/pool/endpoints/endpoint-metrics.ts";
import { objectivesFromFlags } from "../../src/pool/resources/objectives.ts";
import { ResourceStore } from "../../src/pool/resources/resource-store.ts";
import { NO_WIRE } from "./exchange/fakes.cases.ts";
import { madePool } from "./resources/made.cases.ts";
import { chatBody } from "./session-harness.ts";

const CONFIG = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
featureGates: [flowControl]
plugins:
- {type: concurrency-detector, parameters: {maxConcurrency: 4}}
- type: decode-filter
- type: random-picker
schedulingProfiles:
- {name: default, plugins: [{pluginRef: decode-filter}, {pluginRef: random-picker}]}
flowControl:
  saturationDetector: {pluginRef: concurrency-detector}
`;

/**
 * The metrics page of a real Endpoint Picker with flow control for the pool `p`: one server that computes prompts and one that
 * generates, which is full with 4 requests in flight. Each further request waits: the tenants take turns in sending, and every
 * second request has priority -1.
 * @param requests of two tenants
 */
export function flowPage(requests: number): string {
  const clock = new VirtualClock();
  const resources = new ResourceStore();
  const core = new InferenceCore({
    poolName: "p",
    ...{ clock, random: new SeededRandom(1), staleness: 2000, ignoreSubset: false, log: silentLogger },
    config: loadConfig(parseDocument(CONFIG, { file: "flow-page.yaml" }), PLUGIN_REGISTRY),
    models: { objectives: objectivesFromFlags(["batch=-1"]), resources },
    inferenceModelMetrics: true,
  });
  resources.replace([madePool("p")]);
  const { endpoints, endpointsView: view } = core;
  const gauges = startEndpointMetrics({ ...core, clock, endpoints, view, poolName: "p", poolInterval: 5000 });
  const saturation = showSaturation(core, "p");
  for (const [i, role] of ["prefill", "decode"].entries()) {
    const labels = { "llm-d.ai/role": role };
    const endpoint = endpoints.upsert({
      namespace: "ns",
      name: role,
      address: `10.0.0.${i}`,
      port: 8000,
      rank: 0,
      labels,
    })!;
    endpoint.metrics = { ...UNKNOWN_METRICS, waiting: 0, running: 1, kvUsage: 0.5, scrapedAt: clock.now() };
    endpoints.states.readable(endpoint);
  }
  for (let i = 0; i < requests; i++) {
    const exchange = core.openExchange(NO_WIRE);
    const headers: [string, string][] = [
      [":path", "/v1/chat/completions"],
      ["x-llm-d-inference-fairness-id", `team-${i % 2}`],
      ...(i % 2 === 0 ? [] : [["x-llm-d-inference-objective", "batch"] as [string, string]]),
    ];
    exchange.requestHeaders(HeaderList.of(headers), false);
    exchange.requestBody(Buffer.from(chatBody("hello", { model: "m" })), true);
  }
  clock.advance(1);
  const page = render(core.registry);
  gauges();
  saturation();
  return page;
}
