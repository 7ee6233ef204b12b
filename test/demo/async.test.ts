import { describe, expect, it } from "vitest";
import { onFreePorts } from "../support/free-port.ts";
import { sluice } from "../support/process.ts";

interface Act {
  readonly name: string;
  readonly realtime: {
    readonly requests: number;
    readonly failed: number;
    readonly interrupted: number;
    readonly ttftMs: { readonly p50: number; readonly p99: number };
  };
  readonly backlog?: {
    readonly queued: number;
    readonly results: number;
    readonly lost: number;
    readonly twice: number;
    readonly failed: number;
    readonly kills: number;
    readonly inFlight: {
      readonly before: number;
      readonly during: number;
      readonly after: number;
      readonly least: number;
    };
  };
}

describe("sluice demo --async", () => {
  it("has a backlog that yields to realtime traffic, catches up, and loses nothing when its dispatcher is killed", async () => {
    const demo = await onFreePorts(async () => {
      const run = sluice("demo", "--async", "--duration", "24s", "--json");
      const exit = await run.ended(110_000);
      expect(exit, run.stderr).toEqual({ code: 0, signal: null });
      return run;
    });
    process.stdout.write(demo.stderr);
    const lines = demo.stdout.trim().split("\n");
    expect(lines).toHaveLength(1);
    const { acts } = JSON.parse(lines[0]!) as { acts: Act[] };
    const [alone, gated, open] = acts as [Act, Act, Act];

    expect(acts.map(({ name }) => name)).toEqual(["realtime alone", "backlog, gate", "backlog, no gate"]);
    for (const { realtime } of acts) {
      expect(realtime.requests).toBe(alone.realtime.requests);
      expect([realtime.failed, realtime.interrupted], demo.stderr).toEqual([0, 0]);
    }
    expect(alone.realtime.requests).toBeGreaterThan(100);

    for (const { backlog } of [gated, open]) {
      expect(backlog!.queued).toBeGreaterThan(50);
      expect(backlog).toMatchObject({ results: backlog!.queued, lost: 0, twice: 0, failed: 0 });
    }
    expect(gated.backlog!.kills).toBe(1);

    // On a busy machine the metrics, and so the yielding, come late: what counts is that it goes down and comes back.
    const { before, after, least } = gated.backlog!.inFlight;
    expect(least, demo.stderr).toBeLessThan(before * 0.7);
    expect(after, demo.stderr).toBeGreaterThan(Math.max(2, least * 1.3));
    // Without the gate realtime requests wait for slots; behind it they don't.
    expect(open.realtime.ttftMs.p99, demo.stderr).toBeGreaterThan(1.2 * gated.realtime.ttftMs.p99);
  });
});
