import type { BudgetSettings } from "../../../src/picker/exchange/byte-budget.ts";

/** What the model knows of one body. */
export interface SlowBody {
  readonly id: number;
  readonly address: string;
  readonly expected: number;
  held: number;
  pool: "none" | "main" | "reserve";
  state: "empty" | "reading" | "paused" | "complete";
  /** Came in one piece: nobody's share, nobody's turn. */
  whole: boolean;
  /** Order of arrival in its pool, and of its waiting. */
  arrived: number;
  waits: number;
  /** What it had brought when it was stopped, as far as it takes no room. */
  parked: number;
  /** Bytes that room is kept for. */
  promised: number;
  /** Bytes brought in each tick since the last stretch that was fast enough, the present one last. */
  brought: number[];
}

/** The byte budget by the letter: everything is worked out anew from a list of all bodies, each time. */
export class SlowBudget {
  readonly bodies: SlowBody[] = [];
  readonly #settings: BudgetSettings;
  #beyond: SlowBody | undefined;
  #count = 0;

  constructor(settings: BudgetSettings) {
    this.#settings = settings;
  }

  open(id: number, address: string, expected: number): SlowBody {
    const body: SlowBody = {
      ...{ id, address, expected, held: 0, pool: "none", state: "empty", whole: false },
      ...{ arrived: 0, waits: 0, parked: 0, promised: 0, brought: [] },
    };
    this.bodies.push(body);
    return body;
  }

  used(pool: "main" | "reserve"): number {
    return sum(this.bodies.filter((body) => body.pool === pool));
  }

  /** Bytes of the main pool that take room. */
  #busy(): number {
    const parked = this.#paused().reduce((total, body) => total + body.parked, 0);
    const promised = this.bodies
      .filter(({ state }) => state === "reading")
      .reduce((sum, body) => sum + body.promised, 0);
    return this.used("main") - parked + promised;
  }

  add(body: SlowBody, bytes: number, last: boolean): void {
    const { small, reserve } = this.#settings;
    if (body.state === "empty") {
      const fits = bytes <= small && body.expected <= small && this.used("reserve") + bytes <= reserve;
      this.#enter(body, fits ? "reserve" : "main");
      body.whole = last;
      body.brought = [0];
    } else if (body.state === "complete") {
      body.whole = false;
      body.arrived = ++this.#count;
      body.brought = [0];
    }
    body.state = body.state === "paused" ? "paused" : "reading";
    body.held += bytes;
    body.promised = Math.max(0, body.promised - bytes);
    body.brought[body.brought.length - 1]! += bytes;
    if (body.whole) {
      body.state = "complete";
      return;
    }
    if (body.pool === "reserve" && (body.held > small || this.used("reserve") > this.#roomOfAddress(body)))
      this.#enter(body, "main");
    if (body.pool === "main" && this.#busy() > this.#settings.limit && this.#oldest() === body) this.#beyond = body;
    if (last) this.complete(body);
    else if (body.pool === "main" && body.state === "reading" && !this.#mayRead(body)) {
      body.state = "paused";
      body.waits = ++this.#count;
      body.parked = Math.min(128 * 1024, Math.floor(this.#settings.limit / 64), body.held);
    }
  }

  complete(body: SlowBody): void {
    if (body.state !== "reading" && body.state !== "paused") return;
    Object.assign(body, { state: "complete", promised: 0 });
    this.#resumeSome();
  }

  release(body: SlowBody): void {
    const { pool } = body;
    if (pool === "none") return;
    Object.assign(body, { held: 0, pool: "none", state: "empty", promised: 0 });
    if (this.#beyond === body || this.#busy() <= this.#settings.limit) this.#beyond = undefined;
    if (pool === "main") this.#resumeSome();
  }

  /** @returns who is let go, in order */
  tick(): SlowBody[] {
    const { minRate, window } = this.#settings;
    const least = (minRate * window) / 1000;
    const gone: SlowBody[] = [];
    for (const pool of ["main", "reserve"] as const) {
      const spent = pool === "main" && this.#busy() > this.#settings.limit ? this.#oldest() : undefined;
      const waiting = Math.max(1, Math.min(64, this.#paused().length));
      for (const body of this.#members(pool)) {
        if (body.state !== "reading") continue;
        const wanted = body === spent ? least * waiting : least;
        if (body.brought.reduce((a, b) => a + b, 0) >= wanted) body.brought = [];
        body.brought.push(0);
      }
      const slow = this.#members(pool)
        .filter((body) => body.state === "reading" && body.brought.length > 10)
        .sort((a, b) => b.brought.length - a.brought.length || b.held - a.held || a.arrived - b.arrived);
      for (const body of slow) {
        const isWaitedFor = pool === "main" && this.#paused().length > 0;
        if (2 * this.used(pool) <= this.#limitOf(pool) && !isWaitedFor) break;
        gone.push(body);
        this.release(body);
      }
    }
    this.#resumeSome();
    return gone;
  }

  #limitOf(pool: "main" | "reserve"): number {
    return pool === "main" ? this.#settings.limit : this.#settings.reserve;
  }

  /** In the order of arrival. */
  #members(pool: "main" | "reserve"): SlowBody[] {
    return this.bodies
      .filter((body) => body.pool === pool && !body.whole && body.state !== "complete")
      .sort((a, b) => a.arrived - b.arrived);
  }

  #paused(): SlowBody[] {
    return this.bodies.filter(({ state }) => state === "paused").sort((a, b) => a.waits - b.waits);
  }

  #enter(body: SlowBody, pool: "main" | "reserve"): void {
    body.pool = pool;
    body.arrived = ++this.#count;
  }

  #oldest(): SlowBody | undefined {
    return this.#beyond ?? this.#members("main")[0];
  }

  #roomOfAddress(body: SlowBody): number {
    const limit = this.#limitOf(body.pool as "main" | "reserve");
    if (body.address === "") return limit;
    const held = sum(this.#members(body.pool as "main").filter(({ address }) => address === body.address));
    return held > limit / 4 ? limit - limit / 8 : limit;
  }

  #room(body: SlowBody): number {
    const { limit } = this.#settings;
    return this.#roomOfAddress(body) - (Math.max(body.held, body.expected) > limit / 64 ? limit / 4 : 0);
  }

  #mayRead(body: SlowBody): boolean {
    return body.promised > 0 || this.#busy() <= this.#room(body) || this.#oldest() === body;
  }

  #resumeSome(): void {
    const { limit } = this.#settings;
    const resume = (body: SlowBody, promised: number): void => {
      Object.assign(body, { state: "reading", promised, brought: [0] });
    };
    const oldest = this.#oldest();
    if (oldest?.state === "paused") resume(oldest, 0);
    const step = Math.min(128 * 1024, Math.floor(limit / 64));
    for (const body of this.#paused()) {
      const rest = Math.max(step, body.expected - body.held);
      if (this.#busy() + body.parked + rest <= this.#room(body)) resume(body, rest);
    }
  }
}

function sum(bodies: readonly SlowBody[]): number {
  return bodies.reduce((total, { held }) => total + held, 0);
}
