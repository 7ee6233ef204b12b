import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { type EngineConfig, SimEngine } from "./engine.ts";
import { DEFAULT_LATENCY } from "./latency.ts";
import type { Sequence, SequenceListener, SequenceSpec } from "./sequence.ts";

const LATENCY = { ...DEFAULT_LATENCY, prefillOverhead: 20, prefillTimePerToken: 0.5, interTokenLatency: 10 };

function setUp(config: Partial<EngineConfig> = {}, seed = 1) {
  const clock = new VirtualClock();
  const log: string[] = [];
  const engine = new SimEngine({
    config: { latency: LATENCY, ...config },
    clock,
    random: new SeededRandom(seed),
  });
  const listener: SequenceListener = {
    onStart: (s) => log.push(`${clock.now()} start ${s.id}`),
    onToken: (s, count) => log.push(`${clock.now()} token ${s.id} +${count}`),
    onFinish: (s) => log.push(`${clock.now()} finish ${s.id} ${s.finishReason}`),
    onAbort: (s) => log.push(`${clock.now()} abort ${s.id}`),
    onReject: (s, reason) => log.push(`${clock.now()} reject ${s.id} ${reason}`),
  };
  const submit = (spec: Partial<SequenceSpec> = {}): Sequence =>
    engine.submit({ prompt: 100, maxTokens: 3, ignoreEos: true, ...spec }, listener);
  return { clock, engine, log, submit };
}

/** A prompt whose first `shared` tokens are those of every prompt of this `family`. */
function prompt(length: number, family: number): Uint32Array {
  return Uint32Array.from({ length }, (_, i) => Math.imul(i + 1, 2654435761) ^ family);
}

describe("one sequence", () => {
  it("D-65: first token after overhead + n x perToken, then one every inter-token latency", () => {
    const { clock, log, submit } = setUp();
    const sequence = submit();
    clock.run();
    expect(log).toEqual(["0 start 1", "70 token 1 +1", "80 token 1 +1", "90 token 1 +1", "90 finish 1 length"]);
    expect([sequence.firstTokenAt, sequence.endedAt, sequence.state]).toEqual([70, 90, "finished"]);
  });

  it("leaves no timer behind", () => {
    const { clock, engine, submit } = setUp();
    submit();
    engine.abort(submit());
    clock.run();
    expect(clock.pending).toBe(0);
    engine.abort(submit());
    expect(clock.pending).toBe(0);
  });

  it("gives out tokens that are due together in one call", () => {
    const { clock, log, submit } = setUp({ latency: { ...LATENCY, interTokenLatency: 0 } });
    submit({ maxTokens: 1000 });
    clock.run();
    expect(log).toEqual(["0 start 1", "70 token 1 +1000", "70 finish 1 length"]);
  });

  it("does not drift on a clock whose timers are late, and coalesces what is due within the resolution", () => {
    const { clock, log, submit } = setUp({ resolution: 5 });
    submit();
    submit({ prompt: 104 });
    clock.run();
    expect(log.filter((line) => line.includes("token"))).toEqual([
      "70 token 1 +1",
      "70 token 2 +1",
      "80 token 1 +1",
      "80 token 2 +1",
      "90 token 1 +1",
      "90 token 2 +1",
    ]);
  });

  it("D-62: ignore_eos is exact, an answer cut by the context ends with length", () => {
    const { clock, submit } = setUp({ maxModelLen: 110 });
    const exact = submit({ maxTokens: 7 });
    const unlimited = submit({ maxTokens: undefined });
    clock.run();
    expect([exact.produced, exact.finishReason]).toEqual([7, "length"]);
    expect([unlimited.produced, unlimited.finishReason]).toEqual([10, "length"]);
  });

  it("D-62: an answer that is already known comes whole, whatever the maximum, and ends with stop", () => {
    const { clock, submit } = setUp();
    const sequence = submit({ outputTokens: 9, maxTokens: 2 });
    clock.run();
    expect([sequence.produced, sequence.finishReason]).toEqual([9, "stop"]);
  });

  it("D-64: refuses what doesn't fit the context", () => {
    const { engine, log, submit } = setUp({ maxModelLen: 102 });
    submit({ maxTokens: 3 });
    submit({ prompt: 102, maxTokens: undefined });
    submit({ maxTokens: 2 });
    expect(log).toEqual(["0 reject 1 context-length", "0 reject 2 context-length", "0 start 3"]);
    expect([engine.running, engine.waiting, engine.counters.rejected]).toEqual([1, 0, 2]);
  });

  it("stalls where asked to, keeping its slot until it is aborted", () => {
    const { clock, engine, log, submit } = setUp();
    const mute = submit({ stallAfter: 0 });
    const cut = submit({ stallAfter: 2 });
    clock.run();
    expect(log).toEqual(["0 start 1", "0 start 2", "70 token 2 +1", "80 token 2 +1"]);
    expect(engine.running).toBe(2);
    engine.abort(mute);
    engine.abort(cut);
    expect([engine.running, engine.kv.pinned]).toEqual([0, 0]);
  });

  it("remote prefill waits for the transfer instead of the prefill", () => {
    const { clock, submit } = setUp({ latency: { ...LATENCY, kvCacheTransferTimePerToken: 0.1 } });
    const sequence = submit({ remotePrefill: true });
    clock.run();
    expect(sequence.firstTokenAt).toBeCloseTo(10, 9);
  });
});

