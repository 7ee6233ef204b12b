import { strictEqual } from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "vitest";
import { callerOf, requestOf } from "../../../test/support/limits/requests.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { type Grant, QuotaTable } from "./quotas.ts";

/** Per minute: what drains in a millisecond is a whole number then. */
const PER_MS = 60_000;
const MOST_USED = 10;

type Op =
  | {
      readonly kind: "ask";
      readonly key: number;
      readonly model: number;
      readonly prompt: number;
      readonly most: number;
    }
  | {
      readonly kind: "end";
      readonly which: number;
      readonly sent: boolean;
      readonly tokens: number;
      readonly twice: boolean;
    }
  | { readonly kind: "wait"; readonly ms: number };

const op: fc.Arbitrary<Op> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("ask" as const),
      key: fc.nat(2),
      model: fc.nat(1),
      prompt: fc.nat(40_000),
      most: fc.nat(100),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("end" as const),
      which: fc.nat(50),
      sent: fc.boolean(),
      tokens: fc.oneof(fc.nat(100), fc.nat(900_000)),
      twice: fc.boolean(),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("wait" as const), ms: fc.oneof(fc.nat(3), fc.nat(400)) }) },
);

/** One counter, obvious and slow: it walks through time by single milliseconds. */
class SlowCounter {
  requests = 0;
  tokens = 0;
  inFlight = 0;

  tick(): void {
    this.requests = Math.max(0, this.requests - 1);
    this.tokens = Math.max(0, this.tokens - 1);
  }

  add(requests: number, tokens: number): void {
    const most = PER_MS * MOST_USED;
    this.requests = Math.min(Math.max(this.requests, most), Math.max(0, this.requests + requests));
    this.tokens = Math.min(Math.max(this.tokens, most), Math.max(0, this.tokens + tokens));
  }
}

const IN_FLIGHT = 5;
const RULES = [
  { key: "*", model: "*", tokensPerMinute: PER_MS },
  { key: "*", requestsPerMinute: PER_MS, inFlight: IN_FLIGHT },
  { key: "k1", model: "m1", tokensPerMinute: PER_MS, inFlight: 2 },
];

function play(ops: readonly Op[]): void {
  const clock = new VirtualClock();
  const table = new QuotaTable(clock, RULES);
  const slow = new Map<string, SlowCounter>();
  const of = (name: string): SlowCounter => {
    const made = slow.get(name) ?? new SlowCounter();
    slow.set(name, made);
    return made;
  };
  const running: { grant: Grant; counters: SlowCounter[]; reserved: number; settled: boolean }[] = [];
  for (const step of ops) {
    if (step.kind === "wait") {
      clock.advance(step.ms);
      for (let i = 0; i < step.ms; i++) for (const counter of slow.values()) counter.tick();
    } else if (step.kind === "ask") {
      const { key, model, prompt, most } = step;
      const names = [`${key}/${model}`, `${key}`, ...(key === 1 && model === 1 ? ["both"] : [])];
      const counters = names.map(of);
      // The answer counts by what the request allows: no answer is learned from, so 256 tokens are expected.
      const reserved = prompt + most;
      const limitsTokens = [true, false, true];
      const inFlight = [Number.POSITIVE_INFINITY, IN_FLIGHT, 2];
      const fits = counters.every(
        (counter, i) =>
          counter.inFlight < inFlight[i]! &&
          (i !== 1 || counter.requests + 1 <= PER_MS) &&
          (!limitsTokens[i] || counter.tokens + reserved <= PER_MS),
      );
      const request = requestOf(prompt, { model: `m${model}`, maxTokens: most });
      const found = table.admit(request, callerOf(`k${key}`), () => "");
      strictEqual(found !== undefined && "settle" in found, fits);
      if (found === undefined || !("settle" in found)) continue;
      for (const counter of counters) {
        counter.inFlight++;
        counter.add(1, reserved);
      }
      running.push({ grant: found, counters, reserved, settled: false });
    } else {
      const entry = running[step.which % Math.max(1, running.length)];
      if (entry === undefined) continue;
      const { sent, tokens, twice } = step;
      for (let i = 0; i < (twice ? 2 : 1); i++)
        entry.grant.settle({ sent, promptTokens: tokens, completionTokens: 0, measured: false });
      if (entry.settled) continue;
      entry.settled = true;
      for (const counter of entry.counters) {
        counter.inFlight--;
        counter.add(sent ? 0 : -1, (sent ? tokens : 0) - entry.reserved);
      }
    }
  }
  for (const { grant } of running) grant.settle({ sent: true, promptTokens: 0, completionTokens: 0, measured: false });
  for (const counter of table.counters.values()) strictEqual(counter.inFlight, 0);
}

describe("limits", () => {
  it("admit and refuse as a slow model does, and have nothing in flight in the end", () => {
    fc.assert(fc.property(fc.array(op, { maxLength: 80 }), play), { numRuns: 150 });
  });

  it("admit no more in any stretch of T ms than the limit x (1 + T / 60 s), and in the end the limit per minute", () => {
    const limit = 7;
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.nat(500), fc.nat(20_000)), { minLength: 1, maxLength: 120 }), (gaps) => {
        const clock = new VirtualClock();
        const table = new QuotaTable(clock, [{ requestsPerMinute: limit }]);
        const times: number[] = [];
        for (const gap of gaps) {
          clock.advance(gap);
          const found = table.admit(requestOf(), undefined, () => "");
          if (found !== undefined && "settle" in found) times.push(clock.now());
        }
        for (let from = 0; from < times.length; from++)
          for (let to = from; to < times.length; to++) {
            const allowed = limit * (1 + (times[to]! - times[from]!) / 60_000);
            strictEqual(to - from + 1 <= allowed + 1e-6, true);
          }
      }),
    );
  });
});
