import fc from "fast-check";
import { expect, it } from "vitest";
import {
  type Fate,
  runSlowly,
  type ScriptedRequest,
} from "../../../../test/support/simulator/batching/slow-engine.cases.ts";
import { SeededRandom } from "../../../base/clock/random.ts";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import type { Sequence, SequenceListener } from "../sequence.ts";
import type { BatchSequence } from "./batch-scheduler.ts";
import { BatchingEngine } from "./batching-engine.ts";
import { type BatchingConfig, stepDuration } from "./config.ts";

const BLOCK = 4;

/** No sums of these meet one another or the whole milliseconds at which things arrive: there are no ties to break. */
const COST = { base: 7.313_71, prefill: 0.517_93, attention: 0.003_317, context: 0.011_331, sequence: 0.101_93 };

const config: fc.Arbitrary<BatchingConfig> = fc.record({
  cost: fc.constant(COST),
  tokenBudget: fc.integer({ min: 1, max: 24 }),
  maxNumSeqs: fc.integer({ min: 1, max: 5 }),
  maxWaitingQueueLength: fc.constantFrom(0, 3, 1000, 1000, 1000),
  maxModelLen: fc.constantFrom(24, 100, 100),
  kvBlocks: fc.integer({ min: 4, max: 16 }),
  blockSize: fc.constant(BLOCK),
  prefixCache: fc.constantFrom(false, true, true, true),
  maxLoras: fc.integer({ min: 1, max: 2 }),
  loraLoadMs: fc.constantFrom(0, 11.717_1),
});

/** Families share their first six tokens, and what one of them answers, a longer prompt of the same family says. */
const tokensOf = (family: number, from: number, length: number): number[] =>
  Array.from({ length }, (_, i) => (from + i < 6 ? from + i : from + i + 1000 * family));

const request: fc.Arbitrary<ScriptedRequest> = fc
  .record({
    at: fc.nat(120),
    abortAfter: fc.option(fc.nat(200), { freq: 4, nil: undefined }),
    family: fc.nat(2),
    length: fc.integer({ min: 1, max: 30 }),
    outputTokens: fc.integer({ min: 1, max: 14 }),
    known: fc.constantFrom(0, 5, 14),
    adapter: fc.constantFrom(undefined, undefined, "a", "b", "c"),
  })
  .map(({ at, abortAfter, family, length, outputTokens, known, adapter }) => ({
    at,
    // A moment after: nothing is given up while it arrives.
    abortAt: abortAfter === undefined ? undefined : at + abortAfter + 0.5,
    prompt: tokensOf(family, 0, length),
    answer: known === 0 ? undefined : tokensOf(family, length, known),
    outputTokens,
    adapter,
  }));

const script = fc
  .array(request, { minLength: 10, maxLength: 40, size: "max" })
  .map((requests) => requests.toSorted((a, b) => a.at - b.at));

interface Watch {
  onStep(engine: BatchingEngine, sequences: readonly BatchSequence[]): void;
}

/** Runs a script on the real engine. */
function run(config: BatchingConfig, requests: readonly ScriptedRequest[], watch?: Watch) {
  const clock = new VirtualClock();
  const sequences: BatchSequence[] = [];
  const ends: number[] = [];
  const loads: { tokens: number; sequences: number; duration: number; expected: number }[] = [];
  const engine: BatchingEngine = new BatchingEngine({
    config,
    clock,
    random: new SeededRandom(1),
    onStep: (load, duration) => {
      const tokens = load.prefillTokens + load.decoding;
      const expected = stepDuration(config.cost, load, config.loraLoadMs);
      loads.push({ tokens, sequences: load.sequences, duration, expected });
      // A moment later: a step may begin from within `submit`, before its sequence is known here.
      clock.soon(() => watch?.onStep(engine, sequences));
    },
  });
  const fates: Fate[] = [];
  requests.forEach((request, i) => {
    const fate: Fate = { state: "waiting", tokens: [], startedAt: undefined, cachedTokens: 0 };
    fates.push(fate);
    ends.push(0);
    const ended = (state: Fate["state"]): void => {
      fate.state = state;
      ends[i]!++;
    };
    const listener: SequenceListener = {
      onStart(sequence) {
        sequences[i] = sequence as BatchSequence;
        fate.startedAt = clock.now();
        fate.cachedTokens = sequence.cachedTokens;
        fate.state = "running";
      },
      onToken: (_, n) => expect(n).toBe(fate.tokens.push(clock.now()) && 1),
      onFinish: () => ended("finished"),
      onAbort: () => ended("aborted"),
      onReject: (_, reason) => ended(reason),
    };
    let sequence: Sequence | undefined;
    clock.after(request.at, () => {
      const { outputTokens, adapter } = request;
      const prompt = Uint32Array.from(request.prompt);
      const answer = request.answer && Uint32Array.from(request.answer);
      sequence = engine.submit({ prompt, answer, outputTokens, adapter }, listener);
      sequences[i] = sequence as BatchSequence;
    });
    if (request.abortAt !== undefined) clock.after(request.abortAt, () => engine.abort(sequence!));
  });
  clock.run();
  return { clock, engine, fates, ends, loads, sequences };
}

