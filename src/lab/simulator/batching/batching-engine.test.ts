import { describe, expect, it } from "vitest";
import { CONFIG, setUp, tokens } from "../../../../test/support/simulator/batching/batching-engine.cases.ts";
import { SeededRandom } from "../../../base/clock/random.ts";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import type { Sequence, SequenceListener } from "../sequence.ts";
import { BatchingEngine } from "./batching-engine.ts";

describe("a step", () => {
  it("a prompt's first token comes at the end of the step that completes it, one more with each step", () => {
    const { clock, log, submit } = setUp();
    const sequence = submit({ outputTokens: 3 });
    clock.run();
    expect(log).toEqual(["0 start 1", "16 token 1 +1", "26 token 1 +1", "36 token 1 +1", "36 finish 1 stop"]);
    expect([sequence.firstTokenAt, sequence.lastTokenAt, sequence.endedAt]).toEqual([16, 36, 36]);
  });

  it("an engine without work holds no timer and counts no steps", () => {
    const { clock, engine, submit } = setUp();
    expect(clock.pending).toBe(0);
    submit({ outputTokens: 1 });
    clock.run();
    expect([clock.pending, engine.counters.steps]).toEqual([0, 1]);
    clock.advance(1000);
    expect(engine.counters.steps).toBe(1);
  });

  it("what arrives during a step is looked at when it ends", () => {
    const { clock, log, submit } = setUp();
    submit({ prompt: 8 });
    clock.advance(5);
    submit({ prompt: 4, outputTokens: 1 });
    expect(log).toEqual(["0 start 1"]);
    clock.run();
    expect(log.slice(1)).toEqual([
      "18 token 1 +1",
      "18 start 2",
      "32 token 1 +1",
      "32 finish 1 stop",
      "32 token 2 +1",
      "32 finish 2 stop",
    ]);
  });

  it("a prompt longer than the budget is computed in chunks, those that generate go first", () => {
    const { clock, steps, log, submit } = setUp({ tokenBudget: 8 });
    submit({ prompt: 4, outputTokens: 4 });
    clock.advance(1);
    submit({ prompt: 20, outputTokens: 1 });
    clock.run();
    expect(steps.map(({ prefillTokens, decoding, sequences }) => [prefillTokens, decoding, sequences])).toEqual([
      [4, 0, 1],
      [7, 1, 2],
      [7, 1, 2],
      [6, 1, 2],
    ]);
    expect(log.filter((line) => line.includes("token 2"))).toEqual(["64 token 2 +1"]);
  });

  it("counts attention over chunks and context over those that generate, prompt and answer so far", () => {
    const { clock, steps, submit } = setUp({ tokenBudget: 8 });
    submit({ prompt: 10, outputTokens: 3 });
    clock.run();
    expect(steps.map(({ attention, contextTokens }) => [attention, contextTokens])).toEqual([
      [8 * 4, 0],
      [2 * (8 + 1), 0],
      [0, 11],
      [0, 12],
    ]);
  });

  it("computes one token of a prompt that another server has computed, and holds blocks for all of it", () => {
    const { clock, engine, steps, log, submit } = setUp();
    submit({ prompt: 12, outputTokens: 2, remotePrefill: true });
    const blocks = engine.blocks.pinned;
    clock.run();
    expect(blocks).toBe(Math.ceil(12 / engine.config.blockSize));
    expect(steps.map(({ prefillTokens, decoding }) => [prefillTokens, decoding])).toEqual([
      [1, 0],
      [0, 1],
    ]);
    expect(log.filter((line) => line.includes("token"))).toHaveLength(2);
    // Neither a prompt of its own nor a hit of its cache.
    expect([engine.counters.promptTokens, engine.counters.prefixQueries, engine.counters.prefixHits]).toEqual([
      0, 0, 0,
    ]);
  });

  it("computes such a prompt itself when it has lost the blocks", () => {
    const { clock, engine, steps, submit } = setUp({ kvBlocks: 6, blockSize: 4, prefixCache: false });
    submit({ prompt: 10, outputTokens: 12, remotePrefill: true });
    submit({ prompt: 10, outputTokens: 12, remotePrefill: true });
    clock.run();
    expect(engine.counters.preemptions).toBeGreaterThan(0);
    expect(engine.counters.finished).toBe(2);
    expect(Math.max(...steps.map(({ prefillTokens }) => prefillTokens))).toBeGreaterThan(9);
  });

  it("no more sequences than allowed are in it", () => {
    const { clock, engine, steps, submit } = setUp({ maxNumSeqs: 2 });
    for (let i = 0; i < 5; i++) submit({ prompt: 2, outputTokens: 3 });
    clock.advance(13);
    expect([engine.running, engine.waiting]).toEqual([2, 3]);
    clock.run();
    expect(Math.max(...steps.map(({ sequences }) => sequences))).toBe(2);
    expect(engine.counters.finished).toBe(5);
  });

  it("starts no sequence while running sequences use up the token budget", () => {
    const { clock, log, submit } = setUp({ tokenBudget: 2 });
    for (let i = 0; i < 3; i++) submit({ prompt: 1, outputTokens: 3 });
    clock.run();
    const timesOf = (id: number) =>
      log.filter((line) => line.includes(`token ${id}`)).map((line) => Number(line.split(" ")[0]));
    // From 22 to 32 the first two generate; then the first one has ended.
    expect([timesOf(1), timesOf(2), timesOf(3)]).toEqual([
      [11, 22, 32],
      [22, 32, 43],
      [43, 53, 63],
    ]);
  });
});

