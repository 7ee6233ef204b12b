import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SeededRandom } from "../clock/random.ts";
import { VirtualClock } from "../clock/virtual.ts";
import type { Endpoint } from "../inference/endpoint.ts";
import { Rejection } from "../inference/outcomes.ts";
import type { InferenceRequest } from "../inference/request.ts";
import { buildDefaultProfile } from "./default-profile.ts";
import { endpointOf, requestOf } from "./fakes.cases.ts";
import { Scheduler } from "./scheduler.ts";

/**
 * The default profile, slow and obvious: maps, sorting, whole prompts as prefixes instead of hashes. It remembers
 * prompts by endpoint and forgets nothing.
 */
class SlowScheduler {
  readonly #routed = new Map<string, Set<string>>();

  /** The weighted total of each endpoint, by id. */
  totals(request: InferenceRequest, pool: readonly Endpoint[], now: number): Map<string, number> {
    const blocks = this.#blocks(request);
    const waiting = this.#known(pool, now, (endpoint) => endpoint.metrics.waiting);
    const kvUsage = this.#known(pool, now, (endpoint) => endpoint.metrics.kvUsage);
    const inFlight = pool.map((endpoint) => endpoint.inFlight.requests);
    return new Map(
      pool.map((endpoint, i) => {
        const held = this.#routed.get(endpoint.id);
        const miss = blocks.findIndex((block) => !held?.has(block));
        const matched = miss < 0 ? blocks.length : miss;
        const range = Math.max(...waiting) - Math.min(...waiting);
        const queue = range > 0 ? (Math.max(...waiting) - waiting[i]!) / range : 1;
        const kv = Number.isNaN(kvUsage[i]) ? 1 : Math.min(1, Math.max(0, 1 - kvUsage[i]!));
        const prefix = blocks.length === 0 ? 0 : matched / blocks.length;
        const most = Math.max(...inFlight);
        const active = inFlight[i] === 0 ? 1 : (most - inFlight[i]!) / most;
        return [endpoint.id, 2 * queue + 2 * kv + 3 * prefix + 2 * active] as const;
      }),
    );
  }

  remember(request: InferenceRequest, endpoint: Endpoint): void {
    const held = this.#routed.get(endpoint.id) ?? new Set();
    this.#routed.set(endpoint.id, held);
    for (const block of this.#blocks(request)) held.add(block);
  }

  forget(endpoint: Endpoint): void {
    this.#routed.delete(endpoint.id);
  }

  #known(pool: readonly Endpoint[], now: number, value: (endpoint: Endpoint) => number): number[] {
    const values = pool.map((endpoint) =>
      now - endpoint.metrics.scrapedAt <= Math.max(200, 2.5 * endpoint.scrapeInterval) ? value(endpoint) : Number.NaN,
    );
    const known = values.filter((candidate) => !Number.isNaN(candidate));
    return values.map((candidate) => (Number.isNaN(candidate) && known.length > 0 ? Math.max(...known) : candidate));
  }

  /** Every beginning of the prompt that ends with a block, under its model and salt. */
  #blocks({ body, targetModel, cacheSalt }: InferenceRequest): string[] {
    const text = new TextDecoder().decode(body);
    const blocks: string[] = [];
    for (let end = 256; end < text.length + 256; end += 256)
      blocks.push(JSON.stringify([targetModel, cacheSalt, text.slice(0, end)]));
    return blocks;
  }
}

const maybe = (known: fc.Arbitrary<number>) => fc.oneof({ weight: 5, arbitrary: known }, fc.constant(Number.NaN));
const load = fc.record({
  waiting: maybe(fc.integer({ min: 0, max: 12 })),
  kvUsage: maybe(fc.integer({ min: 0, max: 10 }).map((tenths) => tenths / 10)),
  age: fc.constantFrom(0, 50, 200, 201, 900, Number.POSITIVE_INFINITY),
  scrapeInterval: fc.constantFrom(50, 400),
  inFlight: fc.integer({ min: 0, max: 5 }),
});
const words = fc.array(fc.constantFrom("a".repeat(256), "b".repeat(256), "c".repeat(100)), { maxLength: 6 });
const step = fc.record({
  loads: fc.array(load, { minLength: 1, maxLength: 12 }),
  prompt: words.map((parts) => parts.join("")),
  model: fc.constantFrom("m", "n"),
  salt: fc.constantFrom("", "tenant"),
  leaves: fc.option(fc.integer({ min: 0, max: 11 }), { freq: 8 }),
});

describe("scheduler against a slow one", () => {
  it("gives every endpoint the same total, and lists them best first", () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 12 }), fc.nat(), (steps, seed) => {
        const clock = new VirtualClock();
        clock.advance(5000);
        const random = new SeededRandom(seed);
        const fast = new Scheduler({ profile: buildDefaultProfile(clock, random), clock, random });
        const slow = new SlowScheduler();
        for (const { loads, prompt, model, salt, leaves } of steps) {
          const pool = loads.map(({ waiting, kvUsage, age, scrapeInterval, inFlight }, slot) =>
            endpointOf(slot, {
              metrics: { waiting, kvUsage, scrapedAt: clock.now() - age },
              inFlight: { requests: inFlight, tokens: 0 },
              scrapeInterval,
            }),
          );
          const request = requestOf(prompt, { targetModel: model, cacheSalt: salt });
          const expected = slow.totals(request, pool, clock.now());
          const outcome = fast.schedule(request, pool, 0);
          if (outcome instanceof Rejection) throw new Error(outcome.text);
          const { endpoints, record } = outcome;
          expect(endpoints.map(({ id }) => id)).toEqual(record.top.map(({ id }) => id));
          for (const { id, total } of record.top) expect(total).toBeCloseTo(expected.get(id)!, 9);
          const best = [...expected.values()].sort((a, b) => b - a);
          record.top.forEach(({ total }, place) => {
            expect(total).toBeCloseTo(best[place]!, 9);
          });
          expect(endpoints).toHaveLength(Math.min(8, pool.length));
          slow.remember(request, endpoints[0]!);
          if (leaves !== null) {
            fast.endpointRemoved(endpointOf(leaves));
            slow.forget(endpointOf(leaves));
          }
          clock.advance(100);
        }
      }),
      { numRuns: 300 },
    );
  });
});
