import { afterEach, describe, expect, it } from "vitest";
import { SeededRandom } from "../../src/base/clock/random.ts";
import { realClock } from "../../src/base/clock/real.ts";
import type { Endpoint } from "../../src/base/inference/endpoint.ts";
import {
  PREFIX_BLOCK_TOKENS,
  PREFIX_CACHED_BLOCKS,
  PREFIX_MATCHED_BLOCKS,
  PREFIX_TOTAL_BLOCKS,
  PREFIX_UNCONFIRMED_BLOCKS,
  TOKENIZED_PROMPT,
  type TokenizedPrompt,
} from "../../src/base/plugin/keys.ts";
import type { PrecisePrefixCache } from "../../src/picker/scheduling/plugins/prefix/precise-cache.ts";
import { precisePrefixCacheProducer } from "../../src/picker/scheduling/plugins/prefix/precise-prefix-cache.ts";
import { freePort } from "../support/free-port.ts";
import { EventPublisher, type PublisherOptions, stored } from "../support/kv-events/publisher.ts";
import { pluginContextOf } from "../support/plugin-context.ts";
import { poll } from "../support/poll.ts";
import { columnsOf, endpointOf, instanceOf, produceContextOf, requestOf } from "../support/scheduling/fakes.cases.ts";

const MODEL = "model";
const cleanUps: (() => void)[] = [];
afterEach(() => {
  for (const cleanUp of cleanUps.splice(0).reverse()) cleanUp();
});

/** Tokens of so many blocks of 16, other ones for each `seed`. */
function tokens(blocks: number, seed = 1): number[] {
  return Array.from({ length: 16 * blocks }, (_, i) => seed * 100_000 + i * 3);
}

function tokenized(ids: readonly number[]): TokenizedPrompt {
  const bytes = new Uint8Array(Uint32Array.from(ids).buffer);
  return { tokens: bytes, prompts: [{ start: 0, end: bytes.length }], count: ids.length };
}

/** A picker's plugin, subscribed to engines on this machine. */
class Picker {
  readonly plugin: PrecisePrefixCache;
  readonly pool: Endpoint[] = [];

  constructor(parameters: object) {
    this.plugin = instanceOf(precisePrefixCacheProducer, parameters, {
      ...pluginContextOf("exact"),
      clock: realClock,
      random: new SeededRandom(3),
    }) as PrecisePrefixCache;
    cleanUps.push(() => this.plugin.close());
  }

  /** Adds an endpoint of rank `rank`, whose ports are the configured ones plus the rank. */
  add(rank: number): Endpoint {
    const endpoint = endpointOf(rank, {
      address: "127.0.0.1",
      rank,
      port: 8000 + rank,
      hostPort: `127.0.0.1:${8000 + rank}`,
    });
    this.pool.push(endpoint);
    this.plugin.endpointAdded(endpoint);
    return endpoint;
  }

  matched(ids: readonly number[], model = MODEL, cacheSalt = ""): number[] {
    const keys = [
      ...[PREFIX_MATCHED_BLOCKS, PREFIX_TOTAL_BLOCKS, PREFIX_BLOCK_TOKENS],
      ...[PREFIX_CACHED_BLOCKS, PREFIX_UNCONFIRMED_BLOCKS],
    ];
    const given = [...keys.map((key) => [key, []] as const), [TOKENIZED_PROMPT, tokenized(ids)] as const];
    const candidates = columnsOf(this.pool, given);
    this.plugin.produce(produceContextOf(candidates, requestOf("x", { targetModel: model, cacheSalt })));
    return [...candidates.column(PREFIX_MATCHED_BLOCKS).slice(0, this.pool.length)];
  }

  until(what: string, ids: readonly number[], wanted: readonly number[], model = MODEL, salt = ""): Promise<unknown> {
    let last: readonly number[] = [];
    return poll(what, () => {
      last = this.matched(ids, model, salt);
      if (JSON.stringify(last) === JSON.stringify(wanted)) return true;
      throw new Error(JSON.stringify(last));
    });
  }
}

