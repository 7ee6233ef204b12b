import { describe, expect, it } from "vitest";
import { BodyAccount, type BudgetHolder } from "./body-account.ts";
import { type BudgetSettings, ByteBudget } from "./byte-budget.ts";

/** One body and what it was told. */
class Body implements BudgetHolder {
  readonly requestId: string;
  readonly account: BodyAccount;
  readonly #budget: ByteBudget;
  paused = false;
  gone = false;

  constructor(budget: ByteBudget, { id = "", address = "", expected = 0 } = {}) {
    this.#budget = budget;
    this.requestId = id;
    this.account = new BodyAccount(this);
    this.account.address = address;
    this.account.expected = expected;
  }

  add(bytes: number, last = false): this {
    this.#budget.add(this.account, bytes, last);
    return this;
  }
  complete(): void {
    this.#budget.complete(this.account);
  }
  release(): void {
    this.#budget.release(this.account);
  }
  pause(): void {
    expect(this.paused).toBe(false);
    this.paused = true;
  }
  resume(): void {
    expect(this.paused).toBe(true);
    this.paused = false;
  }
  letGo(): void {
    this.gone = true;
    this.release();
  }
}

/** Without a reserve unless `settings` has one. */
function made(settings: Partial<BudgetSettings> = {}) {
  const budget = new ByteBudget({ limit: 6400, small: 0, reserve: 0, minRate: 1, window: 10_000, ...settings });
  const body = (options: ConstructorParameters<typeof Body>[1] = {}) => new Body(budget, options);
  const ticks = (count: number) => Array.from({ length: count }, () => budget.tick()).flat();
  return { budget, body, ticks };
}

