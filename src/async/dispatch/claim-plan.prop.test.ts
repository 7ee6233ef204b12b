import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type ClaimAction,
  type ConsumerEvent,
  type ConsumerState,
  nextState,
  planClaims,
  type QueueView,
  STATES,
  type WorkerPoolView,
} from "./claim-plan.ts";

const ALL = Object.keys(STATES) as ConsumerState[];
const eventsOf = (state: ConsumerState): ConsumerEvent[] => Object.keys(STATES[state].on) as ConsumerEvent[];

describe("the states of a consumer", () => {
  it("are all reached from the first one", () => {
    const reached = new Set<ConsumerState>(["flowing"]);
    for (const state of reached) for (const event of eventsOf(state)) reached.add(nextState(state, event));
    expect([...reached].sort()).toEqual([...ALL].sort());
  });

  it("end only with a stop, and a stop ends each of them", () => {
    for (const state of ALL) {
      expect(nextState(state, "stop")).toBe("stopped");
      for (const event of eventsOf(state)) expect(nextState(state, event) === "stopped").toBe(event === "stop");
    }
    expect(eventsOf("stopped")).toEqual([]);
  });

  it("are never a dead end: whoever neither claims nor may claim at the next plan does so when it is due", () => {
    for (const state of ALL.filter((each) => !["flowing", "claiming", "stopped"].includes(each)))
      expect(nextState(state, "due"), state).toBe("flowing");
  });

  it("let a claim begin only where a plan may, and every way in which it ends leads out of it", () => {
    for (const state of ALL)
      expect(nextState(state, "claim begun") === "claiming").toBe(["flowing", "full", "claiming"].includes(state));
    const ends: ConsumerEvent[] = [
      ...(["more waits", "nothing waits", "nothing given", "no room", "no fit"] as const),
      ...(["gate closed", "gate failed", "broker away"] as const),
    ];
    for (const end of ends) expect(nextState("claiming", end), end).not.toBe("claiming");
    // What happens beside a claim is remembered by the claim: its own end decides.
    for (const event of ["announced", "room freed", "gate opened", "due"] as const)
      expect(nextState("claiming", event)).toBe("claiming");
  });

  it("keep a closed or failing gate and an absent broker from being asked for each announcement and each bit of room", () => {
    for (const state of ["closed", "failing", "unavailable"] as const)
      for (const event of ["announced", "room freed", "claim begun"] as const)
        expect(nextState(state, event)).toBe(state);
    expect(nextState("closed", "gate opened")).toBe("flowing");
    expect(nextState("blocked", "room freed")).toBe("flowing");
    expect(nextState("blocked", "announced")).toBe("blocked");
  });
});

const CAPACITIES = ["a", "b"];

/** A queue whose figures the test sets. */
interface Queue extends QueueView {
  readonly queue: {
    readonly maxQueueShare: number;
    /** What the merge policy takes of it at most. */
    readonly most: number;
    readonly urgency: number;
  };
  readonly admission: QueueView["admission"] & {
    readonly capacities: readonly string[];
    /** Messages that its capacities let go. */
    readonly allowance: number;
  };
}

const queue: fc.Arbitrary<Queue> = fc.record({
  state: fc.oneof(
    { weight: 4, arbitrary: fc.constant("flowing" as const) },
    { weight: 2, arbitrary: fc.constant("full" as const) },
    { weight: 2, arbitrary: fc.constant("claiming" as const) },
    fc.constantFrom(...ALL),
  ),
  returning: fc.constantFrom(0, 0, 0, 2),
  wantsRoom: fc.boolean(),
  overdue: fc.boolean(),
  queue: fc.record({ maxQueueShare: fc.constantFrom(1, 1, 0.5), most: fc.nat(10), urgency: fc.nat(2) }),
  gate: fc.record({ waiting: fc.constantFrom(0, 0, 1, 4), judgesWhenClosed: fc.constantFrom(false, false, true) }),
  hold: fc.record({ full: fc.constantFrom(false, false, false, true) }),
  admission: fc
    .record({
      capacities: fc.subarray(CAPACITIES),
      room: fc.constantFrom("free" as const, "free" as const, "full" as const, "closed" as const),
      allowed: fc.nat(6),
    })
    .map(({ capacities, room, allowed }) => {
      const allowance = room === "free" ? allowed : 0;
      return { capacities, room, allowance, affordable: (most: number) => Math.min(most, allowance) };
    }),
});

