import { describe, expect, it } from "vitest";
import { onFreePorts } from "../support/free-port.ts";
import { sluice } from "../support/process.ts";

interface Act {
  readonly name: string;
  /** Its times say more about the machine than about what was measured. */
  readonly tooBusy: boolean;
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

/** Seconds of all three acts: how long another program takes the machine matters less the longer they are. */
const DURATIONS = [24, 48, 96];

/** Runs the demo. Whatever the machine does meanwhile, every request has its answer, and every message one result. */
async function play(seconds: number): Promise<{ acts: readonly [Act, Act, Act]; told: string }> {
  const demo = await onFreePorts(async () => {
    const run = sluice("demo", "--async", "--duration", `${seconds}s`, "--json");
    const exit = await run.ended(seconds * 5000);
    expect(exit, run.stderr).toEqual({ code: 0, signal: null });
    return run;
  });
  process.stdout.write(demo.stderr);
  const lines = demo.stdout.trim().split("\n");
  expect(lines).toHaveLength(1);
  const { acts } = JSON.parse(lines[0]!) as { acts: [Act, Act, Act] };
  const [alone, gated, open] = acts;

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
  return { acts, told: demo.stderr };
}

/** The backlog goes down in the wave and comes back, and spares realtime requests the wait for slots. */
function yields([, gated, open]: readonly [Act, Act, Act]): boolean {
  // Where the metrics come late, the yielding does: what counts is that it goes down and comes back.
  const { before, after, least } = gated.backlog!.inFlight;
  const goesDown = least < before * 0.7;
  const comesBack = after > Math.max(2, least * 1.3);
  return goesDown && comesBack && open.realtime.ttftMs.p99 > 1.2 * gated.realtime.ttftMs.p99;
}

describe("sluice demo --async", () => {
  it("has a backlog that yields to realtime traffic, catches up, and loses nothing when its dispatcher is killed", async () => {
    for (const seconds of DURATIONS) {
      const { acts, told } = await play(seconds);
      if (yields(acts)) return;
      // Only a demo that was too busy to tell by its own account is played again, with longer acts.
      const busy = acts.some(({ tooBusy }) => tooBusy) && seconds !== DURATIONS.at(-1);
      expect(busy, `the backlog does not yield:\n${JSON.stringify(acts)}\n${told}`).toBe(true);
    }
  });
});
