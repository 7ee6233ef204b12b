import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { flowSettings, silentEvents } from "../../../../test/support/flow-control.ts";
import { endpointOf, instanceOf, requestOf } from "../../../../test/support/scheduling/fakes.cases.ts";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import { FlowControl, type Ticket } from "../flow-control.ts";
import { tokenDeficitFairnessPolicy } from "./token-deficit.ts";

/** What a flow sends: prompt tokens and completion tokens of each request. */
interface Load {
  readonly id: string;
  readonly requests: number;
  readonly prompt: number;
  readonly answer: number;
  /** What their objects state. */
  readonly weight?: number;
}

/** A pool that serves one request at a time, in the order that a real flow control chooses. */
class Pool {
  readonly clock = new VirtualClock();
  readonly #flowControl: FlowControl;
  /** Tokens by fairness ID, in the order of service. */
  readonly service: { readonly id: string; readonly tokens: number }[] = [];
  #busy = true;

  constructor(weights: Record<string, number> = {}) {
    const fairness = instanceOf(tokenDeficitFairnessPolicy, { weights });
    const settings = flowSettings(() => (this.#busy ? 1 : 0));
    const template = { ...settings.template, fairness };
    this.#flowControl = new FlowControl({
      clock: this.clock,
      settings: { ...settings, template, negativeTemplate: template },
      pool: () => POOL,
      events: silentEvents(),
    });
  }

  send({ id, requests, prompt, answer, weight }: Load): void {
    for (let i = 0; i < requests; i++) {
      const request = requestOf("x".repeat(4 * prompt), { fairnessId: id, fairnessWeight: weight });
      const tokens = prompt + answer;
      const end = (): void => {
        this.service.push({ id, tokens });
        this.#flowControl.ended(ticket as Ticket, { promptTokens: prompt, completionTokens: answer });
      };
      const ticket = this.#flowControl.enter(request, 1, 0, {
        dispatched: () => {
          this.#busy = true;
          end();
        },
        evicted() {},
      });
      if (!(ticket as Ticket).waiting) end();
    }
  }

  /** Serves requests, one after the other. */
  serve(requests: number): void {
    for (let i = 0; i < requests; i++) {
      this.#busy = false;
      this.#flowControl.changed();
      this.clock.advance(0);
      this.#busy = true;
    }
  }

  /** Lets requests through without a queue. */
  free(load: Load): void {
    this.#busy = false;
    this.send(load);
    this.#busy = true;
  }

  tokens(id: string): number {
    return this.service.reduce((sum, one) => (one.id === id ? sum + one.tokens : sum), 0);
  }
}

const POOL = [endpointOf(0)];