describe("queue and slots", () => {
  it("D-63: waits only for a slot, first come first served", () => {
    const { clock, engine, log, submit } = setUp({ maxNumSeqs: 2 });
    for (let i = 0; i < 4; i++) submit();
    expect([engine.running, engine.waiting]).toEqual([2, 2]);
    clock.run();
    expect(log.filter((line) => line.includes("start"))).toEqual([
      "0 start 1",
      "0 start 2",
      "90 start 3",
      "90 start 4",
    ]);
    expect([engine.running, engine.waiting]).toEqual([0, 0]);
  });

  it("D-64: a full queue refuses the next one and takes more once there is room", () => {
    const { clock, engine, log, submit } = setUp({ maxNumSeqs: 1, maxWaitingQueueLength: 2 });
    for (let i = 0; i < 4; i++) submit();
    expect(log).toEqual(["0 start 1", "0 reject 4 queue-full"]);
    clock.advance(90);
    submit();
    expect([engine.waiting, engine.counters.rejected]).toEqual([2, 1]);
  });

  it("takes what can start at once even without a queue", () => {
    const { log, submit } = setUp({ maxNumSeqs: 1, maxWaitingQueueLength: 0 });
    submit();
    submit();
    expect(log).toEqual(["0 start 1", "0 reject 2 queue-full"]);
  });

  it("D-65: load factor 1 alone, the full factor with every slot taken", () => {
    const { clock, submit } = setUp({ maxNumSeqs: 3, latency: { ...LATENCY, timeFactorUnderLoad: 3 } });
    const alone = submit({ maxTokens: 1 });
    clock.run();
    expect(alone.firstTokenAt).toBe(70);
    const start = clock.now();
    const three = [submit({ maxTokens: 1 }), submit({ maxTokens: 1 }), submit({ maxTokens: 1 })];
    clock.run();
    expect(three.map((s) => s.firstTokenAt - start)).toEqual([70, 140, 210]);
  });

  it("D-68: an adapter without a slot waits while others pass it", () => {
    const { clock, engine, log, submit } = setUp({ maxNumSeqs: 3, maxLoras: 1 });
    submit({ adapter: "a" });
    submit({ adapter: "b" });
    submit({ adapter: "a" });
    submit();
    expect(log).toEqual(["0 start 1", "0 start 3", "0 start 4"]);
    const metrics = engine.snapshotMetrics();
    expect([[...metrics.loraRunning], [...metrics.loraWaiting], metrics.maxLora]).toEqual([["a"], ["b"], 1]);
    expect([metrics.running, metrics.waiting]).toEqual([3, 1]);
    clock.run();
    expect(log).toContain("90 start 2");
    expect([...metrics.loraRunning]).toEqual(["a"]);
    expect(engine.snapshotMetrics().loraWaiting.size).toBe(0);
  });
});

it("counts an adapter as loaded when it was not there, and knows neither steps nor preemptions", () => {
  const { clock, engine, submit } = setUp({ maxLoras: 2 });
  for (const adapter of ["a", undefined, "b", "a", "c", "a", "b"]) {
    submit({ adapter });
    clock.run();
  }
  // a, b, then c in b's place, then b in c's.
  expect(engine.counters).toMatchObject({ adapterLoads: 4, preemptions: 0, steps: 0 });
  submit({ adapter: "a" });
  submit({ adapter: "a" });
  expect(engine.counters.adapterLoads).toBe(4);
  engine.reset();
  expect(engine.counters.adapterLoads).toBe(0);
});

