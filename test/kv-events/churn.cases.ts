import { setImmediate as turn } from "node:timers/promises";
import { expect } from "vitest";
import { SeededRandom } from "../../src/base/clock/random.ts";
import { realClock } from "../../src/base/clock/real.ts";
import type { Endpoint } from "../../src/base/inference/endpoint.ts";
import { PREFIX_CACHED_BLOCKS, TOKENIZED_PROMPT } from "../../src/base/plugin/keys.ts";
import { blockHashes } from "../../src/lab/simulator/block-hashes.ts";
import { SimEngine } from "../../src/lab/simulator/engine.ts";
import { CacheEvents } from "../../src/lab/simulator/kv-events/cache-events.ts";
import { EventPublisher } from "../../src/lab/simulator/kv-events/publisher.ts";
import type { PrecisePrefixCache } from "../../src/picker/scheduling/plugins/prefix/precise-cache.ts";
import { precisePrefixCacheProducer } from "../../src/picker/scheduling/plugins/prefix/precise-prefix-cache.ts";
import { freePort } from "../support/free-port.ts";
import { pluginContextOf } from "../support/plugin-context.ts";
import { poll } from "../support/poll.ts";
import { columnsOf, endpointOf, instanceOf, produceContextOf, requestOf } from "../support/scheduling/fakes.cases.ts";

const ENGINES = 4;
const BLOCK = 16;
/** Blocks of an engine's cache, and the bound of the index, which has room for all of them. */
const CACHE = 4_000;
const MAX_PAIRS = ENGINES * CACHE;
/** Prompts of each engine between two changes of the pool. */
const PROMPTS = 100;
/** Beginnings that prompts share, and the most blocks of a prompt. */
const STEMS = 200;
const MOST_BLOCKS = 40;
/** Bytes that an index with that bound may take, with arrays that double. */
const MAX_BYTES = 200 * MAX_PAIRS;

/** A simulated engine that publishes its events. */
class Engine {
  readonly #ports: readonly [publish: number, replay: number];
  /** What is in its cache, by both words of the hash. */
  readonly #held = new Set<string>();
  #engine!: SimEngine;
  #publisher!: EventPublisher;

  constructor(ports: readonly [number, number]) {
    this.#ports = ports;
  }

  /** Starts, or starts again with an empty cache. */
  async start(seed: number): Promise<void> {
    const [publish, replay] = this.#ports;
    this.#publisher = await EventPublisher.open({
      ...{ address: `tcp://*:${publish}`, replayAddress: `tcp://127.0.0.1:${replay}` },
      ...{ topic: "kv@engine@m", wall: () => realClock.wall() },
    });
    const engine = new SimEngine({
      config: { kvCacheSize: CACHE, blockSize: BLOCK, maxNumSeqs: 1000 },
      ...{ clock: realClock, random: new SeededRandom(seed) },
    });
    const publisher = this.#publisher;
    const events = new CacheEvents(realClock, BLOCK, (batch) => publisher.publish(batch));
    this.#held.clear();
    engine.kv.listener = {
      stored: (blocks) => {
        for (let i = blocks.from; i < blocks.to; i++) this.#held.add(nameOf(blocks.hashes, i));
        events.stored(blocks);
      },
      removed: (first, second) => {
        this.#held.delete(`${first >>> 0} ${second >>> 0}`);
        events.removed(first, second);
      },
      cleared: () => {
        this.#held.clear();
        events.cleared();
      },
    };
    this.#engine = engine;
  }

  ask(prompt: Uint32Array): void {
    this.#engine.abort(this.#engine.submit({ prompt, outputTokens: 1 }, {}));
  }

  reset(): void {
    this.#engine.reset();
  }

  stop(): void {
    this.#publisher.close();
  }

  /** Leading blocks of a prompt that are in the cache. */
  cached(prompt: Uint32Array): number {
    const hashes = blockHashes(prompt, BLOCK, "\u0000", CACHE);
    let count = 0;
    while (2 * count < hashes.length && this.#held.has(nameOf(hashes, count))) count++;
    return count;
  }
}