/** A picker with one endpoint for each publisher. */
async function started(
  publishers: readonly Partial<PublisherOptions>[],
  parameters: { kvEventsConfig?: object; [key: string]: unknown } = {},
  replays = true,
): Promise<{ picker: Picker; engines: EventPublisher[]; port: number }> {
  const port = await freePort(2 * publishers.length);
  const replayPort = port + publishers.length;
  const engines: EventPublisher[] = [];
  for (const [rank, options] of publishers.entries()) {
    const engine = await EventPublisher.start({
      publish: `tcp://127.0.0.1:${port + rank}`,
      ...(replays ? { replay: `tcp://127.0.0.1:${replayPort + rank}` } : {}),
      topic: `kv@127.0.0.1:${8000 + rank}@${MODEL}`,
      ...options,
    });
    cleanUps.push(() => engine.kill());
    engines.push(engine);
  }
  const picker = new Picker({
    ...parameters,
    kvEventsConfig: {
      podDiscoveryConfig: { socketPort: port, ...(replays ? { replaySocketPort: replayPort } : {}) },
      ...parameters.kvEventsConfig,
    },
  });
  for (const rank of publishers.keys()) picker.add(rank);
  // Whoever subscribes late hears nothing of what was sent before: an engine is heard when it is, several times if need be.
  for (const [rank, engine] of engines.entries())
    await poll("the subscription", async () => {
      await engine.send([stored(tokens(1, 900 + rank), 900_000 + rank)]);
      return picker.matched(tokens(1, 900 + rank))[rank] === 1;
    });
  return { picker, engines, port };
}