it("gives every token at the time at which the obvious engine gives it", () => {
  const seen = { preemptions: 0, hits: 0, adapterLoads: 0, aborted: 0, rejected: 0 };
  fc.assert(
    fc.property(config, script, (config, requests) => {
      const { engine, fates } = run(config, requests);
      const slow = runSlowly(config, requests);
      expect(fates.map(({ state, cachedTokens, tokens }) => [state, cachedTokens, tokens.length])).toEqual(
        slow.fates.map(({ state, cachedTokens, tokens }) => [state, cachedTokens, tokens.length]),
      );
      fates.forEach(({ tokens, startedAt = Number.NaN }, i) => {
        const expected = [slow.fates[i]!.startedAt ?? Number.NaN, ...slow.fates[i]!.tokens];
        [startedAt, ...tokens].forEach((at, n) => {
          expect(Math.abs(at - expected[n]!) < 1e-6 || Object.is(at, expected[n])).toBe(true);
        });
      });
      const { preemptions, adapterLoads, steps, prefixHits, aborted, rejected } = engine.counters;
      expect({ preemptions, adapterLoads, steps, hits: prefixHits }).toEqual(slow.totals);
      seen.preemptions += preemptions;
      seen.hits += prefixHits;
      seen.adapterLoads += adapterLoads;
      seen.aborted += aborted;
      seen.rejected += rejected;
    }),
    { numRuns: 500, seed: 1 },
  );
  // Nothing of what the two agree on is missing from what was tried.
  for (const times of Object.values(seen)) expect(times).toBeGreaterThan(100);
});

it("keeps its books whatever comes", () => {
  fc.assert(
    fc.property(config, script, (config, requests) => {
      const { clock, engine, fates, ends, loads, sequences } = run(config, requests, {
        onStep(engine, sequences) {
          const running = sequences.filter((s) => s?.state === "running");
          const held = running.flatMap((s) => s.blocks);
          const { pinned, idle, capacity } = engine.blocks;
          expect(pinned).toBe(new Set(held).size);
          expect(pinned + idle).toBeLessThanOrEqual(capacity);
          for (const { blocks } of running) expect(new Set(blocks).size).toBe(blocks.length);
          for (const { room, blocks } of running) expect(room).toBe(blocks.length * BLOCK);
          for (const { computed, scheduled, room, known } of running) {
            expect(computed + scheduled).toBeLessThanOrEqual(Math.min(room, known));
          }
          expect(engine.running).toBe(running.length);
          expect(engine.waiting).toBe(sequences.filter((s) => s?.state === "waiting").length);
          const metrics = engine.snapshotMetrics();
          expect(metrics.running).toBeLessThanOrEqual(config.maxNumSeqs);
          expect(metrics.waiting).toBeLessThanOrEqual(sequences.length);
          expect(metrics.loraRunning.size).toBeLessThanOrEqual(config.maxLoras);
          expect(metrics.kvUsage).toBeLessThanOrEqual(1);
        },
      });
      for (const { tokens, sequences, duration, expected } of loads) {
        expect(duration).toBe(expected);
        expect(tokens).toBeLessThanOrEqual(config.tokenBudget);
        expect(tokens).toBeGreaterThan(0);
        expect(sequences).toBeLessThanOrEqual(config.maxNumSeqs);
      }
      expect(ends).toEqual(requests.map(() => 1));
      fates.forEach(({ state, tokens, cachedTokens }, i) => {
        if (state === "finished") expect(tokens.length).toBe(requests[i]!.outputTokens);
        expect(sequences[i]!.produced).toBe(tokens.length);
        expect(cachedTokens).toBeLessThan(requests[i]!.prompt.length);
        expect(cachedTokens).toBeLessThanOrEqual(longestKnown(requests, i));
      });
      const started = fates.map(({ startedAt }, i) => ({ startedAt, adapter: requests[i]!.adapter }));
      for (const adapter of [undefined, "a", "b", "c"]) {
        const times = started
          .filter((s) => s.adapter === adapter && s.startedAt !== undefined)
          .map((s) => s.startedAt!);
        expect(times).toEqual(times.toSorted((a, b) => a - b));
      }
      expect([engine.running, engine.waiting, engine.blocks.pinned, clock.pending]).toEqual([0, 0, 0, 0]);
    }),
    { numRuns: 150 },
  );
});

it("gives equal results for equal seeds and submissions, lengths drawn included", () => {
  fc.assert(
    fc.property(config, fc.nat(), fc.array(fc.nat(20), { minLength: 1, maxLength: 10 }), (config, seed, lengths) => {
      const once = (): unknown => {
        const clock = new VirtualClock();
        const engine = new BatchingEngine({ config, clock, random: new SeededRandom(seed) });
        const log: unknown[] = [];
        const note = (s: Sequence): unknown => log.push([clock.now(), s.id, s.state, s.produced, s.target]);
        const listener = { onToken: note, onFinish: note, onReject: note };
        for (const length of lengths) engine.submit({ prompt: length, maxTokens: 9 }, listener);
        clock.run();
        return log;
      };
      expect(once()).toEqual(once());
    }),
    { numRuns: 50 },
  );
});

/** The longest prefix of a prompt that others, with what they are known to answer, can have left behind. */
function longestKnown(requests: readonly ScriptedRequest[], at: number): number {
  const { prompt, adapter } = requests[at]!;
  const common = requests
    .filter((other, i) => i !== at && other.adapter === adapter)
    .map((other) => {
      const tokens = [...other.prompt, ...(other.answer?.slice(0, other.outputTokens) ?? [])];
      const end = prompt.findIndex((token, i) => token !== tokens[i]);
      return end < 0 ? prompt.length : end;
    });
  return Math.max(0, ...common);
}