function nameOf(hashes: Uint32Array, block: number): string {
  return `${hashes[2 * block]!} ${hashes[2 * block + 1]!}`;
}

/**
 * Engines work, start again, forget all and leave, and the picker follows. In between, all is quiet for a moment: then the picker
 * must know each cache exactly, and its memory must be in its bound.
 * @param seconds at least; the last round ends later
 */
export async function churn(seconds: number): Promise<void> {
  const random = new SeededRandom(23);
  const port = await freePort(2 * ENGINES);
  const engines = Array.from({ length: ENGINES }, (_, i) => new Engine([port + i, port + ENGINES + i]));
  const pool: Endpoint[] = engines.map((_, rank) =>
    endpointOf(rank, { address: "127.0.0.1", rank, port: 8000 + rank, hostPort: `127.0.0.1:${8000 + rank}` }),
  );
  const picker = instanceOf(
    precisePrefixCacheProducer,
    {
      tokenProcessorConfig: { blockSizeTokens: BLOCK },
      indexerConfig: { kvBlockIndexConfig: { inMemoryConfig: { size: MAX_PAIRS } } },
      kvEventsConfig: { podDiscoveryConfig: { socketPort: port, replaySocketPort: port + ENGINES } },
    },
    { ...pluginContextOf("exact"), clock: realClock, random: new SeededRandom(3) },
  ) as PrecisePrefixCache;
  const promptOf = (): Uint32Array => {
    const stem = 1 + random.below(STEMS);
    const shared = BLOCK * random.below(MOST_BLOCKS / 2);
    const length = shared + 1 + random.below((BLOCK * MOST_BLOCKS) / 2);
    return Uint32Array.from({ length }, (_, i) => (i < shared ? stem * 100_000 + i : random.below(1_000)));
  };
  const columns = (prompt: Uint32Array) => {
    const bytes = new Uint8Array(prompt.buffer);
    const tokenized = { tokens: bytes, prompts: [{ start: 0, end: bytes.length }], count: prompt.length };
    const keys = precisePrefixCacheProducer.produces.map((key) => [key, []] as const);
    return columnsOf(pool, [...keys, [TOKENIZED_PROMPT, tokenized]]);
  };
  const known = (prompt: Uint32Array): number[] => {
    const given = columns(prompt);
    picker.produce(produceContextOf(given, requestOf("x", { targetModel: "m" })));
    return [...given.column(PREFIX_CACHED_BLOCKS).slice(0, ENGINES)];
  };
  try {
    for (const [i, engine] of engines.entries()) await engine.start(i);
    for (const endpoint of pool) picker.endpointAdded(endpoint);
    const end = realClock.now() + 1000 * seconds;
    for (let round = 0; round === 0 || realClock.now() < end; round++) {
      for (let i = 0; i < PROMPTS; i++) {
        for (const engine of engines) engine.ask(promptOf());
        await turn();
      }
      const which = random.below(ENGINES);
      const engine = engines[which]!;
      const change = random.below(4);
      if (change === 0) engine.reset();
      if (change === 1) {
        engine.stop();
        await poll("the port of an engine that starts again", async () => {
          await engine.start(round);
          return true;
        });
      }
      if (change === 2) {
        picker.endpointRemoved(pool[which]!);
        picker.endpointAdded(pool[which]!);
      }
      const prompts = Array.from({ length: 20 }, promptOf);
      await poll(`round ${round}: the picker to know each cache`, async () => {
        // A lost connection is noticed with the next message.
        for (const one of engines) one.ask(promptOf());
        await turn();
        return prompts.every((prompt) => {
          const caches = known(prompt);
          return engines.every((one, i) => one.cached(prompt) === caches[i]);
        });
      });
      expect(picker.index.size).toBeLessThanOrEqual(MAX_PAIRS);
      expect(picker.index.bytes).toBeLessThanOrEqual(MAX_BYTES);
    }
    for (const endpoint of pool) picker.endpointRemoved(endpoint);
    await poll("the memory of all endpoints to be free", () => picker.index.size === 0);
    expect(picker.feed.states()).toEqual([]);
  } finally {
    picker.close();
    for (const engine of engines) engine.stop();
  }
}