describe("the queue", () => {
  it("what is beyond its limit is refused", () => {
    const { clock, log, submit } = setUp({ maxWaitingQueueLength: 1 });
    submit();
    submit();
    submit();
    expect(log).toEqual(["0 start 1", "0 reject 3 queue-full"]);
    clock.run();
    expect(submit().state).toBe("running");
  });

  it("without any room in it an idle engine still takes one", () => {
    const { log, submit } = setUp({ maxWaitingQueueLength: 0 });
    submit();
    submit();
    expect(log).toEqual(["0 start 1", "0 reject 2 queue-full"]);
  });

  it("without any room in it an engine all of whose blocks are held by one that stalls refuses", () => {
    const { clock, engine, log, submit } = setUp({ maxWaitingQueueLength: 0, kvBlocks: 2, maxModelLen: 8 });
    submit({ stallAfter: 1 });
    clock.run();
    submit();
    expect(log.slice(2)).toEqual(["16 reject 2 queue-full"]);
    expect([engine.waiting, engine.running, clock.pending]).toEqual([0, 1, 0]);
  });
});

describe("adapters", () => {
  it("one that is not loaded makes its step wait, one that stayed does not", () => {
    const { clock, engine, steps, submit } = setUp({ loraLoadMs: 100 });
    submit({ adapter: "a", outputTokens: 1 });
    clock.run();
    submit({ adapter: "a", outputTokens: 1 });
    clock.run();
    submit({ outputTokens: 1 });
    clock.run();
    expect(steps.map(({ duration }) => duration)).toEqual([116, 16, 16]);
    expect(engine.counters.adapterLoads).toBe(1);
  });

  it("two loaded in one step make it wait twice", () => {
    const { clock, steps, submit } = setUp({ loraLoadMs: 100, tokenBudget: 32 });
    submit({ prompt: 1, outputTokens: 1 });
    submit({ adapter: "a", outputTokens: 1 });
    submit({ adapter: "b", outputTokens: 1 });
    clock.run();
    expect(steps[1]).toMatchObject({ adapterLoads: 2, duration: 222 });
  });

  it("a request whose adapter has no slot is passed by, in order within each adapter", () => {
    const { clock, engine, log, submit } = setUp({ maxLoras: 1 });
    submit({ adapter: "a", prompt: 1 });
    submit({ adapter: "b", prompt: 1 });
    submit({ adapter: "b", prompt: 1 });
    submit({ adapter: "a", prompt: 1 });
    submit({ prompt: 1 });
    clock.advance(12);
    expect(log.filter((line) => line.includes("start"))).toEqual(["0 start 1", "11 start 4", "11 start 5"]);
    clock.advance(11);
    const { loraRunning, loraWaiting, maxLora } = engine.snapshotMetrics();
    expect([[...loraRunning], [...loraWaiting], maxLora]).toEqual([["a"], ["b"], 1]);
    clock.run();
    expect(log.filter((line) => line.includes("start")).slice(3)).toEqual(["33 start 2", "33 start 3"]);
    expect(engine.counters).toMatchObject({ adapterLoads: 2, finished: 5 });
  });

  it("the one not used for longest makes room", () => {
    const { clock, engine, submit } = setUp();
    for (const adapter of ["a", "b", "a", "c", "a", "b"]) {
      submit({ adapter, outputTokens: 1 });
      clock.run();
    }
    // a, b, then c in b's place, then b in c's.
    expect(engine.counters.adapterLoads).toBe(4);
  });
});

