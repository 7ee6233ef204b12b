import { describe, expect, it } from "vitest";
import { render } from "../../base/telemetry/exposition.ts";
import { createMetrics } from "../../base/telemetry/names.ts";
import { MetricsRegistry } from "../../base/telemetry/registry.ts";
import { showExtProc } from "./extproc-metrics.ts";
import { Notices } from "./notices.ts";

describe("showExtProc", () => {
  it("shows what the port and the sessions count, each time a page is made, until it is stopped (D-12)", () => {
    const registry = new MetricsRegistry();
    const metrics = createMetrics(registry);
    const refused = { connections: 1, streams: 2, totalStreams: 5, certificate: 3, flood: 4 };
    const port = { streams: 3, resets: 10, connections: 5, refused };
    const told: string[] = [];
    const notices = new Notices((text) => told.push(text));
    const stop = showExtProc({ registry, metrics }, port, notices);
    const value = (name: string) => new RegExp(`^${name} (.*)$`, "m").exec(render(registry))?.[1];
    expect([value("sluice_extproc_streams"), value("sluice_extproc_resets_total")]).toEqual(["3", "10"]);
    const repeated = 'sluice_extproc_notices_total\\{kind="repeated-end"\\}';
    expect(value(repeated)).toBe("0");
    expect(value("sluice_extproc_connections")).toBe("5");
    for (const [kind, count] of Object.entries({ ...refused, totalStreams: undefined, total_streams: 5 }))
      if (count !== undefined) expect(value(`sluice_extproc_refused_total\\{kind="${kind}"\\}`)).toBe(String(count));
    port.resets = 11;
    notices.add("repeated-end");
    notices.add("repeated-end");
    expect([value("sluice_extproc_resets_total"), value(repeated), told.length]).toEqual(["11", "2", 1]);
    stop();
    port.resets = 99;
    expect(value("sluice_extproc_resets_total")).toBe("11");
  });
});