const room = ({ most }: Queue["queue"], free: number): number => Math.min(free, most);

const pool: fc.Arbitrary<WorkerPoolView<Queue>> = fc.record({
  queues: fc.array(queue, { maxLength: 5 }),
  policy: fc.constantFrom({ room }, { room, urgency: (each: Queue["queue"]) => each.urgency }),
  freeWorkers: fc.nat(12),
  writerFull: fc.constantFrom(false, false, false, true),
  batchCap: fc.option(fc.integer({ min: 1, max: 3 }), { nil: undefined }),
});

/** A plan made without haste: one queue after another is chosen by looking at all, and messages are counted one by one. */
function slowPlan({ queues, policy, freeWorkers, writerFull, batchCap }: WorkerPoolView<Queue>): ClaimAction<Queue>[] {
  const plan: ClaimAction<Queue>[] = [];
  const seen: Queue[] = [];
  const urgency = (each: Queue): number => (policy.urgency === undefined ? 0 : each.queue.urgency);
  let free = freeWorkers;
  while (seen.length < queues.length) {
    const left = queues.filter((each) => !seen.includes(each));
    const next = left.find((one) => left.every((other) => urgency(other) >= urgency(one)))!;
    const rivals = seen.filter(
      (other) =>
        urgency(other) < urgency(next) &&
        CAPACITIES.some((each) => [other, next].every(({ admission }) => admission.capacities.includes(each))) &&
        (other.state === "claiming"
          ? other.wantsRoom
          : plan.some((action) => action.queue === other && action.wantsRoom)),
    );
    seen.push(next);
    if (!["flowing", "full"].includes(next.state) || next.returning !== 0) continue;
    const nothing = { queue: next, room: 0, expected: 0, wantsRoom: false };
    const look = next.overdue ? ("claim expired" as const) : ("wait" as const);
    if (writerFull) plan.push({ ...nothing, kind: "wait", full: true });
    else if (rivals.length > 0) plan.push({ ...nothing, kind: look, full: true });
    else {
      let room = 0;
      while (room < Math.min(free, next.queue.most) - next.gate.waiting) room++;
      if (next.hold.full) room = 0;
      if (room === 0) {
        if (next.overdue) plan.push({ ...nothing, kind: look, full: false });
        continue;
      }
      const closed = next.admission.room === "closed";
      let count = 0;
      for (let message = 1; message <= room && message <= (batchCap ?? message); message++) {
        const goes = !closed && message <= next.admission.allowance;
        // The gate must see one where none may go, and all where it lets none go itself.
        const isShown = next.gate.judgesWhenClosed && (closed || message === 1);
        if (goes || isShown) count++;
      }
      if (count === 0 && !closed)
        plan.push({ ...nothing, kind: look, full: true, wantsRoom: next.queue.maxQueueShare === 1 });
      else {
        // A closed gate is asked about one: what else waits is not claimed.
        const expected = count === 0 ? 1 : count;
        plan.push({
          queue: next,
          kind: "claim",
          room,
          expected,
          full: false,
          wantsRoom: next.queue.maxQueueShare === 1,
        });
        for (let message = 0; message < expected && free > 0; message++) free--;
      }
    }
  }
  return plan;
}

describe("planClaims", () => {
  it("plans what a slow and obvious plan has", () => {
    fc.assert(
      fc.property(pool, (view) => {
        expect(planClaims(view)).toEqual(slowPlan(view));
      }),
      { numRuns: 3000 },
    );
  });

  it("changes nothing, and expects no more messages than there are workers for", () => {
    fc.assert(
      fc.property(pool, (view) => {
        const plan = planClaims(view);
        expect(planClaims(view)).toEqual(plan);
        const expected = plan.reduce((sum, action) => sum + action.expected, 0);
        expect(expected).toBeLessThanOrEqual(view.freeWorkers);
        for (const action of plan) {
          expect(action.room).toBeLessThanOrEqual(action.queue.queue.most);
          if (view.writerFull) expect(action.kind).toBe("wait");
        }
      }),
    );
  });
});