describe("ends", () => {
  it("abort of one that runs frees its blocks at once, and the step takes no less time", () => {
    const { clock, engine, log, submit } = setUp();
    const sequence = submit({ prompt: 12 });
    clock.advance(1);
    submit({ prompt: 1, outputTokens: 1 });
    engine.abort(sequence);
    expect([engine.running, engine.blocks.pinned, sequence.state]).toEqual([0, 0, "aborted"]);
    engine.abort(sequence);
    clock.run();
    expect(log).toEqual(["0 start 1", "1 abort 1", "22 start 2", "33 token 2 +1", "33 finish 2 stop"]);
    expect(engine.counters.aborted).toBe(1);
  });

  it("abort of one that waits takes it out of the queue", () => {
    const { clock, engine, log, submit } = setUp();
    submit({ outputTokens: 1 });
    const second = submit();
    engine.abort(second);
    clock.run();
    expect(log).toEqual(["0 start 1", "0 abort 2", "16 token 1 +1", "16 finish 1 stop"]);
    expect([engine.waiting, engine.counters.steps]).toEqual([0, 1]);
  });

  it("what a step computes of one that is given up during it is found afterwards, as in vLLM", () => {
    const { clock, engine, submit } = setUp();
    engine.abort(submit({ prompt: tokens(12) }));
    clock.run();
    expect(submit({ prompt: tokens(13) }).cachedTokens).toBe(12);
  });

  it("listeners may submit and abort whatever they like", () => {
    const { clock, engine, log, submit } = setUp({ tokenBudget: 64 });
    const own: Sequence[] = [];
    submit(
      { outputTokens: 3 },
      {
        onStart: () => own.push(submit({ prompt: 1 }), submit({ prompt: 2 })),
        onToken: (s) => {
          if (s.produced === 2) engine.abort(own[1]!);
          if (s.produced === 3) engine.abort(s);
        },
        onAbort: () => submit({ prompt: 3, outputTokens: 1 }),
      },
    );
    clock.run();
    expect(log).toEqual([
      "16 start 2",
      "16 start 3",
      "29 abort 3",
      "29 token 2 +1",
      "39 token 2 +1",
      "39 finish 2 stop",
      "39 start 4",
      "52 token 4 +1",
      "52 finish 4 stop",
    ]);
    expect([engine.running, engine.waiting, engine.blocks.pinned, clock.pending]).toEqual([0, 0, 0, 0]);
    expect(engine.counters).toMatchObject({ finished: 2, aborted: 2 });
  });

  it("one given up by another one's start does not start for its owner any more", () => {
    const { clock, engine, log, submit } = setUp({ tokenBudget: 64 });
    submit({ prompt: 1, outputTokens: 1 });
    const own: Sequence[] = [];
    submit({ prompt: 1 }, { onStart: () => engine.abort(own[0]!) });
    own.push(submit({ prompt: 1 }));
    clock.run();
    expect(log.filter((line) => line.endsWith(" 3"))).toEqual(["11 abort 3"]);
    expect(engine.counters.prefixQueries).toBe(2);
  });

  it("a stalled sequence keeps its blocks and its place, and delays no other sequence", () => {
    const { clock, engine, log, submit } = setUp();
    const stalled = submit({ outputTokens: 5, stallAfter: 1 });
    submit({ outputTokens: 5, stallAfter: 0, prompt: 1 });
    clock.run();
    expect([engine.running, clock.pending, log.filter((line) => line.includes("token")).length]).toEqual([2, 0, 1]);
    submit({ outputTokens: 1 });
    clock.run();
    expect(engine.counters.finished).toBe(1);
    engine.abort(stalled);
    expect([engine.running, engine.blocks.pinned]).toEqual([1, 1]);
  });

  it("one that waited for the blocks of a stalled one starts when that is given up", () => {
    const { clock, engine, submit } = setUp({ kvBlocks: 2, maxModelLen: 8 });
    const stalled = submit({ stallAfter: 1 });
    const waiting = submit();
    clock.run();
    expect(waiting.state).toBe("waiting");
    engine.abort(stalled);
    expect(waiting.state).toBe("running");
    clock.run();
    expect(waiting.state).toBe("finished");
  });

  it("a sequence that preempted only itself starts at once when the stalled one ends", () => {
    const { clock, engine, submit } = setUp({ kvBlocks: 4, maxModelLen: 16 });
    const stalled = submit({ prompt: 4, outputTokens: 5, stallAfter: 1 });
    const long = submit({ prompt: 12, outputTokens: 2 });
    clock.run();
    // The second needs a fourth block, gives way to itself, and can never get it while the first one stalls.
    expect([stalled.state, long.state, engine.counters.preemptions, clock.pending]).toEqual([
      "running",
      "waiting",
      1,
      0,
    ]);
    engine.abort(stalled);
    clock.run();
    expect(long.state).toBe("finished");
  });
});

