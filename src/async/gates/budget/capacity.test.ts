import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import type { CapacityReading } from "../../../base/plugin/gate.ts";
import { type Asker, SharedCapacity, type Ticket } from "./capacity.ts";

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
  const capacity = new SharedCapacity(source, clock, replicas, () => {});
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

describe("SharedCapacity", () => {
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
    clock.advance(20);
    for (const ticket of tickets.slice(0, 10)) ticket.release();
    expect(take()).toHaveLength(10);
    expect(capacity.own).toBe(45);
    // Others took five places meanwhile: ours must shrink by as many before anything more may go.
    clock.advance(1000);
    await sample({ budget: 0 });
    clock.advance(20);
    for (const ticket of tickets.slice(10, 15)) ticket.release();
    expect(take()).toHaveLength(0);
    tickets[15]!.release();
    expect(take()).toHaveLength(1);
  });

  it("subtracts all of its own from a figure that shows only what waits (G-13)", async () => {
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

  it("does not count work as visible that began less than 200 ms before the sample", async () => {
    const { sample, take, clock } = make({ budget: 0.9, baseline: 0.1 });
    await sample();
    clock.advance(1000);
    expect(take()).toHaveLength(40);
    clock.advance(100);
    // The 40 began 100 ms ago: whether the sample shows them is not known, so none of them makes room.
    await sample({ budget: 0.9 });
    expect(take()).toHaveLength(0);
  });

  it("a ticket that is released twice, or never started, frees its own room and no more", async () => {
    const { capacity, sample, take, clock } = make({ budget: 0.3, baseline: 0.1 });
    await sample();
    const tickets = take();
    expect(tickets).toHaveLength(10);
    tickets[0]!.release();
    tickets[0]!.release();
    expect(capacity.own).toBe(9);
    const unsent = capacity.take(1, ASKER)!;
    expect(capacity.take(1, ASKER)).toBeUndefined();
    clock.advance(1000);
    unsent.release();
    clock.advance(1000);
    // The sample shows nine of ours, the unsent one was never among them.
    await sample({ budget: 0.1 });
    expect(take()).toHaveLength(0);
    expect(capacity.own).toBe(9);
    clock.advance(1000);
    await sample({ budget: 0.1 + 1 / 50 });
    expect(take()).toHaveLength(1);
  });

  it("a figure that shows only what waits leaves N as it is, however much of ours runs", async () => {
    const { sample, take, clock } = make({ kind: "queue-only", budget: 0.5, baseline: 0.1 });
    await sample();
    expect(take()).toHaveLength(20);
    for (let i = 0; i < 3; i++) {
      clock.advance(5000);
      await sample();
      expect(take()).toHaveLength(0);
    }
  });

  it("a baseline below 0 opens no more than the whole system", async () => {
    const { sample, take } = make({ budget: 1, baseline: -1 });
    await sample();
    expect(take()).toHaveLength(50);
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

  it("a source that has a new sample whenever it is asked does not open all at once (A-10)", async () => {
    const { capacity, sample, take, clock } = make({ budget: 0 });
    await sample();
    const counts: number[] = [];
    for (let i = 0; i < 30; i++) {
      clock.advance(100);
      await sample({ budget: 1, baseline: 0, kind: "queue-only", maxSys: 40 });
      take();
      counts.push(capacity.own);
    }
    expect([0, 8, 10, 17, 19, 29].map((i) => counts[i])).toEqual([10, 10, 20, 20, 40, 40]);
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
    const capacity = new SharedCapacity(source, clock, 1, () => {});
    await capacity.refresh(false);
    expect(capacity.state).toBe("unreadable");
    expect(capacity.reading.problem).toBe("broken");
  });

  it("the workers of the pool stand in for a capacity that nobody knows and that does not show what runs", async () => {
    const { sample, take } = make({ maxSys: undefined, budget: 0.6, kind: "queue-only" });
    await sample();
    expect(take({ ...ASKER, workers: 20 })).toHaveLength(10);
  });

  it.each([16, 64, 256])(
    "a capacity that nobody states is found out by what runs: %d workers on 64 slots stay below four fifths, others included",
    async (workers) => {
      for (const others of [0, 12, 40]) {
        const { capacity, clock, sample, take } = make({ maxSys: undefined, baseline: 0.2 });
        const running: Ticket[] = [];
        for (let i = 0; i < 40; i++) {
          clock.advance(1000);
          const taken = (running.length + others) / 64;
          await sample({ budget: 1 - taken });
          clock.advance(300);
          for (const ticket of running.splice(0, Math.ceil(running.length / 4))) ticket.release();
          running.push(...take({ ...ASKER, workers }));
          // One may be tried.
          expect(capacity.own + others, `${others} others, sample ${i}`).toBeLessThanOrEqual(0.8 * 64 + 1);
        }
        // And comes close to it, as far as the workers reach.
        expect(capacity.own).toBeGreaterThanOrEqual(Math.min(Math.floor(0.8 * workers), 48 - others));
      }
    },
  );

  it("above the ceiling of a capacity that nobody states twice of what is known is taken back: it holds at least that", async () => {
    const { clock, sample, take } = make({ maxSys: undefined, baseline: 0.2, budget: 1 });
    await sample();
    const tickets = take();
    expect(tickets).toHaveLength(12);
    clock.advance(1000);
    await sample({ budget: 0.75 });
    tickets.push(...take());
    expect(tickets).toHaveLength(38);
    clock.advance(1000);
    // 38 are 0.9: 42 fit, or more. Of twice that the workers are the most.
    await sample({ budget: 0.1 });
    clock.advance(300);
    for (const ticket of tickets) ticket.release();
    expect(take()).toHaveLength(31);
  });

  it("what others take from a capacity that nobody states is given back by ours", async () => {
    const { capacity, clock, sample, take } = make({ maxSys: undefined, baseline: 0.2 });
    const running: Ticket[] = [];
    let others = 0;
    for (let i = 0; i < 60; i++) {
      if (i === 30) others = 40;
      clock.advance(1000);
      await sample({ budget: 1 - (running.length + others) / 64 });
      clock.advance(300);
      for (const ticket of running.splice(0, Math.ceil(running.length / 4))) ticket.release();
      running.push(...take());
    }
    expect(capacity.own + others).toBeLessThanOrEqual(0.8 * 64 + 1);
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

  it("a source that never answers, or answers nonsense, closes the gate and does not hold up who asks", async () => {
    const clock = new VirtualClock(EPOCH);
    const answers: unknown[] = [
      new Promise(() => {}),
      undefined,
      { readable: true, budget: Number.NaN, baseline: 0, maxSys: 10, sampleTime: EPOCH },
      { readable: true, budget: 1, baseline: 0, maxSys: Number.POSITIVE_INFINITY, sampleTime: EPOCH },
      { readable: true, budget: 1, baseline: 0, maxSys: 10, sampleTime: Number.NaN },
    ];
    for (const answer of answers) {
      const source = { key: "k", read: () => answer as Promise<CapacityReading> };
      const capacity = new SharedCapacity(source, clock, 1, () => {});
      let asked = false;
      void capacity.refresh(false).then(() => {
        asked = true;
      });
      await clock.advanceAsync(15_001);
      expect(asked).toBe(true);
      expect(capacity.state).toBe("unreadable");
      expect(capacity.reading.problem).not.toBe("");
      expect(capacity.take(1, ASKER)).toBeUndefined();
    }
  });

  it("budgets beyond 0 to 1 count as 0 and 1 (A-1, B-6)", async () => {
    const { sample, take } = make({ budget: 1.3, baseline: 0.1, maxSys: 10 });
    await sample();
    expect(take()).toHaveLength(9);
  });

  it("tells of a reading only when it changed what may go: who looks at each call wakes nobody else", async () => {
    const clock = new VirtualClock(EPOCH);
    let reading: CapacityReading = { ...make().capacity.reading, readable: true, budget: 1, sampleTime: EPOCH };
    let told = 0;
    const source = { key: "k", read: () => Promise.resolve(reading) };
    const capacity = new SharedCapacity(source, clock, 1, () => told++);
    for (let i = 0; i < 5; i++) await capacity.refresh(false);
    expect(told).toBe(1);
    reading = { ...reading, budget: 0.5 };
    await capacity.refresh(false);
    expect(told).toBe(2);
    // Looking whether there is room takes nothing, so nothing is given back.
    capacity.fits(1, ASKER);
    expect(told).toBe(2);
  });

  it("reads past the cache once a second at most, however many ask", async () => {
    const clock = new VirtualClock(EPOCH);
    const asked: boolean[] = [];
    const source = {
      key: "k",
      read: (fresh: boolean) => {
        asked.push(fresh);
        return new Promise<CapacityReading>((resolve) => clock.after(10, () => resolve(make().capacity.reading)));
      },
    };
    const capacity = new SharedCapacity(source, clock, 1, () => {});
    for (let i = 0; i < 20; i++) {
      void capacity.refresh(true);
      void capacity.refresh(true);
      await clock.advanceAsync(100);
    }
    expect(asked.filter((fresh) => fresh)).toHaveLength(3);
  });

  it("a question past the cache that takes its time does not hold up those that the cache can serve", async () => {
    const clock = new VirtualClock(EPOCH);
    const read = (fresh: boolean): Promise<CapacityReading> =>
      fresh ? new Promise(() => {}) : Promise.resolve(make().capacity.reading);
    const capacity = new SharedCapacity({ key: "k", read }, clock, 1, () => {});
    void capacity.refresh(true);
    let served = false;
    void capacity.refresh(false).then(() => {
      served = true;
    });
    await clock.advanceAsync(1);
    expect(served).toBe(true);
  });

  it("a wall clock that is set back neither holds the latch for an hour nor opens it for an old sample (A-5)", async () => {
    const clock = new VirtualClock(EPOCH);
    let shift = 0;
    const set = {
      now: () => clock.now(),
      wall: () => clock.wall() + shift,
      after: clock.after.bind(clock),
      soon: () => {},
    };
    let reading: CapacityReading = {
      ...make().capacity.reading,
      readable: true,
      budget: 1,
      maxSys: 8,
      sampleTime: EPOCH,
    };
    const capacity = new SharedCapacity({ key: "k", read: () => Promise.resolve(reading) }, set, 1, () => {});
    await capacity.refresh(false);
    clock.advance(1000);
    capacity.latch();
    shift = -3_600_000;
    // The same sample, which now claims to come from the future.
    await capacity.refresh(false);
    expect(capacity.state).toBe("latched");
    clock.advance(1000);
    reading = { ...reading, sampleTime: set.wall() };
    await capacity.refresh(false);
    expect(capacity.state).toBe("open");
  });

  it("a share smaller than one message still lets its queue send one at a time, beside others", async () => {
    const { sample, take, capacity } = make({ budget: 1, baseline: 0, maxSys: 10 });
    await sample();
    const queues = Array.from({ length: 20 }, (_, i) => ({ ...ASKER, queueName: `q${i}`, share: 1 / 20 }));
    const counts = queues.map((asker) => take(asker).length);
    expect(counts).toEqual([...Array(10).fill(1), ...Array(10).fill(0)]);
    expect(capacity.own).toBe(10);
  });

  it("small messages of other queues do not keep a large one waiting for ever", async () => {
    const { capacity, sample, clock } = make({ budget: 1, baseline: 0, maxSys: 1000, unit: "bytes" });
    await sample();
    const other = { ...ASKER, queueName: "other" };
    const running: Ticket[] = [];
    let large: Ticket | undefined;
    for (let i = 0; i < 100 && large === undefined; i++) {
      // Each second two of those that run end, whoever may takes what they leave.
      for (const ticket of running.splice(0, 2)) ticket.release();
      large = capacity.take(900, ASKER);
      for (let next = capacity.take(100, other); next !== undefined; next = capacity.take(100, other))
        running.push(next);
      clock.advance(1000);
    }
    expect(large).toBeDefined();
    expect(capacity.own).toBeLessThanOrEqual(1000);
    // One that is tried no more keeps nobody waiting.
    expect(capacity.take(900, ASKER)).toBeUndefined();
    large!.release();
    clock.advance(2500);
    expect(capacity.take(900, ASKER)).toBeDefined();
  });

  it("room is not kept for one that a smaller N keeps waiting, nor for one that nobody tries any more", async () => {
    const { capacity, sample, clock } = make({ budget: 1, baseline: 0, maxSys: 1000, unit: "bytes" });
    const other = { ...ASKER, queueName: "other" };
    await sample({ budget: 0.5 });
    capacity.take(100, other);
    for (let i = 0; i < 5; i++) {
      expect(capacity.take(900, ASKER)).toBeUndefined();
      clock.advance(1000);
    }
    expect(capacity.take(100, other)).toBeDefined();
    await sample({ budget: 1 });
    for (let i = 0; i < 3; i++) {
      capacity.take(900, ASKER);
      clock.advance(1000);
    }
    expect(capacity.take(100, other)).toBeUndefined();
    clock.advance(3000);
    expect(capacity.take(100, other)).toBeDefined();
  });

  it("sums of very different costs leave nothing behind", async () => {
    const { capacity, sample } = make({ budget: 1, baseline: 0, maxSys: 1e6, unit: "tokens" });
    await sample();
    const [small, grown] = [capacity.take(0.1, ASKER)!, capacity.take(0.2, ASKER)!];
    small.started();
    grown.started(1e300);
    grown.release();
    small.release();
    expect(capacity.own).toBe(0);
    expect(capacity.allowance(ASKER)).toBe(1e6);
  });
});
