import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FakePrometheus } from "../../../test/support/fake-prometheus.ts";
import { flowPage } from "../../../test/support/flow-page.ts";
import { type MetricGateBench, metricGateBench } from "../../../test/support/metric-gates.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";

let clock: VirtualClock;
let page: FakePrometheus;
const open: MetricGateBench[] = [];

beforeEach(async () => {
  clock = new VirtualClock(1_800_000_000_000);
  page = await FakePrometheus.start(clock);
});

afterEach(async () => {
  for (const bench of open.splice(0)) await bench.close();
  await page.close();
});

/** What `endpoint-scrape` reads from the page of an Endpoint Picker with that many requests for 4 slots. */
function read(requests: number, parameters: Record<string, unknown>) {
  page.reply = () => ({ body: flowPage(requests) });
  const bench = metricGateBench("endpoint-scrape", { url: `${page.url}/metrics`, ...parameters }, { clock });
  open.push(bench);
  return bench.read();
}

describe("endpoint-scrape on the page of an Endpoint Picker with flow control", () => {
  const SATURATION = {
    metric: "llm_d_epp_flow_control_pool_saturation",
    labels: { stage: "effective", inference_pool: "p" },
  };

  it.each([
    [0, 1],
    [2, 0.5],
    [10, 0],
  ])("takes the saturation of the fuller stage: %d requests leave a budget of %d", async (requests, budget) => {
    expect(await read(requests, SATURATION)).toMatchObject({ readable: true, budget });
    // Without a stage the fullest one counts, which is the same. The deprecated name has the same series.
    expect((await read(requests, { ...SATURATION, labels: {} })).budget).toBe(budget);
    const older = "inference_extension_flow_control_pool_saturation";
    expect((await read(requests, { ...SATURATION, metric: older })).budget).toBe(budget);
  });

  const QUEUE = {
    metric: "llm_d_epp_flow_control_queue_size",
    labels: { inference_pool: "p" },
    ...{ max_count_per_pod: 6, pods_metric: "llm_d_epp_ready_endpoints", pods_labels: { name: "p" } },
  };

  it("adds the queues of all tenants and priorities where it is told so", async () => {
    const parameters = { ...QUEUE, pods_url: `${page.url}/metrics` };
    // Six wait, three of each tenant; two servers take twelve.
    expect(await read(10, { ...parameters, combine: "sum" })).toMatchObject({ budget: 0.5, maxSys: 12 });
    expect((await read(10, parameters)).budget).toBe(0.75);
    const one = { ...parameters, combine: "sum", labels: { priority: "-1" } };
    expect((await read(10, one)).budget).toBe(0.75);
  });

  it("is closed while no request has ever entered a queue: then the page has no queue", async () => {
    const reading = await read(0, { ...QUEUE, combine: "sum", pods_url: `${page.url}/metrics` });
    expect(reading).toMatchObject({ readable: false, problem: "the metric has no samples", budget: 0 });
  });
});