describe("a scrape", () => {
  it("says what runs and waits, the share of blocks held, and the size of the cache", () => {
    const { clock, engine, submit } = setUp({ kvBlocks: 10, maxNumSeqs: 1 });
    submit({ prompt: tokens(12), outputTokens: 3 });
    submit({ prompt: tokens(12) });
    clock.advance(22 + 10);
    expect(engine.snapshotMetrics()).toEqual({
      waiting: 1,
      running: 1,
      kvUsage: 0.4,
      maxLora: 2,
      loraRunning: new Set(),
      loraWaiting: new Set(),
      blockSize: 4,
      blocks: 10,
      scrapedAt: 32,
    });
    clock.run();
    expect(engine.snapshotMetrics()).toMatchObject({ waiting: 0, running: 0, kvUsage: 0 });
  });

  it("reports the state after the last step, without sequences that arrived later", () => {
    const { clock, engine, submit } = setUp();
    const seen = () => {
      const { waiting, running } = engine.snapshotMetrics();
      return [waiting, running];
    };
    submit({ prompt: 12, outputTokens: 3 });
    submit({ prompt: 12, outputTokens: 3 });
    clock.advance(21);
    expect([engine.waiting, engine.running, seen()]).toEqual([1, 1, [0, 0]]);
    // At 22 the first step ends, with nobody in its queue, and the next begins with a part of the second prompt.
    clock.advance(2);
    submit({ prompt: 1, outputTokens: 1 });
    expect([engine.waiting, engine.running, seen()]).toEqual([1, 2, [0, 1]]);
    clock.advance(23);
    expect(seen()).toEqual([0, 2]);
    clock.run();
    expect(seen()).toEqual([0, 0]);
  });

  it("sees one that waits for what a stalled one holds", () => {
    const { clock, engine, submit } = setUp({ kvBlocks: 2, maxModelLen: 8 });
    submit({ stallAfter: 1 });
    clock.run();
    submit();
    expect(engine.snapshotMetrics()).toMatchObject({ waiting: 1, running: 1, kvUsage: 1 });
  });
});

it("hears about every sequence before its owner does", () => {
  const heard: string[] = [];
  const clock = new VirtualClock();
  const listen = (who: string): SequenceListener => ({
    onStart: () => heard.push(`${who} start`),
    onToken: () => heard.push(`${who} token`),
    onFinish: () => heard.push(`${who} finish`),
    onAbort: () => heard.push(`${who} abort`),
    onReject: () => heard.push(`${who} reject`),
  });
  const engine = new BatchingEngine({ config: CONFIG, clock, random: new SeededRandom(1), observer: listen("all") });
  engine.submit({ prompt: 1, outputTokens: 1 }, listen("own"));
  engine.abort(engine.submit({ prompt: 1 }, listen("own")));
  engine.submit({ prompt: 1000 }, listen("own"));
  clock.run();
  const kinds = ["start", "abort", "reject", "token", "finish"];
  expect(heard).toEqual(kinds.flatMap((kind) => [`all ${kind}`, `own ${kind}`]));
});
