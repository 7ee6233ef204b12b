import { expect, it } from "vitest";
import { flowSettings } from "../../../test/support/flow-control.ts";
import { endpointOf, requestOf } from "../../../test/support/scheduling/fakes.cases.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { LabelGuard } from "../../base/telemetry/label-guard.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { createMetrics } from "../../base/telemetry/names.ts";
import { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import { MetricsRegistry } from "../../base/telemetry/registry.ts";
import { Queues } from "./queues.ts";

it("the dispatches of flow control predict how long autoscalers see requests wait", () => {
  const clock = new VirtualClock();
  const pool = [endpointOf(0)];
  const queues = new Queues({
    ...{ clock, metrics: createMetrics(new MetricsRegistry()), poolName: "p", log: silentLogger },
    failures: new RateLimitedLog(silentLogger, clock, { intervalMs: 10_000, maxKeys: 16 }),
    ...{
      models: new LabelGuard(10),
      fairness: new LabelGuard(10),
      pool: () => pool,
      priorities: () => new Set<number>(),
    },
  });
  let saturation = 0;
  queues.use(flowSettings(() => saturation));
  const enter = () => queues.current!.enter(requestOf("p"), 1, 0, { dispatched() {}, evicted() {} });
  // Two a second, for long enough that the smoothed rate has reached it.
  for (let i = 0; i < 200; i++) {
    enter();
    clock.advance(500);
  }
  saturation = 1;
  for (let i = 0; i < 30; i++) enter();
  expect(Math.abs(queues.backlog!.figures().waitSeconds - 15)).toBeLessThan(1);
  queues.close();
});
