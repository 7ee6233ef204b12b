import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MemoryProducer } from "../../../test/support/brokers/memory/producer.ts";
import { type MemoryFault, MemoryStore } from "../../../test/support/brokers/memory/store.ts";
import {
  answer,
  EPOCH,
  FakeCapacity,
  Harness,
  OK,
  queueSettings,
} from "../../../test/support/dispatch/harness.cases.ts";
import { fixedLimit } from "../../../test/support/slowness.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { parseDocument } from "../../base/document/parse.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import type { DispatchGate, GateMessage, GateVerdict, Reservations } from "../../base/plugin/gate.ts";
import { mergePolicy } from "./merge/policy-file.ts";
import type { GatewayAnswer } from "./send/inference-client.ts";

/** What the gateway does with every request that comes. */
const ANSWERS: Readonly<Record<string, GatewayAnswer>> = {
  ok: OK,
  "not found": answer(404),
  overloaded: answer(429, { retryAfterMs: 3000 }),
  evicted: answer(429, { dropReason: "evicted-for-priority" }),
  broken: answer(500),
  refused: { kind: "no-answer", message: "connect ECONNREFUSED" },
  cut: { kind: "truncated", status: 200, retryAfterMs: undefined, message: "reset", tooLong: false },
};
type Mood = keyof typeof ANSWERS;

const VERDICTS: Readonly<Record<string, GateVerdict | Error>> = {
  open: { kind: "continue" },
  waits: { kind: "wait" },
  refuses: { kind: "refuse" },
  "quota used up": { kind: "refuse", reason: "quota_exhausted" },
  drops: { kind: "drop" },
  fails: new Error("no such quota"),
  "is away": new SluiceError("BROKER_UNAVAILABLE", "redis is away"),
};

type Step =
  | { readonly do: "submit"; readonly count: number; readonly seconds: number; readonly queue: number }
  | { readonly do: "cancel"; readonly which: number }
  | { readonly do: "store"; readonly fault: MemoryFault; readonly latency: number }
  | { readonly do: "gateway"; readonly mood: Mood; readonly latency: number }
  | { readonly do: "gate"; readonly verdict: string; readonly delay: number }
  | { readonly do: "sample"; readonly budget: number; readonly readable: boolean }
  | { readonly do: "start" | "kill"; readonly which: number }
  | { readonly do: "stop"; readonly which: number; readonly drain: number };

const which = fc.nat(9);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("submit" as const),
      count: fc.integer({ min: 1, max: 8 }),
      seconds: fc.constantFrom(1, 3, 8, 20, 60),
      queue: fc.nat(1),
    }),
  },
  fc.record({ do: fc.constant("cancel" as const), which }),
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("store" as const),
      fault: fc.constantFrom<MemoryFault>("none", "none", "away", "answer-lost"),
      latency: fc.constantFrom(0, 0, 5, 700),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("gateway" as const),
      mood: fc.constantFrom<Mood>(...Object.keys(ANSWERS), "ok", "ok"),
      latency: fc.constantFrom(0, 30, 900, 5000),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("gate" as const),
      verdict: fc.constantFrom(...Object.keys(VERDICTS), "open"),
      delay: fc.constantFrom(0, 0, 20, 600),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("sample" as const),
      budget: fc.constantFrom(0, 0.2, 0.5, 1),
      readable: fc.constantFrom(true, true, true, false),
    }),
  },
  fc.record({ do: fc.constantFrom("start" as const, "kill" as const), which }),
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant("stop" as const), which, drain: fc.constantFrom(0, 100, 3000) }),
  },
);

const world = fc.record({
  workers: fc.integer({ min: 1, max: 4 }),
  /** Are the queues in one pool? */
  pools: fc.integer({ min: 1, max: 2 }),
  tiers: fc.boolean(),
  /** Where the gate of verdicts stands. */
  gate: fc.constantFrom("none", "queue", "pool"),
  keyed: fc.boolean(),
  capacity: fc.constantFrom("none", "queue", "pool"),
  queueOnly: fc.boolean(),
  batchCap: fc.option(fc.integer({ min: 1, max: 3 }), { nil: undefined }),
  requestTimeout: fc.constantFrom(1000, 100_000),
  claimTtl: fc.constantFrom(4000, 60_000),
  maxAttempts: fc.constantFrom(0, 0, 2),
  steps: fc.array(fc.tuple(fc.constantFrom(0, 1, 30, 400, 1500, 7000), step), { minLength: 1, maxLength: 30 }),
});
type World = typeof world extends fc.Arbitrary<infer T> ? T : never;

