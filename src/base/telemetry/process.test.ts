import { describe, expect, it } from "vitest";
import { poll } from "../../../test/support/poll.ts";
import { slowRead } from "../../../test/support/slow-exposition.ts";
import { VirtualClock } from "../clock/virtual.ts";
import { render } from "./exposition.ts";
import { startProcessMetrics } from "./process.ts";
import { MetricsRegistry } from "./registry.ts";

function values(registry: MetricsRegistry): Map<string, number> {
  const samples = slowRead(Buffer.from(render(registry))).flatMap((line) => line.sample ?? []);
  return new Map(samples.map((sample) => [sample.name, sample.value]));
}

describe("startProcessMetrics", () => {
  it("shows the process as the system sees it, afresh on every page", async () => {
    const registry = new MetricsRegistry();
    const epoch = 1_800_000_000_000;
    const stop = startProcessMetrics(registry, new VirtualClock(epoch));
    try {
      const before = process.cpuUsage();
      const first = values(registry);
      const cpu = (before.user + before.system) / 1e6;
      expect(first.get("process_cpu_seconds_total")).toBeGreaterThanOrEqual(cpu);
      const parts = first.get("process_cpu_user_seconds_total")! + first.get("process_cpu_system_seconds_total")!;
      expect(first.get("process_cpu_seconds_total")).toBeCloseTo(parts, 6);
      expect(first.get("process_resident_memory_bytes")).toBeGreaterThan(1 << 20);
      expect(first.get("nodejs_heap_size_total_bytes")).toBeGreaterThan(first.get("nodejs_heap_size_used_bytes")! / 2);
      expect(first.get("nodejs_heap_size_used_bytes")).toBeGreaterThan(1 << 20);
      expect(first.get("process_start_time_seconds")).toBeLessThan(epoch / 1000);
      expect(first.get("nodejs_version_info")).toBe(1);
      for (const name of ["sluice_event_loop_lag_seconds", "nodejs_eventloop_lag_p99_seconds"]) {
        expect(first.get(name)).toBeGreaterThanOrEqual(0);
      }
      const later = await poll("CPU time grows", () => {
        const now = values(registry);
        return now.get("process_cpu_seconds_total")! > first.get("process_cpu_seconds_total")! ? now : undefined;
      });
      expect(later.get("process_start_time_seconds")).toBe(first.get("process_start_time_seconds"));
    } finally {
      stop();
    }
  });

  it("sees the event loop held up", async () => {
    const registry = new MetricsRegistry();
    const stop = startProcessMetrics(registry, new VirtualClock());
    try {
      let round = 0;
      await poll("a delay of the event loop", () => {
        // The first sample after a page has no predecessor, so several delays come between two pages.
        if (++round % 4 === 0) return values(registry).get("sluice_event_loop_lag_seconds")! > 0.02;
        const end = process.hrtime.bigint() + 60_000_000n;
        while (process.hrtime.bigint() < end);
        return false;
      });
    } finally {
      stop();
    }
  });

  it.runIf(process.platform === "linux")("counts open files between pages", async () => {
    const registry = new MetricsRegistry();
    const stop = startProcessMetrics(registry, new VirtualClock());
    try {
      const open = await poll("open files", () => values(registry).get("process_open_fds"));
      expect(open).toBeGreaterThan(2);
      expect(open).toBeLessThanOrEqual(values(registry).get("process_max_fds")!);
    } finally {
      stop();
    }
  });

  it("refreshes nothing once stopped", () => {
    const registry = new MetricsRegistry();
    startProcessMetrics(registry, new VirtualClock())();
    expect(values(registry).get("process_resident_memory_bytes")).toBe(0);
  });
});