describe("a budget that is spent", () => {
  it("stops whoever reads, and lets all go on when bytes come back", () => {
    const { budget, body } = made({ limit: 100 });
    const [a, b, c] = [body(), body(), body()];
    a.add(60);
    b.add(1);
    expect([a.paused, b.paused]).toEqual([false, false]);
    b.add(40);
    c.add(1);
    expect([a.paused, b.paused, c.paused]).toEqual([false, true, true]);
    expect(budget.paused).toBe(2);
    a.release();
    expect([b.paused, c.paused]).toEqual([false, false]);
    expect([budget.used, budget.paused]).toEqual([42, 0]);
  });

  it("lets the oldest body go on to its end, so that half-read bodies never block each other", () => {
    const { budget, body } = made({ limit: 100 });
    const bodies = Array.from({ length: 10 }, () => body().add(20));
    expect(bodies[0]!.paused).toBe(false);
    const waiting = new Set(bodies);
    while (waiting.size > 0) {
      const free = [...waiting].find(({ paused }) => !paused);
      expect(free).toBeDefined();
      free!.add(20, true).release();
      waiting.delete(free!);
    }
    expect([budget.used, budget.paused]).toEqual([0, 0]);
  });

  it("does not let a second body beyond the limit while the first that went beyond is held", () => {
    const { body } = made({ limit: 100 });
    const [a, b, c] = [body(), body(), body()];
    a.add(60);
    b.add(60);
    c.add(1);
    a.add(100, true);
    expect([b.paused, c.paused]).toEqual([true, true]);
    a.release();
    expect([b.paused, c.paused]).toEqual([false, false]);
  });

  it("lets the next one go on when the oldest is complete within the limit: a slow answer stops nobody", () => {
    const { body } = made({ limit: 100 });
    const [a, b, c] = [body(), body(), body()];
    a.add(60);
    a.complete();
    b.add(30);
    c.add(30);
    expect([b.paused, c.paused]).toEqual([false, true]);
    b.add(1000);
    expect(b.paused).toBe(false);
  });

  it("lets another one beyond the limit as soon as the first one fits, though it is still held", () => {
    const { body } = made({ limit: 100 });
    const [a, b, c] = [body().add(60), body().add(30), body()];
    a.add(30, true);
    c.add(1);
    expect(c.paused).toBe(true);
    b.release();
    expect(c.paused).toBe(false);
    c.add(50);
    expect(c.paused).toBe(false);
  });

  it("lets bodies go on at the next tick when others that were stopped made room", () => {
    const { body, ticks } = made();
    body().add(6160);
    const [first, second, waits] = [body().add(95), body().add(95), body().add(60)];
    first.add(6);
    second.add(6);
    expect([first, second, waits].map(({ paused }) => paused)).toEqual([true, true, true]);
    ticks(1);
    expect([first, second, waits].map(({ paused }) => paused)).toEqual([true, true, false]);
  });

  it("lets as many go on as there is room for, and none of those stops the others again", () => {
    const { body } = made();
    const first = body().add(6400);
    const [a, b, c, d] = Array.from({ length: 4 }, () => body({ expected: 2000 }).add(200)) as [Body, Body, Body, Body];
    const moderate = body({ expected: 90 }).add(10);
    first.release();
    // The oldest goes on in any case. Of the others two have room: a quarter is not for bodies of that size.
    expect([a, b, c, d, moderate].map(({ paused }) => paused)).toEqual([false, false, false, true, false]);
    const late = body({ expected: 2000 }).add(1200);
    expect(late.paused).toBe(true);
    for (let i = 0; i < 8; i++) for (const each of [b, c]) each.add(200);
    expect([b.paused, c.paused]).toEqual([false, false]);
    b.add(200, true).release();
    c.release();
    expect(d.paused).toBe(false);
  });

  it("keeps no room for the rest of a body that ends before the length it announced", () => {
    const { body } = made();
    const first = body().add(6400);
    const [, b, c] = Array.from({ length: 3 }, () => body({ expected: 4000 }).add(100)) as [Body, Body, Body];
    first.release();
    expect([b.paused, c.paused]).toEqual([false, true]);
    b.add(10, true);
    expect(c.paused).toBe(false);
  });

  it("resumes a body that has ended or is released while it waits: what is behind it must flow", () => {
    const { body } = made({ limit: 1 });
    const [a, b, c] = [body(), body(), body()];
    for (const each of [a, b, c]) each.add(1);
    expect([b.paused, c.paused]).toEqual([true, true]);
    b.complete();
    c.release();
    expect([b.paused, c.paused]).toEqual([false, false]);
    c.release();
    b.release();
  });

  it("never stops a body in one piece, or one whose last piece has come", () => {
    const { budget, body } = made({ limit: 100 });
    body().add(100);
    const [whole, last] = [body(), body()];
    whole.add(50, true);
    last.add(10);
    expect([whole.paused, last.paused]).toEqual([false, true]);
    last.complete();
    expect([last.paused, budget.paused]).toEqual([false, 0]);
  });

  it("takes up a body again that brings more than it announced", () => {
    const { budget, body } = made({ limit: 100 });
    body().add(100);
    const liar = body({ address: "a" });
    liar.add(10, true).add(10);
    expect(liar.paused).toBe(true);
    liar.release();
    expect(budget.used).toBe(100);
  });

  it("refuses what can be given up instead", () => {
    const { budget } = made({ limit: 10 });
    const holder = new Body(budget);
    expect([budget.tryAdd(holder.account, 8), budget.tryAdd(holder.account, 8)]).toEqual([true, false]);
    holder.release();
    holder.release();
    expect(budget.used).toBe(0);
  });
});