/** Of a run that failed, as it was printed; otherwise each run has its own. */
const SEED = process.env["SEED"];
const MAX_SYS = 4;
const BASELINE = 0.1;
/** Milliseconds until a dispatcher that is told of a closed gate by its next claim sends nothing any more. */
const NEWS = 4000;

/** Processes on one store, one after another and beside each other; whatever happens is checked as it happens. */
class Run {
  readonly clock = new VirtualClock(EPOCH);
  readonly store = new MemoryStore(this.clock);
  readonly problems: string[] = [];
  readonly submitted: string[] = [];
  readonly capacity = new FakeCapacity(this.clock, { maxSys: MAX_SYS, baseline: BASELINE });
  readonly #it: World;
  readonly #producer: MemoryProducer;
  readonly #alive: { readonly harness: Harness; reserved: number; dead: boolean; stopping: boolean }[] = [];
  #mood: Mood = "ok";
  #latency = 30;
  #verdict = "open";
  #verdictDelay = 0;
  /** When the capacity became closed; undefined while it is open. */
  #closedAt: number | undefined;
  /** Nothing but stops and what the gateway says: nothing may be sent twice that was answered. */
  #gentle = true;
  readonly #answered = new Map<string, number>();

  constructor(it: World) {
    this.#it = it;
    this.capacity.reading = { ...this.capacity.reading, kind: it.queueOnly ? "queue-only" : "occupancy" };
    this.#producer = new MemoryProducer(
      { requestQueueName: "q", resultQueueName: "results" },
      this.store,
      new SeededRandom(5),
    );
    this.#start();
  }

  async play(): Promise<void> {
    for (const [pause, next] of this.#it.steps) {
      await this.#step(next);
      await this.#pass(pause);
    }
    await this.#calm();
  }

  async #pass(ms: number): Promise<void> {
    await this.clock.advanceAsync(ms);
    const ids = this.store.results("results").map((text) => (JSON.parse(text) as { id: string }).id);
    if (new Set(ids).size !== ids.length) this.problems.push(`two results at ${this.clock.now()}: ${ids.join(" ")}`);
  }

  /** Everything is well from now on, and one process is there: all must end. */
  async #calm(): Promise<void> {
    this.store.fault = "none";
    this.store.latency = 0;
    this.#mood = "ok";
    this.#latency = 30;
    this.#verdict = "open";
    this.#verdictDelay = 0;
    this.#sample(1, true);
    await this.#pass(2000);
    if (!this.#alive.some(({ dead, stopping }) => !dead && !stopping)) this.#start();
    for (let i = 0; i < 40; i++) {
      this.#sample(1, true);
      await this.#pass(5000);
    }
    const { store } = this;
    const left = {
      q: store.queue("q").size,
      r: store.queue("r").size,
      leases: store.leases.size,
      parked: store.parked.size,
    };
    const ids = new Set(store.results("results").map((text) => (JSON.parse(text) as { id: string }).id));
    const lost = this.submitted.filter((id) => !ids.has(id));
    if (lost.length > 0 || Object.values(left).some((count) => count > 0))
      this.problems.push(`without a result: ${lost.join(" ")}; left: ${JSON.stringify(left)}`);
    for (const { harness, reserved, dead } of this.#alive) {
      if (dead) continue;
      if (reserved !== 0) this.problems.push(`${reserved} reservations left`);
      for (const capacity of harness.dispatcher.capacities.values())
        if (capacity.own !== 0) this.problems.push(`${capacity.own} of N never given back`);
      if (harness.dispatcher.claims !== 0) this.problems.push(`${harness.dispatcher.claims} claims kept`);
      if (harness.dispatcher.writer.pending !== 0) this.problems.push("settlements never written");
      for (const gauge of ["claims_active", "inflight_requests", "queue_depth"]) {
        const value = harness.metric(gauge);
        if (!Number.isNaN(value) && value !== 0) this.problems.push(`${gauge} is ${value}`);
      }
    }
  }

  async #step(next: Step): Promise<void> {
    switch (next.do) {
      case "submit":
        await this.#submit(next.count, next.seconds, this.#it.pools === 2 || next.queue === 1 ? "r" : "q");
        return;
      case "cancel": {
        const id = this.submitted[next.which * 3];
        if (id !== undefined) this.store.cancel(id);
        return;
      }
      case "store":
        if (next.fault !== "none" || next.latency > 100) this.#gentle = false;
        this.store.fault = next.fault;
        this.store.latency = next.latency;
        return;
      case "gateway":
        this.#mood = next.mood;
        this.#latency = next.latency;
        return;
      case "gate":
        this.#verdict = next.verdict;
        this.#verdictDelay = next.delay;
        return;
      case "sample":
        this.#sample(next.budget, next.readable);
        return;
      case "start":
        if (this.#alive.filter(({ dead, stopping }) => !dead && !stopping).length < 2) this.#start();
        return;
      case "kill":
        this.#kill(next.which);
        return;
      case "stop":
        this.#stop(next.which, next.drain);
    }
  }

  /** Producers have connections of their own: what is wrong with ours is not wrong with theirs. */
  async #submit(count: number, seconds: number, queue: string): Promise<void> {
    const { fault, latency } = this.store;
    this.store.fault = "none";
    this.store.latency = 0;
    const deadline = Math.floor(this.clock.wall() / 1000) + seconds;
    const ids = Array.from({ length: count }, () => {
      const id = `m${this.submitted.length}`;
      this.submitted.push(id);
      return id;
    });
    await this.#producer.submitRequests(
      ids.map((id, i) => ({ id, deadline, payload: {}, requestQueueName: queue, metadata: { userid: String(i % 2) } })),
    );
    this.store.fault = fault;
    this.store.latency = latency;
  }

  #sample(budget: number, readable: boolean): void {
    this.capacity.sample({ budget, readable, problem: readable ? "" : "down" });
    if (readable && budget > BASELINE) this.#closedAt = undefined;
    else this.#closedAt ??= this.clock.now();
  }

  #start(): void {
    const { it, store, clock } = { it: this.#it, store: this.store, clock: this.clock };
    const own = { reserved: 0, dead: false, stopping: false };
    const at = (place: string): DispatchGate | undefined => {
      const judges = it.gate === place;
      const measures = it.capacity === place;
      if (!judges && !measures) return undefined;
      return {
        capacities: measures ? [this.capacity] : [],
        budget: async () => 1,
        apply: (message, reservations) => (judges ? this.#apply(message, reservations, own) : { kind: "continue" }),
        ...(it.keyed ? { refusalKey: ({ metadata }: GateMessage) => metadata["userid"] } : {}),
      };
    };
    const gates: Record<string, DispatchGate> = {};
    const [queueGate, poolGate] = [at("queue"), at("pool")];
    if (queueGate !== undefined) for (const name of ["q", "r"]) gates[name] = queueGate;
    if (poolGate !== undefined) for (const name of ["default", "other"]) gates[`pool:${name}`] = poolGate;
    const policy = it.tiers ? '{"type":"tier-priority"}' : '{"type":"random-robin"}';
    const harness = new Harness({
      ...{ clock, store, gates, batchCap: it.batchCap, requestTimeout: it.requestTimeout },
      queues: [queueSettings("q"), queueSettings("r", { workerPoolId: it.pools === 2 ? "other" : "default" })],
      pools: ["default", "other"].map((id) => ({ id, workers: it.workers, gate: undefined })),
      leases: { claimTtl: it.claimTtl, reclaimInterval: 1000, maxAttempts: it.maxAttempts },
      policy: mergePolicy(parseDocument(policy, { file: "policy" }), new SeededRandom(2)),
    });
    const { gateway } = harness;
    const state = Object.assign(own, { harness });
    const send = gateway.send.bind(gateway);
    gateway.send = (request, signal) => {
      if (state.dead) return new Promise(() => {});
      const id = request.headers[request.headers.indexOf("x-request-id") + 1]!;
      gateway.latency = this.#latency;
      const sending = send(request, signal);
      this.#looksRight(id, gateway.running);
      return sending.then((answered) => {
        if (answered.kind === "response" && answered.status === 200)
          this.#answered.set(id, (this.#answered.get(id) ?? 0) + 1);
        if (this.#gentle && (this.#answered.get(id) ?? 0) > 1) this.problems.push(`${id} answered twice`);
        return state.dead ? new Promise<GatewayAnswer>(() => {}) : answered;
      });
    };
    gateway.reply = () => ANSWERS[this.#mood]!;
    this.#alive.push(state);
    harness.start();
  }

  /** A message leaves: may it? */
  #looksRight(id: string, running: number): void {
    const { workers, pools, capacity } = this.#it;
    if (running > workers * pools) this.problems.push(`${running} run on ${workers * pools} workers`);
    if (capacity === "none") return;
    if (running > Math.floor(MAX_SYS * (1 - BASELINE))) this.problems.push(`${running} run where N is at most 3`);
    if (this.#closedAt !== undefined && this.clock.now() - this.#closedAt > NEWS && running > 0 && !this.#mayReplace)
      this.problems.push(`${id} left ${this.clock.now() - this.#closedAt} ms after its gate closed`);
  }

  /** A sample at D <= B may be our own work: what of it ends makes room (ADR 0010). */
  get #mayReplace(): boolean {
    return this.capacity.reading.readable && !this.#it.queueOnly;
  }

  #apply(
    { signal }: GateMessage,
    reservations: Reservations,
    own: { reserved: number },
  ): GateVerdict | Promise<GateVerdict> {
    const reserve = (): void => {
      own.reserved++;
      reservations.add(() => own.reserved--);
    };
    const decide = (): GateVerdict => {
      const verdict = VERDICTS[this.#verdict]!;
      reserve();
      if (verdict instanceof Error) throw verdict;
      return verdict;
    };
    // A reservation before the question and one after it: both come back.
    reserve();
    if (this.#verdictDelay === 0) return decide();
    if (signal.aborted) return Promise.reject(signal.reason as Error);
    return new Promise<GateVerdict>((resolve, reject) => {
      const timer = this.clock.after(this.#verdictDelay, () => {
        try {
          resolve(decide());
        } catch (error) {
          reject(error as Error);
        }
      });
      signal.addEventListener("abort", () => {
        timer.cancel();
        reject(signal.reason as Error);
      });
    });
  }

  /** As SIGKILL: nothing that it began comes to it any more, and nothing it does reaches anybody. */
  #kill(at: number): void {
    const state = this.#alive.filter(({ dead, stopping }) => !dead && !stopping)[at % 2];
    if (state === undefined) return;
    this.#gentle = false;
    state.dead = true;
    const { broker } = state.harness;
    void broker.close();
    const never = () => new Promise<never>(() => {});
    Object.assign(broker, {
      ...{ claim: never, settle: never, renew: never, cancelled: never, moveDue: never, reclaim: never },
    });
  }

  #stop(at: number, drain: number): void {
    const state = this.#alive.filter(({ dead, stopping }) => !dead && !stopping)[at % 2];
    if (state === undefined) return;
    state.stopping = true;
    const begun = this.clock.now();
    const fair = (): boolean => this.store.fault === "none" && this.store.latency < 100;
    let wasFair = fair();
    const watch = this.clock.after(drain / 2, () => {
      wasFair &&= fair();
    });
    state.harness.dispatcher.stop(drain).then(
      () => {
        watch.cancel();
        const took = this.clock.now() - begun;
        if (took > drain + 5000) this.problems.push(`a stop took ${took} ms, with ${drain} to drain`);
        const left = state.harness.dispatcher.claims;
        // A broker that was well has everything back.
        if (wasFair && fair() && took < 4000 && left > 0) this.problems.push(`${left} claims left by a stop`);
        void state.harness.broker.close();
      },
      (error: unknown) => this.problems.push(`a stop failed: ${String(error)}`),
    );
  }
}

describe("whatever happens", () => {
  it("every message has exactly one result, N and the workers bound what runs, and everything taken is given back (A-4, A-10, A-38, A-43, A-46, A-57, A-87 to A-89)", {
    timeout: fixedLimit(600_000),
  }, async () => {
    await fc.assert(
      fc.asyncProperty(world, async (it) => {
        const run = new Run(it);
        await run.play();
        expect(run.problems).toEqual([]);
      }),
      { numRuns: Number(process.env["RUNS"] ?? 60), ...(SEED === undefined ? {} : { seed: Number(SEED) }) },
    );
  });
});
