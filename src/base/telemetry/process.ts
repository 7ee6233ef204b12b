import { readFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { monitorEventLoopDelay } from "node:perf_hooks";
import type { Clock } from "../clock/clock.ts";
import { PROCESS_METRICS } from "./process-metrics.ts";
import { type MetricsRegistry, registerTable } from "./registry.ts";

/** How often the event loop's delay is sampled, in milliseconds. */
const LAG_RESOLUTION = 20;

/**
 * Registers the metrics of the process itself and refreshes them on every rendering. Returns the function that stops that. Call
 * it once per registry (SluiceError METRIC_SPEC otherwise).
 */
export function startProcessMetrics(registry: MetricsRegistry, clock: Clock): () => void {
  const metrics = registerTable(registry, PROCESS_METRICS);
  metrics.version.with(process.version).set(1);
  metrics.startTime.with().set(clock.wall() / 1000 - process.uptime());
  const maxFds = maxOpenFiles();
  if (maxFds !== undefined) metrics.maxFds.with().set(maxFds);

  // To count means to list a directory, which takes long with thousands of connections. Therefore it runs beside the rendering.
  let counting = false;
  const countFds = (): void => {
    if (counting || process.platform !== "linux") return;
    counting = true;
    readdir("/proc/self/fd").then(
      (entries) => {
        metrics.openFds.with().set(entries.length);
        counting = false;
      },
      () => {
        counting = false;
      },
    );
  };
  countFds();

  const delay = monitorEventLoopDelay({ resolution: LAG_RESOLUTION });
  delay.enable();
  /** A sample is the time between two firings of a timer, so the period of the timer is taken off. */
  const lagSeconds = (nanoseconds: number): number => Math.max(0, nanoseconds / 1e9 - LAG_RESOLUTION / 1000);

  const user = metrics.cpuUserSeconds.with();
  const system = metrics.cpuSystemSeconds.with();
  const both = metrics.cpuSeconds.with();
  const unregister = registry.onRender(() => {
    const cpu = process.cpuUsage();
    user.inc(cpu.user / 1e6 - user.value);
    system.inc(cpu.system / 1e6 - system.value);
    both.inc((cpu.user + cpu.system) / 1e6 - both.value);
    const memory = process.memoryUsage();
    metrics.residentMemory.with().set(memory.rss);
    metrics.heapTotal.with().set(memory.heapTotal);
    metrics.heapUsed.with().set(memory.heapUsed);
    metrics.externalMemory.with().set(memory.external);
    metrics.lagP50.with().set(lagSeconds(delay.percentile(50)));
    metrics.lagP99.with().set(lagSeconds(delay.percentile(99)));
    metrics.lagMax.with().set(lagSeconds(delay.max));
    delay.reset();
    countFds();
  });
  return () => {
    unregister();
    delay.disable();
  };
}

/** The soft limit on open files, where the kernel shows it. */
function maxOpenFiles(): number | undefined {
  try {
    const found = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "latin1"));
    return found === null ? undefined : Number(found[1]);
  } catch {
    return undefined;
  }
}