describe("token-deficit-fairness-policy", () => {
  it("gives flows equal shares of tokens, whatever the length and the number of their requests", () => {
    const pool = new Pool();
    pool.send({ id: "many", requests: 900, prompt: 10, answer: 10 });
    pool.send({ id: "long", requests: 90, prompt: 500, answer: 100 });
    pool.serve(310);
    const [many, long] = [pool.tokens("many"), pool.tokens("long")];
    expect(Math.abs(many - long)).toBeLessThanOrEqual(2 * 600);
    expect(many + long).toBeGreaterThan(10_000);
  });

  it("gives a flow of weight 2 twice the tokens", () => {
    const pool = new Pool({ paid: 2 });
    pool.send({ id: "paid", requests: 500, prompt: 50, answer: 50 });
    pool.send({ id: "free", requests: 500, prompt: 50, answer: 50 });
    pool.serve(300);
    expect(pool.tokens("paid") / pool.tokens("free")).toBeCloseTo(2, 1);
  });

  it("takes the weight that requests carry, unless the parameters have one for their flow", () => {
    const pool = new Pool({ told: 1 });
    for (const [id, weight] of [
      ["one", undefined],
      ["two", 2],
      ["told", 5],
    ] as const)
      pool.send({ id, requests: 500, prompt: 50, answer: 50, ...(weight === undefined ? {} : { weight }) });
    pool.serve(400);
    expect(pool.tokens("two") / pool.tokens("one")).toBeCloseTo(2, 1);
    expect(pool.tokens("told") / pool.tokens("one")).toBeCloseTo(1, 1);
  });

  it("gives back to a flow that waits all that it was charged too much, also below virtual time", () => {
    const choice = instanceOf(tokenDeficitFairnessPolicy).choice();
    const flow = (id: string) => {
      const head = {
        request: requestOf("x".repeat(40), { fairnessId: id }),
        receivedAt: 0,
        enqueuedAt: 0,
        ttl: 1,
        bytes: 1,
        tokens: 10,
      };
      return { fairnessId: id, head, length: 100 };
    };
    for (const id of ["brief", "long"]) choice.joined(flow(id));
    const serve = (): string => {
      const { head, fairnessId } = choice.next(0, 0)!;
      charged = choice.dispatched!(head);
      return fairnessId;
    };
    let charged = 0;
    expect(Array.from({ length: 8 }, serve).sort()).toEqual([...Array(4).fill("brief"), ...Array(4).fill("long")]);
    // Each was charged with 10 tokens and an answer of 256. Those of one flow were short, the others still run.
    for (let i = 0; i < 4; i++) choice.ended!("brief", { promptTokens: 10, completionTokens: 10 }, charged, 0);
    expect(Array.from({ length: 5 }, serve)).toEqual([...Array(4).fill("brief"), "long"]);
  });

  it("corrects the charge by what answers report: long answers cost their flow its next turns", () => {
    const pool = new Pool();
    pool.send({ id: "talks", requests: 100, prompt: 10, answer: 2000 });
    pool.send({ id: "brief", requests: 2000, prompt: 10, answer: 10 });
    pool.serve(500);
    expect(pool.tokens("brief") / pool.tokens("talks")).toBeGreaterThan(0.6);
    expect(pool.tokens("brief") / pool.tokens("talks")).toBeLessThan(1.5);
  });

  it("a long prompt does not block short ones of other flows", () => {
    const pool = new Pool();
    pool.send({ id: "long", requests: 2, prompt: 100_000, answer: 10 });
    pool.send({ id: "short", requests: 50, prompt: 10, answer: 10 });
    pool.serve(52);
    const order = pool.service.map(({ id }) => id);
    expect(order.filter((id) => id === "short")).toHaveLength(50);
    // The first of the long ones came first; the second waits until the short ones are through.
    expect(order.lastIndexOf("long")).toBe(51);
  });

  it("a flow has no claim for the time in which it sent nothing, and owes nothing for tokens that no other flow wanted", () => {
    const pool = new Pool();
    pool.free({ id: "early", requests: 100, prompt: 1000, answer: 1000 });
    pool.send({ id: "early", requests: 40, prompt: 100, answer: 100 });
    pool.send({ id: "late", requests: 40, prompt: 100, answer: 100 });
    const before = pool.tokens("early");
    pool.serve(40);
    const [early, late] = [pool.tokens("early") - before, pool.tokens("late")];
    // At most the last request of the free time is owed.
    expect(Math.abs(early - late)).toBeLessThanOrEqual(2 * 2000);
    expect(early).toBeGreaterThan(0);
  });

  it("shares differ by one request each at most, for any requests that are as long as expected", () => {
    const load = fc.record({ prompt: fc.integer({ min: 1, max: 400 }), weight: fc.integer({ min: 1, max: 5 }) });
    fc.assert(
      fc.property(fc.array(load, { minLength: 2, maxLength: 5 }), (loads) => {
        const pool = new Pool(Object.fromEntries(loads.map(({ weight }, i) => [`f${i}`, weight])));
        // 256 is the expected length before any answer, so the charge is exact.
        for (const [i, { prompt }] of loads.entries()) pool.send({ id: `f${i}`, requests: 100, prompt, answer: 256 });
        pool.serve(90);
        const shares = loads.map(({ weight }, i) => pool.tokens(`f${i}`) / weight);
        const most = loads.map(({ prompt, weight }) => (prompt + 256) / weight);
        for (const [i, a] of shares.entries())
          for (const [j, b] of shares.entries())
            expect(Math.abs(a - b)).toBeLessThanOrEqual(most[i]! + most[j]! + 1e-6);
      }),
      { numRuns: 40 },
    );
  });

  it("keeps figures of 4,096 flows at most, and of those that wait", () => {
    const choice = instanceOf(tokenDeficitFairnessPolicy).choice();
    const head = (id: string) => ({
      ...{
        request: requestOf("prompt", { fairnessId: id }),
        receivedAt: 0,
        enqueuedAt: 0,
        ttl: 1,
        bytes: 1,
        tokens: 2,
      },
    });
    const waiting = { fairnessId: "waiting", head: head("waiting"), length: 1 };
    choice.joined(waiting);
    for (let i = 0; i < 10_000; i++) choice.dispatched!(head(`f${i}`));
    expect(choice.next(0, 0)).toBe(waiting);
    choice.left(waiting);
  });

  it("forgets what a flow owes once 4,096 others were idle for less time, and never that of one that waits", () => {
    const choice = instanceOf(tokenDeficitFairnessPolicy).choice();
    const flow = (id: string) => ({
      fairnessId: id,
      head: {
        ...{ request: requestOf("prompt", { fairnessId: id }), receivedAt: 0, enqueuedAt: 0 },
        ...{ ttl: 1, bytes: 1, tokens: 1000 },
      },
      length: 1,
    });
    /** Whether it goes before a flow that owes nothing. */
    const owes = (id: string): boolean => {
      const [fresh, one] = [flow("fresh"), flow(id)];
      choice.joined(one);
      choice.joined(fresh);
      const first = choice.next(0, 0);
      for (const each of [one, fresh]) choice.left(each);
      return first === fresh;
    };
    const waits = flow("waits");
    choice.joined(waits);
    choice.dispatched!(waits.head);
    choice.dispatched!(flow("idle").head);
    expect(owes("idle")).toBe(true);
    for (let i = 0; i < 3000; i++) choice.dispatched!(flow(`f${i}`).head);
    expect(owes("idle")).toBe(true);
    for (let i = 0; i < 5000; i++) choice.dispatched!(flow(`g${i}`).head);
    expect(owes("idle")).toBe(false);
    const fresh = flow("fresh");
    choice.joined(fresh);
    expect(choice.next(0, 0)).toBe(fresh);
    // What the policy forgot it could not take out of the queue.
    for (const each of [waits, fresh]) choice.left(each);
    const later = flow("later");
    choice.joined(later);
    for (let i = 0; i < 10; i++) choice.dispatched!(later.head);
    expect(choice.next(0, 0)).toBe(later);
  });

  it("refuses weights that are no positive numbers", () => {
    for (const weight of [0, 1e-9, -1, Number.NaN, 2e6, "2"])
      expect(tokenDeficitFairnessPolicy.parameters.safeParse({ weights: { a: weight } }).success).toBe(false);
    expect(tokenDeficitFairnessPolicy.parameters.safeParse({ weights: { a: 0.5 } }).success).toBe(true);
  });
});
