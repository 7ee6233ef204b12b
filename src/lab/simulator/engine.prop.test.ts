import fc from "fast-check";
import { expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { SimEngine } from "./engine.ts";
import type { Sequence } from "./sequence.ts";

const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("submit" as const),
      adapter: fc.nat(3),
      size: fc.nat(90),
      family: fc.nat(2),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("abort" as const), which: fc.nat(50) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("advance" as const), ms: fc.nat(80) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("reset" as const) }) },
);

// Whatever comes, the counts are those of the sequences' own states, nothing waits without a reason, no adapter
// runs beyond its slots, and nothing is held by what has ended.
it("D-63, D-70: keeps its books under any sequence of calls", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
      const clock = new VirtualClock();
      const engine = new SimEngine({
        config: { maxNumSeqs: 4, maxWaitingQueueLength: 6, maxLoras: 2, kvCacheSize: 12, blockSize: 8 },
        clock,
        random: new SeededRandom(1),
      });
      const all: Sequence[] = [];
      const check = (): void => {
        const running = all.filter((s) => s.state === "running");
        const waiting = all.filter((s) => s.state === "waiting");
        const metrics = engine.snapshotMetrics();
        expect([metrics.running, metrics.waiting]).toEqual([running.length, waiting.length]);
        expect(running.length).toBeLessThanOrEqual(4);
        expect(waiting.length).toBeLessThanOrEqual(6);
        const names = (list: Sequence[]) => new Set(list.flatMap((s) => (s.adapter ? [s.adapter] : [])));
        expect(metrics.loraRunning).toEqual(names(running));
        expect(metrics.loraWaiting).toEqual(names(waiting));
        expect(metrics.loraRunning.size).toBeLessThanOrEqual(2);
        if (running.length < 4) {
          for (const { adapter } of waiting) {
            expect(metrics.loraRunning.size).toBe(2);
            expect(metrics.loraRunning.has(adapter!)).toBe(false);
          }
        }
        const held = new Set(running.flatMap((s) => s.table?.blocks ?? []));
        expect(engine.kv.pinned).toBe(held.size);
      };
      for (const action of steps) {
        if (action.kind === "submit") {
          const prompt = Uint32Array.from({ length: action.size }, (_, i) => i * 3 + action.family);
          const adapter = action.adapter === 0 ? undefined : `a${action.adapter}`;
          all.push(engine.submit({ prompt, adapter, maxTokens: 12 }, {}));
        } else if (action.kind === "abort") {
          const sequence = all[action.which];
          if (sequence) engine.abort(sequence);
        } else if (action.kind === "reset") {
          engine.reset();
        } else {
          clock.advance(action.ms);
        }
        check();
      }
      clock.run();
      check();
      expect([engine.running, engine.waiting, engine.kv.pinned, clock.pending]).toEqual([0, 0, 0, 0]);
    }),
    { numRuns: 150 },
  );
});
