import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../clock/virtual.ts";
import type { CapacityReading } from "../../plugin/gate.ts";
import { type Asker, Capacity, type Ticket } from "./capacity.ts";

const ASKER: Asker = { queueName: "q", workers: 64, share: 1 };
const EPOCH = 1_700_000_000_000;

function make(first: Partial<CapacityReading> = {}, replicas = 1) {
  const clock = new VirtualClock(EPOCH);
  let reading: CapacityReading = {
    ...{ readable: true, problem: "", budget: 0.7, baseline: 0.1, maxSys: 50, unit: "requests", kind: "occupancy" },
    ...{ sampleTime: clock.wall(), value: 0.7, threshold: 0.1 },
    ...first,
  };
  let reads = 0;
  const source = {
    key: "k",
    read: () => {
      reads++;
      return Promise.resolve(reading);
    },
  };
  const capacity = new Capacity(source, clock, replicas, () => {});
  return {
    capacity,
    clock,
    reads: () => reads,
    async sample(next: Partial<CapacityReading> = {}) {
      reading = { ...reading, sampleTime: clock.wall(), ...next };
      await capacity.refresh(false);
    },
    /** Takes and starts as many as there is room for. */
    take(asker = ASKER, cost = 1): Ticket[] {
      const tickets: Ticket[] = [];
      for (;;) {
        const ticket = capacity.take(cost, asker);
        if (ticket === undefined) return tickets;
        ticket.started();
        tickets.push(ticket);
      }
    },
  };
}

describe("Capacity", () => {
  it("lets exactly N run (A-1), and nothing before the first reading", async () => {
    const { capacity, sample, take } = make();
    expect(capacity.state).toBe("unknown");
    expect(take()).toHaveLength(0);
    await sample();
    expect(take()).toHaveLength(30);
    expect(capacity.room(ASKER)).toBe("full");
  });

  it("ten polls within one sample admit no more than N in all (A-4)", async () => {
    const { capacity, take, clock } = make();
    let admitted = 0;
    for (let poll = 0; poll < 10; poll++) {
      await capacity.refresh(true);
      admitted += take().length;
      clock.advance(500);
    }
    expect(admitted).toBe(30);
  });

  it("is closed at D = B and lets one go at D = B + 1e-6 when nothing of ours runs (A-2, A-3)", async () => {
    const { sample, take } = make({ budget: 0.1 });
    await sample();
    expect(take()).toHaveLength(0);
    await sample({ budget: 0.1 + 1e-6 });
    expect(take()).toHaveLength(1);
    const small = make({ maxSys: 1, budget: 1, baseline: 0.05 });
    await small.sample();
    expect(small.take()).toHaveLength(1);
  });

  it("what ends makes room before the next sample, and nothing is counted twice after it", async () => {
    const { capacity, sample, take, clock } = make({ budget: 1, baseline: 0.1 });
    await sample();
    const tickets = take();
    expect(tickets).toHaveLength(45);
    clock.advance(1000);
    // The sample shows all 45 of ours: D = B.
    await sample({ budget: 0.1 });
    expect(take()).toHaveLength(0);
    for (const ticket of tickets.slice(0, 10)) ticket.release();
    expect(take()).toHaveLength(10);
    expect(capacity.own).toBe(45);
    // Others took five places meanwhile: ours must shrink by as many before anything more may go.
    clock.advance(1000);
    await sample({ budget: 0 });
    for (const ticket of tickets.slice(10, 15)) ticket.release();
    expect(take()).toHaveLength(0);
    tickets[15]!.release();
    expect(take()).toHaveLength(1);
  });

  it("subtracts all of its own from a figure that shows only what waits", async () => {
    const { sample, take, clock } = make({ kind: "queue-only", budget: 1, baseline: 0.1 });
    await sample();
    const tickets = take();
    expect(tickets).toHaveLength(45);
    clock.advance(5000);
    await sample();
    expect(take()).toHaveLength(0);
    tickets[0]!.release();
    expect(take()).toHaveLength(1);
  });

  it("stays closed after an overload answer until a sample that is later than it (A-5)", async () => {
    const { capacity, sample, take, clock } = make();
    await sample();
    clock.advance(100);
    capacity.latch();
    expect(capacity.state).toBe("latched");
    expect(take()).toHaveLength(0);
    // The same old sample, read again.
    await capacity.refresh(true);
    expect(take()).toHaveLength(0);
    await sample({ sampleTime: clock.wall() - 50 });
    expect(take()).toHaveLength(0);
    clock.advance(100);
    await sample({ budget: 0.05 });
    expect(take()).toHaveLength(0);
    clock.advance(100);
    await sample({ budget: 0.7 });
    expect(take().length).toBeGreaterThan(0);
  });

  it("opens again in steps, and never beyond N (A-10)", async () => {
    const { sample, take, clock } = make({ budget: 0.05 });
    await sample();
    const counts: number[] = [];
    let running = 0;
    for (let i = 0; i < 4; i++) {
      clock.advance(1000);
      // Ours show up in the figure.
      await sample({ budget: 0.9 - running / 50 });
      running += take().length;
      counts.push(running);
    }
    expect(counts).toEqual([10, 20, 40, 40]);
  });

  it("counts what cannot be read as closed, and tells it apart", async () => {
    const { capacity, sample, take, clock } = make();
    await sample({ readable: false, budget: 1, problem: "connection refused" });
    expect(capacity.state).toBe("unreadable");
    expect(take()).toHaveLength(0);
    clock.advance(1000);
    await sample({ readable: true, budget: 0.7 });
    expect(take().length).toBeGreaterThan(0);
  });

  it("a source that throws closes the gate instead of ending the process", async () => {
    const clock = new VirtualClock(EPOCH);
    const source = { key: "k", read: () => Promise.reject(new Error("broken")) };
    const capacity = new Capacity(source, clock, 1, () => {});
    await capacity.refresh(false);
    expect(capacity.state).toBe("unreadable");
    expect(capacity.reading.problem).toBe("broken");
  });

  it("the workers of the pool stand in for a capacity that nobody knows", async () => {
    const { sample, take } = make({ maxSys: undefined, budget: 0.6 });
    await sample();
    expect(take({ ...ASKER, workers: 20 })).toHaveLength(10);
  });

  it("splits N between replicas, and a queue keeps to its share", async () => {
    const { sample, take } = make({}, 2);
    await sample();
    expect(take()).toHaveLength(15);
    const shared = make();
    await shared.sample();
    expect(shared.take({ ...ASKER, share: 0.5 })).toHaveLength(15);
    expect(shared.take({ ...ASKER, queueName: "other" })).toHaveLength(15);
  });

  it("counts bytes: 614.4 KiB let r1 of 600 go and r2 of 100 wait; one that never fits goes alone (A-1, A-11)", async () => {
    const { capacity, sample } = make({ maxSys: 1024, unit: "bytes" });
    await sample();
    const first = capacity.take(600, ASKER)!;
    expect(first).toBeDefined();
    expect(capacity.take(100, ASKER)).toBeUndefined();
    first.release();
    const huge = capacity.take(5000, ASKER)!;
    expect(huge).toBeDefined();
    expect(capacity.take(1, ASKER)).toBeUndefined();
    huge.release();
    expect(capacity.own).toBe(0);
  });

  it("remembers what ran over a clock that jumps: it may be cautious, never generous", async () => {
    const { capacity, sample, take, clock } = make({ budget: 1 });
    await sample();
    take();
    clock.advance(10 * 60_000);
    await sample({ budget: 0.1, sampleTime: EPOCH + 1000 });
    expect(capacity.allowance(ASKER)).toBe(0);
  });
});