describe("abort", () => {
  it("D-70: frees slot and blocks at once, and the next one starts in the same moment", () => {
    const { clock, engine, log, submit } = setUp({ maxNumSeqs: 1 });
    const first = submit({ prompt: prompt(64, 1) });
    submit({ prompt: 16 });
    clock.advance(5);
    expect(engine.kv.pinned).toBe(4);
    engine.abort(first);
    expect(log).toEqual(["0 start 1", "5 abort 1", "5 start 2"]);
    expect([engine.running, engine.waiting, engine.kv.pinned]).toEqual([1, 0, 1]);
    clock.run();
    expect(first.produced).toBe(0);
  });

  it("D-70: takes a waiting one out of the queue", () => {
    const { clock, engine, log, submit } = setUp({ maxNumSeqs: 1 });
    submit();
    const middle = submit();
    submit();
    engine.abort(middle);
    engine.abort(middle);
    expect([engine.waiting, engine.counters.aborted]).toEqual([1, 1]);
    clock.run();
    expect(log.filter((line) => line.includes(" 2"))).toEqual(["0 abort 2"]);
    expect(log).toContain("90 start 3");
  });

  it("may come from a listener, of the sequence itself or of another", () => {
    const { clock, engine } = setUp();
    const done: number[] = [];
    let other: Sequence | undefined;
    const spec = { prompt: 10, maxTokens: 5, ignoreEos: true };
    const one = engine.submit(spec, {
      onToken(sequence) {
        if (sequence.produced === 2) {
          engine.abort(sequence);
          engine.abort(other!);
        }
      },
    });
    other = engine.submit(spec, { onFinish: (s) => done.push(s.id) });
    clock.run();
    expect([one.state, one.produced, other.state, other.produced]).toEqual(["aborted", 2, "aborted", 1]);
    expect([done, engine.running, engine.kv.pinned]).toEqual([[], 0, 0]);
  });
});

describe("prefix cache", () => {
  it("D-66: the same prompt again finds its full blocks, and its first token comes earlier by cached x perToken", () => {
    const { clock, engine, submit } = setUp();
    const first = submit({ prompt: prompt(100, 1) });
    clock.run();
    const second = submit({ prompt: prompt(100, 1) });
    clock.run();
    expect([first.cachedTokens, second.cachedTokens]).toEqual([0, 96]);
    expect(first.firstTokenAt - first.startedAt - (second.firstTokenAt - second.startedAt)).toBeCloseTo(96 * 0.5, 9);
    expect(engine.counters).toMatchObject({ prefixQueries: 200, prefixHits: 96, promptTokens: 200 });
  });

  it("D-66: shares the longest common prefix in whole blocks", () => {
    const { clock, submit } = setUp();
    const long = prompt(100, 1);
    submit({ prompt: long });
    clock.run();
    const other = Uint32Array.from(long);
    other[40] = 7;
    expect(submit({ prompt: other }).cachedTokens).toBe(32);
    expect(submit({ prompt: long.slice(0, 50) }).cachedTokens).toBe(48);
    expect(submit({ prompt: long.slice(1) }).cachedTokens).toBe(0);
  });

  it("D-66: adapters, cache keys and prompts without ids don't share", () => {
    const { submit } = setUp({ maxLoras: 2 });
    const tokens = prompt(64, 1);
    submit({ prompt: tokens, adapter: "a" });
    expect(submit({ prompt: tokens }).cachedTokens).toBe(0);
    expect(submit({ prompt: tokens, adapter: "b" }).cachedTokens).toBe(0);
    expect(submit({ prompt: tokens, adapter: "a" }).cachedTokens).toBe(64);
    expect(submit({ prompt: tokens, adapter: "a", cacheKey: "a, salted" }).cachedTokens).toBe(0);
    expect(submit({ prompt: 64 }).cachedTokens).toBe(0);
  });

  it("D-66: evicts the least recently used prefix, never one that is running", () => {
    const { clock, engine, submit } = setUp({ kvCacheSize: 10 });
    const use = (family: number): number => {
      const sequence = submit({ prompt: prompt(48, family), maxTokens: 1 });
      clock.run();
      return sequence.cachedTokens;
    };
    expect([use(1), use(2), use(3), use(1)]).toEqual([0, 0, 0, 48]);
    // Ten blocks hold three prompts of three; the fourth one pushes out the second.
    expect([use(4), use(1), use(3), use(2)]).toEqual([0, 48, 48, 0]);
    const running = submit({ prompt: prompt(48, 2) });
    expect(running.cachedTokens).toBe(48);
    submit({ prompt: 200 });
    expect(engine.kv.usage).toBe(1);
    const twin = submit({ prompt: prompt(48, 2) });
    expect(twin.cachedTokens).toBe(48);
  });

  it("D-66: a prefix loses its tail first, so that the rest of it can still be found", () => {
    const { clock, submit } = setUp({ kvCacheSize: 6 });
    const use = (length: number, family: number): number => {
      const sequence = submit({ prompt: prompt(length, family), maxTokens: 1 });
      clock.run();
      return sequence.cachedTokens;
    };
    use(64, 1);
    // Two blocks of six are free; this prompt takes them, and its generated token one of the other prompt's.
    use(32, 2);
    expect(use(64, 1)).toBe(48);
  });

  it("counts blocks of generated tokens, and all of them as free afterwards", () => {
    const { clock, engine, submit } = setUp({ kvCacheSize: 10 });
    submit({ prompt: 16, maxTokens: 17 });
    expect(engine.snapshotMetrics().kvUsage).toBeCloseTo(0.1, 9);
    clock.advance(28);
    expect(engine.snapshotMetrics().kvUsage).toBeCloseTo(0.2, 9);
    clock.advance(160);
    expect(engine.kv.usage).toBe(0);
  });

  it("runs what needs more blocks than there are", () => {
    const { clock, engine, submit } = setUp({ kvCacheSize: 2 });
    const big = submit({ prompt: prompt(1000, 1) });
    expect(engine.kv.usage).toBe(1);
    clock.run();
    expect(big.state).toBe("finished");
    expect(submit({ prompt: prompt(1000, 1) }).cachedTokens).toBe(32);
  });

  it("can be switched off; blocks are still counted", () => {
    const { engine, submit } = setUp({ enableKvcache: false });
    submit({ prompt: prompt(64, 1) });
    expect(submit({ prompt: prompt(64, 1) }).cachedTokens).toBe(0);
    expect(engine.kv.pinned).toBe(8);
  });

  it("reset forgets prefixes and counts, and leaves what is running alone", () => {
    const { clock, engine, submit } = setUp();
    submit({ prompt: prompt(64, 1) });
    clock.run();
    const running = submit({ prompt: prompt(64, 2) });
    engine.reset();
    expect(engine.counters).toMatchObject({ prefixHits: 0, prefixQueries: 0, promptTokens: 0, finished: 0 });
    expect(engine.kv.pinned).toBe(4);
    expect(submit({ prompt: prompt(64, 1) }).cachedTokens).toBe(0);
    expect(submit({ prompt: prompt(64, 2) }).cachedTokens).toBe(0);
    clock.run();
    expect([running.state, engine.kv.pinned]).toEqual(["finished", 0]);
  });
});