describe("KV-cache events of a real publisher (scheduling 3.14)", () => {
  it.each([
    { form: "array", hashes: "int" },
    { form: "map", hashes: "bytes" },
    { form: "array", hashes: "bytes" },
    { form: "map", hashes: "int" },
  ] as const)("blocks come, go and are cleared: $form, $hashes", async (options) => {
    const { picker, engines } = await started([options, options]);
    const [first, second] = engines as [EventPublisher, EventPublisher];
    await first.send([stored(tokens(4), 10)]);
    await picker.until("four blocks", tokens(4), [4, 0]);
    await second.send([stored(tokens(2), 50)]);
    await picker.until("two blocks elsewhere", tokens(4), [4, 2]);
    // The chain goes on behind a block of an earlier message.
    await first.send([stored(tokens(6).slice(64), 14, { parent_block_hash: 13 })]);
    await picker.until("two more", tokens(6), [6, 2]);
    await first.send([{ type: "BlockRemoved", block_hashes: [15, 12] }]);
    await picker.until("two less, one of them in the middle", tokens(6), [2, 2]);
    await first.send([{ type: "AllBlocksCleared" }]);
    await picker.until("nothing", tokens(6), [0, 2]);
  });

  it("a block that is announced twice stays until it is taken back twice", async () => {
    const { picker, engines } = await started([{}]);
    await engines[0]!.send([stored(tokens(2), 1), stored(tokens(2), 1)]);
    await picker.until("two blocks", tokens(2), [2]);
    await engines[0]!.send([{ type: "BlockRemoved", block_hashes: [2] }, stored(tokens(1, 5), 70)]);
    await picker.until("the sign that the removal was read", tokens(1, 5), [1]);
    expect(picker.matched(tokens(2))).toEqual([2]);
    await engines[0]!.send([{ type: "BlockRemoved", block_hashes: [2] }]);
    await picker.until("one block", tokens(2), [1]);
  });

  it("adapters, salts and images keep prompts apart; tiers weigh; groups that cannot help are skipped", async () => {
    const { picker, engines } = await started([{}]);
    const [engine] = engines as [EventPublisher];
    await engine.send([
      stored(tokens(2, 2), 20, { lora_name: "adapter", extra_keys: [["adapter"], ["adapter"]] }),
      stored(tokens(2, 3), 30, { extra_keys: [["salt"], null] }),
      stored(tokens(10, 4), 40, { medium: "CPU" }),
      stored(tokens(2, 5), 60, { group_idx: 1, kv_cache_spec_kind: "sliding_window" }),
      stored(tokens(2, 6), 70, { group_idx: 0, kv_cache_spec_kind: "full_attention" }),
    ]);
    await picker.until("the last event", tokens(2, 6), [2]);
    expect(picker.matched(tokens(2, 2))).toEqual([0]);
    expect(picker.matched(tokens(2, 2), "adapter")).toEqual([2]);
    expect(picker.matched(tokens(2, 3))).toEqual([0]);
    expect(picker.matched(tokens(2, 3), MODEL, "salt")).toEqual([2]);
    expect(picker.matched(tokens(10, 4))).toEqual([8]);
    expect(picker.matched(tokens(2, 5))).toEqual([0]);
    expect([...picker.plugin.counts.skips()]).toEqual([
      { what: "stores", kind: "sliding_window", reason: "unsupported_cache_kind", count: 1 },
    ]);
    // The copy in another tier: known by its hash, without tokens.
    await engine.send([{ ...stored([], 40), block_hashes: [40, 41, 42, 43, 44], medium: "GPU" }]);
    await picker.until("half of the blocks on the GPU", tokens(10, 4), [9]);
  });

  it("a missed message is asked for, and what the engine no longer has makes the picker forget", async () => {
    const { picker, engines } = await started([{ buffer: 4 }]);
    const [engine] = engines as [EventPublisher];
    await engine.send([stored(tokens(2), 1)]);
    await picker.until("two blocks", tokens(2), [2]);
    await engine.send([{ type: "BlockRemoved", block_hashes: [2] }], { lose: true });
    await engine.send([stored(tokens(1, 5), 70)]);
    await picker.until("the message after the gap", tokens(1, 5), [1]);
    expect(picker.matched(tokens(2))).toEqual([1]);
    // The next gap is larger than the buffer.
    for (let i = 0; i < 6; i++) await engine.send([stored(tokens(1, 10 + i), 100 + i)], { lose: true });
    await engine.send([stored(tokens(1, 6), 80)]);
    await picker.until("the message after the large gap", tokens(1, 6), [1]);
    expect(picker.matched(tokens(2))).toEqual([0]);
    expect(picker.matched(tokens(1, 15))).toEqual([1]);
    expect(picker.plugin.feed.states()[0]).toMatchObject({ state: "live", missed: 7 });
  });

  it("an engine that starts again begins with nothing", async () => {
    const { picker, engines } = await started([{}, {}]);
    await engines[0]!.send([stored(tokens(3), 1)]);
    await engines[1]!.send([stored(tokens(3), 1)]);
    await picker.until("both", tokens(3), [3, 3]);
    await engines[0]!.restart();
    await engines[0]!.send([stored(tokens(1, 7), 1)]);
    await picker.until("its first block", tokens(1, 7), [1, 0]);
    expect(picker.matched(tokens(3))).toEqual([0, 3]);
    expect(picker.plugin.feed.states()[0]!.restarts).toBe(1);
  });

  it("a picker that starts late gets what the engine still has", async () => {
    const { picker, engines, port } = await started([{}]);
    await engines[0]!.send([stored(tokens(3), 1)]);
    await picker.until("three blocks", tokens(3), [3]);
    const late = new Picker({
      kvEventsConfig: { podDiscoveryConfig: { socketPort: port, replaySocketPort: port + 1 } },
    });
    late.add(0);
    await poll("three blocks, as soon as the engine says anything", async () => {
      await engines[0]!.send([stored(tokens(1, 8), 200)]);
      return late.matched(tokens(3))[0] === 3;
    });
  });

  it("frames and payloads that are none disturb neither the stream nor others", async () => {
    const { picker, engines } = await started([{}, {}]);
    const [liar, other] = engines as [EventPublisher, EventPublisher];
    const topic = Buffer.from("kv@x@model");
    const sequence = (n: number): Buffer => Buffer.from(n.toString(16).padStart(16, "0"), "hex");
    for (const frames of [
      [topic],
      [topic, Buffer.from([1]), Buffer.from([0x90])],
      [topic, sequence(10_000), Buffer.from([0xdd, 0xff, 0xff, 0xff, 0xff])],
      [topic, sequence(10_001), Buffer.from("9200", "hex")],
      [topic, sequence(10_002), Buffer.concat([Buffer.from("9200", "hex"), Buffer.alloc(500, 0x91)])],
      [topic, sequence(10_003), Buffer.alloc(1000, 0xff)],
      [topic, sequence(10_004), Buffer.alloc(0)],
    ])
      await liar.raw(frames);
    await other.send([stored(tokens(2), 1)]);
    await picker.until("the other", tokens(2), [0, 2]);
    await liar.restart();
    await liar.send([stored(tokens(2), 1)]);
    await picker.until("the liar, once it is honest", tokens(2), [2, 2]);
  });

  it("an endpoint that leaves takes its blocks along, and its slot is clean for the next", async () => {
    const { picker, engines } = await started([{}]);
    await engines[0]!.send([stored(tokens(2), 1)]);
    await picker.until("two blocks", tokens(2), [2]);
    picker.plugin.endpointRemoved(picker.pool[0]!);
    expect(picker.matched(tokens(2))).toEqual([0]);
    await engines[0]!.send([stored(tokens(2), 1)]);
    picker.plugin.endpointAdded(picker.pool[0]!);
    await poll("the subscription", async () => {
      await engines[0]!.send([stored(tokens(1, 9), 300)]);
      return picker.matched(tokens(1, 9))[0] === 1;
    });
  });

  it("all engines send to one address of the picker, and name themselves", async () => {
    const port = await freePort();
    const picker = new Picker({ kvEventsConfig: { zmqEndpoint: `tcp://127.0.0.1:${port}`, discoverPods: false } });
    picker.add(0);
    picker.add(1);
    const engine = await EventPublisher.start({ connect: `tcp://127.0.0.1:${port}`, topic: "kv@127.0.0.1:8001@model" });
    cleanUps.push(() => engine.kill());
    await poll("the connection", async () => {
      await engine.send([stored(tokens(1, 8), 200)]);
      return picker.matched(tokens(1, 8))[1] === 1;
    });
    await engine.send([stored(tokens(2), 1)]);
    await picker.until("by address and port", tokens(2), [0, 2]);
    await engine.send([stored(tokens(2, 3), 20)], { rank: 0 });
    await picker.until("by rank", tokens(2, 3), [2, 0]);
    await engine.send([stored(tokens(2, 4), 40)], { topic: "kv@nobody@model" });
    await engine.send([stored(tokens(2, 5), 60)]);
    await picker.until("after a stranger", tokens(2, 5), [0, 2]);
    expect(picker.matched(tokens(2, 4))).toEqual([0, 0]);
  });

  it("a flood of one engine leaves the events of another, and the bound of the index holds", async () => {
    const { picker, engines } = await started(
      [{}, {}],
      { indexerConfig: { kvBlockIndexConfig: { inMemoryConfig: { size: 20_000 } } } },
      false,
    );
    const [flooder, quiet] = engines as [EventPublisher, EventPublisher];
    await quiet.send([stored(tokens(100, 2), 1)]);
    await picker.until("the quiet one", tokens(100, 2), [0, 100]);
    const flood = flooder.flood({ rate: 50_000, seconds: 2, block_size: 16, first: 1_000_000 });
    await quiet.send([stored(tokens(2, 3), 500)]);
    await picker.until("an event during the flood", tokens(2, 3), [0, 2]);
    await flood;
    expect(picker.plugin.index.size).toBeLessThanOrEqual(20_000);
    expect(picker.matched(tokens(100, 2))).toEqual([0, 100]);
    expect(picker.plugin.index.evictions).toBeGreaterThan(0);
  });

  it("an engine that dies is heard again when it is back", async () => {
    const { picker, engines, port } = await started([{}, {}]);
    await engines[0]!.send([stored(tokens(2), 1)]);
    await picker.until("two blocks", tokens(2), [2, 0]);
    engines[0]!.kill();
    await engines[1]!.send([stored(tokens(2), 1)]);
    await picker.until("the other goes on", tokens(2), [2, 2]);
    const again = await poll("its port", () =>
      EventPublisher.start({
        publish: `tcp://127.0.0.1:${port}`,
        replay: `tcp://127.0.0.1:${port + 2}`,
        topic: "kv@127.0.0.1:8000@model",
      }),
    );
    cleanUps.push(() => again.kill());
    await poll("its first block of the new life", async () => {
      await again.send([stored(tokens(1, 8), 200)]);
      return picker.matched(tokens(1, 8))[0] === 1;
    });
    expect(picker.matched(tokens(2))).toEqual([0, 2]);
  });
});