describe("shares", () => {
  it("a body above 1/64 of the limit leaves a quarter to the others", () => {
    const { body } = made();
    body().add(1);
    const [large, even] = [body(), body()];
    large.add(4800);
    expect(large.paused).toBe(true);
    even.add(100);
    expect(even.paused).toBe(false);
    even.add(1);
    expect(even.paused).toBe(true);
  });

  it("an address above a quarter of the limit leaves an eighth to the others", () => {
    const { body } = made();
    body({ address: "first" }).add(1);
    const many = Array.from({ length: 56 }, () => body({ address: "a" }).add(100));
    expect(many.filter(({ paused }) => paused)).toHaveLength(1);
    const others = Array.from({ length: 7 }, (_, i) => body({ address: `b${i}` }).add(100));
    expect(others.filter(({ paused }) => paused)).toEqual([]);
  });

  it("forgets an address with its last body", () => {
    const { budget, body } = made({ small: 64, reserve: 640 });
    const all = [body({ address: "a" }).add(100), body({ address: "a" }).add(10), body({ address: "b" }).add(10)];
    expect(budget.addresses).toBe(3);
    all[0]!.add(1, true);
    expect(budget.addresses).toBe(2);
    for (const each of all) each.release();
    expect(budget.addresses).toBe(0);
  });

  it("bodies whose address is unknown have no share in common", () => {
    const { body } = made();
    const many = Array.from({ length: 64 }, () => body().add(100));
    expect(many.filter(({ paused }) => paused)).toEqual([]);
  });

  it("bodies that wait take no room with their beginnings", () => {
    const { budget, body } = made();
    body().add(4800);
    const waiting = Array.from({ length: 100 }, () => body({ expected: 1000 }).add(101));
    expect(waiting.filter(({ paused }) => paused)).toHaveLength(100);
    const moderate = body().add(100);
    expect([moderate.paused, budget.used]).toEqual([false, 15_000]);
  });

  it("goes on in the order of waiting, each as soon as its share allows", () => {
    const { body } = made();
    const first = body().add(2000);
    const large = body().add(4000);
    const small = body().add(60);
    const filler = body().add(400);
    expect([large.paused, small.paused, filler.paused]).toEqual([true, false, true]);
    small.add(1, true);
    first.release();
    expect([large.paused, filler.paused]).toEqual([false, false]);
  });
});

describe("small bodies", () => {
  const SMALL = { limit: 6400, small: 64, reserve: 640 };

  it("go on while the budget is spent", () => {
    const { budget, body } = made(SMALL);
    const [a, b] = [body().add(6300), body().add(6300)];
    expect([a.paused, b.paused]).toEqual([false, true]);
    const small = body().add(10).add(54);
    expect(small.paused).toBe(false);
    expect([budget.mainUsed, budget.reserveUsed]).toEqual([12_600, 64]);
    small.add(1);
    expect(small.paused).toBe(true);
    expect([budget.mainUsed, budget.reserveUsed]).toEqual([12_665, 0]);
  });

  it("are not those that announce more", () => {
    const { budget, body } = made(SMALL);
    body({ expected: 65 }).add(10);
    body({ expected: 64 }).add(10);
    expect([budget.mainUsed, budget.reserveUsed]).toEqual([10, 10]);
  });

  it("use the budget where the reserve is full", () => {
    const { budget, body } = made(SMALL);
    const many = Array.from({ length: 12 }, (_, i) => body({ address: `${i}` }).add(60));
    expect([budget.mainUsed, budget.reserveUsed]).toEqual([120, 600]);
    many[0]!.add(4);
    many[1]!.add(4);
    expect([budget.mainUsed, budget.reserveUsed]).toEqual([120, 608]);
    for (const each of many) each.release();
    expect([budget.mainUsed, budget.reserveUsed]).toEqual([0, 0]);
  });

  it("of one address leave an eighth of the reserve to others", () => {
    const { budget, body } = made(SMALL);
    for (let i = 0; i < 10; i++) body({ address: "a" }).add(60);
    expect([budget.mainUsed, budget.reserveUsed]).toEqual([60, 540]);
    body({ address: "b" }).add(60);
    expect(budget.reserveUsed).toBe(600);
  });
});