describe("D-72: chance", () => {
  const play = (seed: number): string[] => {
    const { clock, log, submit } = setUp(
      { latency: { ...LATENCY, interTokenLatencyStdDev: 3, prefillTimeStdDev: 5 }, maxNumSeqs: 2 },
      seed,
    );
    for (let i = 0; i < 20; i++) clock.after(i * 7, () => submit({ ignoreEos: false, maxTokens: 30 }));
    clock.run();
    return log;
  };

  it("same seed, same lengths and times; another seed, others", () => {
    expect(play(5)).toEqual(play(5));
    expect(play(5)).not.toEqual(play(6));
  });

  it("a sequence with a seed of its own doesn't depend on what ran before", () => {
    const one = setUp({}, 1).submit({ ignoreEos: false, maxTokens: 1000, seed: 42 });
    const { submit } = setUp({}, 2);
    submit();
    expect(submit({ ignoreEos: false, maxTokens: 1000, seed: 42 }).target).toBe(one.target);
  });

  it("jitter stays within 70 % of the mean", () => {
    const { clock, submit } = setUp({ latency: { ...LATENCY, interTokenLatency: 10, interTokenLatencyStdDev: 100 } });
    const times: number[] = [];
    submit({ maxTokens: 500 }).listener.onToken = () => times.push(clock.now());
    clock.run();
    const gaps = times.slice(1).map((time, i) => time - times[i]!);
    expect(Math.min(...gaps)).toBeCloseTo(3, 6);
    expect(Math.max(...gaps)).toBeCloseTo(17, 6);
  });
});

it("changes of latency concern what is drawn from then on", () => {
  const { clock, engine, submit } = setUp();
  const sequence = submit();
  engine.setLatency({ ...LATENCY, interTokenLatency: 100 });
  clock.run();
  expect([sequence.firstTokenAt, sequence.endedAt]).toEqual([70, 270]);
});

it("plays three engines and thousands of requests in virtual time, every one to its end", () => {
  const clock = new VirtualClock();
  const engines = [1, 2, 3].map((seed) => new SimEngine({ clock, random: new SeededRandom(seed) }));
  const prompts = Array.from({ length: 12 }, (_, family) => prompt(512, family));
  let finished = 0;
  let tokens = 0;
  const listener: SequenceListener = {
    onToken: (_, count) => {
      tokens += count;
    },
    onFinish: () => {
      finished++;
    },
  };
  for (let i = 0; i < 3000; i++) {
    const spec = { prompt: prompts[i % 12]!, maxTokens: 64, ignoreEos: true };
    clock.after(i * 20, () => engines[i % 3]!.submit(spec, listener));
  }
  clock.run();
  expect([finished, tokens]).toEqual([3000, 3000 * 64]);
});
