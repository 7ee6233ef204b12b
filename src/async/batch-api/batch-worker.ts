/** The program of the thread of `BatchThread`. */
import { parentPort, workerData } from "node:worker_threads";
import { freshRandom } from "../../base/clock/random.ts";
import { realClock } from "../../base/clock/real.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import { createDispatchMetrics } from "../../base/telemetry/dispatch-metrics.ts";
import { render } from "../../base/telemetry/exposition.ts";
import { createLogger } from "../../base/telemetry/logging.ts";
import { MetricsRegistry } from "../../base/telemetry/registry.ts";
import type { BatchGate } from "./batch-dispatch.ts";
import { openWorkPlace } from "./batch-place.ts";
import { BatchService } from "./batch-service.ts";
import type { ThreadData, ThreadOrder, ThreadProblem, ThreadReport } from "./batch-thread.ts";

const { logging, gate, place, ...options } = workerData as ThreadData;
const tell = (report: ThreadReport): void => parentPort!.postMessage(report);
const log = createLogger({ ...logging, name: "batch" });

try {
  const registry = new MetricsRegistry();
  const deps = { clock: realClock, random: freshRandom(), log, metrics: createDispatchMetrics(registry) };
  const opened = await openWorkPlace(place, options.webhook !== undefined, deps);
  const service = new BatchService({ ...options, gate: gateOf(gate) }, deps, opened);
  service.showMetrics(registry);
  service.start();
  parentPort!.on("message", (order: ThreadOrder) => {
    if (order.kind === "wake") service.wake();
    else if (order.kind === "metrics")
      tell({ kind: "metrics", number: order.number, page: render(registry, order.format) });
    else if (order.kind === "upload") {
      const { number } = order;
      void opened.objects!.put(order.id, order.path).then(
        () => tell({ kind: "uploaded", number, problem: undefined }),
        (error) => tell({ kind: "uploaded", number, problem: problemOf(error) }),
      );
    } else void service.stop(order.drainTimeout).then(() => tell({ kind: "stopped" }));
  });
  tell({ kind: "started" });
} catch (error) {
  tell({ kind: "failed", ...problemOf(error) });
}

function problemOf(error: unknown): ThreadProblem {
  return { code: error instanceof SluiceError ? error.code : undefined, message: messageOf(error) };
}

function gateOf({ baseline, room }: ThreadData["gate"]): BatchGate {
  const shared = new Float64Array(room);
  return { baseline, from: { room: () => ({ requests: shared[0]!, size: shared[1]!, at: shared[2]! }) } };
}
