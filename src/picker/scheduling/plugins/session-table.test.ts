import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import { MAX_SESSIONS, SessionTable } from "./session-table.ts";

describe("SessionTable", () => {
  it("S-46: a session that was idle for longer than the TTL goes with the next sweep, and not before", () => {
    const clock = new VirtualClock();
    const table = new SessionTable(5000, 60_000, clock);
    table.bind("a", "pod", false);
    clock.advance(59_000);
    table.bind("b", "pod", false);
    table.sweep();
    expect([table.endpointOf("a"), table.size]).toEqual(["pod", 2]);
    clock.advance(1000);
    table.sweep();
    expect([table.endpointOf("a"), table.endpointOf("b")]).toEqual([undefined, "pod"]);
  });

  it("knows a bounded number of sessions and counts them by endpoint", () => {
    const table = new SessionTable(5000, 5000, new VirtualClock());
    for (let i = 0; i < MAX_SESSIONS + 10; i++) table.bind(`s${i}`, i % 4 === 0 ? "a" : "b", false);
    expect(table.size).toBe(MAX_SESSIONS);
    expect([table.endpointOf("s9"), table.endpointOf("s10")]).toEqual([undefined, "b"]);
    const counts = table.counts();
    expect([...counts.keys()].sort()).toEqual(["a", "b"]);
    expect(counts.get("a")! + counts.get("b")!).toBe(MAX_SESSIONS);
  });
});
