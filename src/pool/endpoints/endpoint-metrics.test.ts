import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { UNKNOWN_METRICS } from "../../base/inference/endpoint.ts";
import { render } from "../../base/telemetry/exposition.ts";
import { createMetrics } from "../../base/telemetry/names.ts";
import { MetricsRegistry } from "../../base/telemetry/registry.ts";
import { startEndpointMetrics } from "./endpoint-metrics.ts";
import { EndpointRegistry } from "./registry.ts";
import { EndpointsView } from "./view.ts";

const shown = (page: string, series: string): string | undefined =>
  page
    .split("\n")
    .find((line) => line.startsWith(`${series} `))
    ?.slice(series.length + 1);

describe("startEndpointMetrics", () => {
  const clock = new VirtualClock();
  const endpoints = new EndpointRegistry({ clock, random: new SeededRandom(1) });
  const registry = new MetricsRegistry();
  const stop = startEndpointMetrics({
    registry,
    metrics: createMetrics(registry),
    endpoints,
    view: new EndpointsView(endpoints, clock),
    poolName: "p",
    clock,
    poolInterval: 5000,
  });
  const scraped = (name: string, waiting: number) => {
    const endpoint = endpoints.upsert({
      namespace: "default",
      name,
      address: `127.0.0.${name.length}`,
      port: 1,
      rank: 0,
      labels: {},
    })!;
    endpoint.metrics = { ...UNKNOWN_METRICS, waiting, running: 1, kvUsage: 0.5, scrapedAt: clock.now() };
    endpoints.states.readable(endpoint);
    return endpoint;
  };

  it("shows a ready endpoint at once, averages at the interval, and forgets what has left (scheduling 8.4)", () => {
    clock.advance(1);
    expect(shown(render(registry), 'inference_pool_ready_pods{name="p"}')).toBe("0");
    const first = scraped("a", 4);
    let page = render(registry);
    expect(shown(page, 'inference_pool_ready_pods{name="p"}')).toBe("1");
    expect(shown(page, 'llm_d_epp_average_queue_size{name="p"}')).toBe("4");
    expect(shown(page, 'inference_pool_per_pod_queue_size{name="p",model_server_pod="a"}')).toBe("4");
    expect(shown(page, 'sluice_endpoint_state{endpoint="default/a",state="up"}')).toBe("1");

    first.metrics = { ...first.metrics, waiting: 8, scrapedAt: clock.now() };
    expect(shown(render(registry), 'llm_d_epp_average_queue_size{name="p"}')).toBe("4");
    clock.advance(4999);
    first.metrics = { ...first.metrics, scrapedAt: clock.now() };
    clock.advance(1);
    expect(shown(render(registry), 'llm_d_epp_average_queue_size{name="p"}')).toBe("8");

    endpoints.remove(first.id);
    page = render(registry);
    expect(page).not.toContain('"default/a"');
    expect(shown(page, 'inference_pool_ready_pods{name="p"}')).toBe("0");
    stop();
    expect(clock.pending).toBe(0);
  });

  it("has the averages of the moment on every page when there is no interval", () => {
    const now = new VirtualClock();
    const pool = new EndpointRegistry({ clock: now, random: new SeededRandom(1) });
    const page = new MetricsRegistry();
    const end = startEndpointMetrics({
      ...{ registry: page, metrics: createMetrics(page), endpoints: pool, view: new EndpointsView(pool, now) },
      ...{ poolName: "p", clock: now, poolInterval: 0 },
    });
    const identity = { namespace: "default", name: "a", address: "127.0.0.1", port: 1, rank: 0, labels: {} };
    const endpoint = pool.upsert(identity)!;
    pool.states.readable(endpoint);
    for (const running of [4, 8]) {
      endpoint.metrics = { ...UNKNOWN_METRICS, waiting: 0, running, kvUsage: 0.5, scrapedAt: now.now() };
      expect(shown(render(page), 'llm_d_epp_average_running_requests{name="p"}')).toBe(String(running));
    }
    end();
    expect(now.pending).toBe(0);
  });
});