describe("bodies that stall", () => {
  const STALLS = { minRate: 10, window: 10_000 };

  it("are let go after a window in which they brought less than the rate, and others go on at once", () => {
    const { budget, body, ticks } = made(STALLS);
    const [a, b] = [body({ id: "r1", address: "a" }).add(6400), body().add(100)];
    expect(b.paused).toBe(true);
    expect([ticks(9), a.gone]).toEqual([[], false]);
    // It brought one byte less than the rate over the window.
    a.add(99);
    ticks(1);
    expect(a.gone).toBe(false);
    const [line] = ticks(9);
    expect(line).toEqual({ address: "a", requestId: "r1", bytes: 6499, state: "reading", slowFor: 10_000 });
    expect([a.gone, b.paused, budget.used]).toEqual([true, false, 100]);
  });

  it("stay while they bring the rate", () => {
    const { body, ticks } = made(STALLS);
    const a = body().add(3300);
    for (let i = 0; i < 20; i++) {
      a.add(50);
      ticks(5);
    }
    expect(a.gone).toBe(false);
  });

  it("stay while no more than half is in use", () => {
    const { body, ticks } = made(STALLS);
    const a = body().add(3200);
    ticks(100);
    expect(a.gone).toBe(false);
    const b = body();
    b.add(1);
    ticks(1);
    expect([a.gone, b.gone]).toEqual([true, false]);
  });

  it("do not stall while they are paused, nor when they are complete", () => {
    const { body, ticks } = made(STALLS);
    const done = body().add(100);
    done.complete();
    const [oldest, waits] = [body().add(6300), body().add(100)];
    expect([oldest.paused, waits.paused]).toEqual([false, true]);
    for (let i = 0; i < 30; i++) {
      oldest.add(10);
      ticks(1);
    }
    expect([done.gone, oldest.gone, waits.gone]).toEqual([false, false, false]);
    oldest.release();
    expect(waits.paused).toBe(false);
    body().add(6000);
    ticks(9);
    expect(waits.gone).toBe(false);
    ticks(1);
    expect(waits.gone).toBe(true);
  });

  it("go slowest first, and no more of them than needed", () => {
    const { budget, body, ticks } = made(STALLS);
    const late = body().add(2000);
    const early = body().add(2000);
    ticks(5);
    late.add(200);
    ticks(20);
    expect([early.gone, late.gone, budget.used]).toEqual([true, false, 2200]);
  });

  it("are let go while others wait, however little is in use: room is kept for the rest of them", () => {
    const { budget, body, ticks } = made(STALLS);
    const first = body().add(6400);
    const [a, b, c] = Array.from({ length: 3 }, () => body({ expected: 3000 }).add(50)) as [Body, Body, Body];
    first.release();
    expect([a.paused, b.paused, c.paused, budget.used]).toEqual([false, false, true, 150]);
    ticks(10);
    expect([a.gone, b.gone, c.gone, c.paused]).toEqual([true, true, false, false]);
  });

  it("that all others wait for must bring the rate for each of them", () => {
    const { body, ticks } = made({ ...STALLS, small: 0 });
    const a = body().add(6400);
    const waiting = Array.from({ length: 3 }, () => body().add(1));
    for (let i = 0; i < 9; i++) {
      a.add(33);
      ticks(1);
    }
    a.add(3);
    ticks(1);
    expect(a.gone).toBe(false);
    for (let i = 0; i < 10; i++) {
      a.add(29);
      ticks(1);
    }
    expect(a.gone).toBe(true);
    expect(waiting.map(({ paused }) => paused)).toEqual([false, false, false]);
  });

  it("are let go in the reserve, too", () => {
    const { body, ticks } = made({ ...STALLS, small: 64, reserve: 640 });
    const many = Array.from({ length: 6 }, () => body().add(60));
    ticks(10);
    expect(many.filter(({ gone }) => gone)).toHaveLength(1);
  });

  it("are watched from when the reserve is short", () => {
    const { budget, body } = made({ small: 64, reserve: 640 });
    let calls = 0;
    budget.onShort = () => calls++;
    for (let i = 0; i < 5; i++) body().add(64);
    expect([calls, budget.short]).toEqual([0, false]);
    body().add(1);
    expect([calls, budget.short, budget.mainUsed]).toEqual([1, true, 0]);
  });

  it("are watched from when a pool is short", () => {
    const { budget, body } = made();
    let calls = 0;
    budget.onShort = () => calls++;
    body().add(3200, true);
    expect([calls, budget.short]).toEqual([0, false]);
    body().add(1, true);
    expect([calls, budget.short]).toEqual([1, true]);
  });
});

describe("the report", () => {
  it("names who holds most of what is not complete", () => {
    const { budget, body } = made();
    body({ id: "whole" }).add(500, true);
    const done = body({ id: "done" });
    done.add(10).add(990, true);
    for (let i = 1; i <= 3; i++) body({ id: `r${i}`, address: `a${i}` }).add(i * 100);
    expect(budget.topHolders(2).map(({ requestId, address, bytes }) => [requestId, address, bytes])).toEqual([
      ["r3", "a3", 300],
      ["r2", "a2", 200],
    ]);
    expect([budget.unfinished, budget.mainUsed]).toEqual([600, 2100]);
    done.release();
    expect(budget.mainUsed).toBe(1100);
  });
});
