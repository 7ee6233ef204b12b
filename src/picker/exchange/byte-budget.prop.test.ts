import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type SlowBody, SlowBudget } from "../../../test/support/exchange/slow-budget.cases.ts";
import { BodyAccount } from "./body-account.ts";
import { type BudgetSettings, ByteBudget } from "./byte-budget.ts";

/** The longest body, and the longest piece of one. */
const LONGEST = 2000;
const PIECE = 100;

type Op =
  | { readonly kind: "open"; readonly address: string; readonly expected: number; readonly bytes: number }
  | { readonly kind: "whole"; readonly bytes: number }
  | { readonly kind: "piece"; readonly which: number; readonly bytes: number; readonly last: boolean }
  | { readonly kind: "complete" | "release"; readonly which: number }
  | { readonly kind: "tick"; readonly times: number };

const which = fc.nat(1000);
const bytes = fc.integer({ min: 1, max: PIECE });
const op: fc.Arbitrary<Op> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("open" as const),
      address: fc.constantFrom("", "a", "b", "c"),
      expected: fc.constantFrom(0, 0, 30, 500),
      bytes,
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("whole" as const), bytes }) },
  { weight: 12, arbitrary: fc.record({ kind: fc.constant("piece" as const), which, bytes, last: fc.constant(false) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("piece" as const), which, bytes, last: fc.constant(true) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom("complete" as const, "release" as const), which }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("tick" as const), times: fc.integer({ min: 1, max: 12 }) }) },
);
const settings: fc.Arbitrary<BudgetSettings> = fc.record({
  limit: fc.constantFrom(100, 640, 1000, 6400),
  small: fc.constantFrom(0, 30, 64),
  reserve: fc.constantFrom(0, 64, 640),
  minRate: fc.constantFrom(1, 20),
  window: fc.constant(10_000),
});

/** The budget and its model side by side. */
class Twins {
  readonly budget: ByteBudget;
  readonly slow: SlowBudget;
  readonly bodies: { readonly account: BodyAccount; readonly twin: SlowBody; gone: boolean; paused: boolean }[] = [];
  readonly limit: number;
  readonly reserve: number;
  readonly small: number;

  constructor(chosen: BudgetSettings) {
    this.budget = new ByteBudget(chosen);
    this.slow = new SlowBudget(chosen);
    this.limit = chosen.limit;
    this.reserve = chosen.reserve;
    this.small = chosen.small;
  }

  get open() {
    return this.bodies.filter(({ account }) => account.state !== "empty");
  }

  /** Bodies whose sender may go on. */
  get reading() {
    return this.bodies.filter(({ account }) => account.state === "reading");
  }

  begin(address: string, expected: number) {
    const { budget } = this;
    const body = {
      account: new BodyAccount({
        requestId: String(this.bodies.length),
        pause: () => {
          expect(body.paused).toBe(false);
          body.paused = true;
        },
        resume: () => {
          expect(body.paused).toBe(true);
          body.paused = false;
        },
        letGo: () => {
          body.gone = true;
          budget.release(body.account);
        },
      }),
      twin: this.slow.open(this.bodies.length, address, expected),
      gone: false,
      paused: false,
    };
    body.account.address = address;
    body.account.expected = expected;
    this.bodies.push(body);
    return body;
  }

  add(body: ReturnType<Twins["begin"]>, count: number, last: boolean): void {
    this.budget.add(body.account, count, last);
    this.slow.add(body.twin, count, last);
  }

  run(chosen: Op): void {
    const pick = <T>(list: readonly T[], n: number): T | undefined => list[n % Math.max(1, list.length)];
    switch (chosen.kind) {
      case "open":
        this.add(this.begin(chosen.address, chosen.expected), chosen.bytes, false);
        return;
      case "whole":
        this.add(this.begin("", 0), chosen.bytes, true);
        return;
      case "piece": {
        const body = pick(this.reading, chosen.which);
        if (body !== undefined && body.account.held + chosen.bytes <= LONGEST)
          this.add(body, chosen.bytes, chosen.last);
        return;
      }
      case "complete":
      case "release": {
        const body = pick(this.open, chosen.which);
        if (body === undefined) return;
        this.budget[chosen.kind](body.account);
        this.slow[chosen.kind](body.twin);
        return;
      }
      case "tick":
        for (let i = 0; i < chosen.times; i++) {
          const gone = this.budget.tick().map(({ requestId }) => Number(requestId));
          expect(gone).toEqual(this.slow.tick().map(({ id }) => id));
        }
    }
  }

  check(): void {
    const { budget, slow } = this;
    expect([budget.mainUsed, budget.reserveUsed]).toEqual([slow.used("main"), slow.used("reserve")]);
    for (const { account, twin, paused } of this.bodies) {
      const same = account.state === twin.state && account.held === twin.held && paused === (twin.state === "paused");
      if (!same) expect({ account, paused }).toEqual(twin);
    }
    expect(budget.paused).toBe(this.bodies.filter(({ paused }) => paused).length);
    // The bound, and that somebody may always go on.
    const whole = this.bodies.filter(({ twin }) => twin.whole).reduce((sum, { account }) => sum + account.held, 0);
    const parts = this.bodies.filter(({ twin }) => !twin.whole && twin.held > 0).length;
    expect(budget.mainUsed).toBeLessThanOrEqual(
      this.limit + LONGEST + parts * (this.small + PIECE + this.limit / 64) + whole,
    );
    expect(budget.reserveUsed).toBeLessThanOrEqual(this.reserve);
    const inMain = this.bodies.filter(({ twin }) => twin.pool === "main" && !twin.whole);
    const waits = inMain.some(({ paused }) => paused);
    const canMove = inMain.some(({ account }) => account.state === "reading" || account.state === "complete");
    if (waits) expect(canMove).toBe(true);
  }
}

describe("the byte budget, in any order of events", () => {
  it("does what the model does, stays within its bound and never stops everybody", () => {
    fc.assert(
      fc.property(settings, fc.array(op, { maxLength: 120, size: "max" }), (chosen, ops) => {
        const twins = new Twins(chosen);
        for (const each of ops) {
          twins.run(each);
          twins.check();
        }
        // Senders that go on whenever they may bring every body to its end.
        for (let turns = 0; twins.open.length > 0; turns++) {
          expect(turns).toBeLessThan(1000);
          for (const body of twins.open) {
            if (body.account.state === "reading") twins.add(body, 1, true);
            if (body.account.state === "complete") {
              twins.budget.release(body.account);
              twins.slow.release(body.twin);
            }
          }
        }
        expect([twins.budget.used, twins.budget.paused]).toEqual([0, 0]);
      }),
      { numRuns: 200, endOnFailure: true },
    );
  });
});
