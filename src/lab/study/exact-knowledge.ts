import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import {
  PREFIX_BLOCK_TOKENS,
  PREFIX_CACHED_BLOCKS,
  PREFIX_MATCHED_BLOCKS,
  PREFIX_TOTAL_BLOCKS,
  PREFIX_UNCONFIRMED_BLOCKS,
} from "../../base/plugin/keys.ts";
import type { PluginDefinition, ProduceContext, Producer } from "../../base/plugin/kinds.ts";
import type { ConfiguredPlugin, EffectiveConfig } from "../../picker/config/effective.ts";
import { Speculation } from "../../picker/kv-events/speculation.ts";
import { EventIndex } from "../../picker/prefix/event-index.ts";
import { type PreciseParameters, preciseSettings } from "../../picker/scheduling/plugins/prefix/precise-parameters.ts";
import { promptHashes } from "../simulator/block-hashes.ts";
import type { ModelEngine } from "../simulator/model-engine.ts";
import type { SequenceSpec } from "../simulator/sequence.ts";

const TYPE = "precise-prefix-cache-producer";
/** Milliseconds between a change in an engine's cache and the time when the picker knows of it. */
const EVENT_DELAY_MS = 20;
const MAX_PAIRS = 2 ** 24;
const GPU = 0;
const EXPECTED = 1;
/** The source of the events of an engine: any from 0 up, since expected blocks have a source below 0. */
const ENGINE = 1;

/** Changes of one moment: both halves of a hash, and whether the block came. */
interface Changes {
  readonly at: number;
  readonly slots: number[];
  readonly halves: number[];
  readonly came: boolean[];
}

/**
 * The precise prefix cache in a simulation: the caches of the simulated engines, as a picker knows them from events that come with
 * a delay. The engine's own hashes are the keys of blocks, so no tokenizer is simulated.
 */
export class ExactKnowledge {
  readonly #clock: Clock;
  readonly #index: EventIndex;
  /** What a request asks an engine to compute. */
  readonly #specs = new WeakMap<InferenceRequest, SequenceSpec>();
  #blockSize = 0;
  #waiting: Changes | undefined;

  constructor(clock: Clock, random: Random) {
    this.#clock = clock;
    this.#index = new EventIndex({ weights: [1, 1], maxPairs: MAX_PAIRS, key: random.below(2 ** 32) });
  }

  /** Whether a configuration needs it. */
  static isNeeded({ producers }: EffectiveConfig): boolean {
    return producers.some(({ definition }) => definition.type === TYPE);
  }

  /** Returns the configuration with its precise producers fed by the simulation instead of sockets. */
  within(config: EffectiveConfig): EffectiveConfig {
    const swap = <P extends ConfiguredPlugin>(plugin: P): P =>
      plugin.definition.type === TYPE ? { ...plugin, definition: this.#definition(plugin.definition) } : plugin;
    return { ...config, producers: config.producers.map(swap), configured: config.configured.map(swap) };
  }

  /** Listens to the cache of an engine. */
  hear(endpoint: Endpoint, engine: ModelEngine): void {
    this.#blockSize =
      engine.watchBlocks?.((first, second, came) => this.#change(endpoint.slot, first, second, came)) ?? 0;
  }

  /** The prompt of a request that is about to be scheduled. */
  asked(request: InferenceRequest, spec: SequenceSpec): void {
    this.#specs.set(request, spec);
  }

  #change(slot: number, first: number, second: number, came: boolean): void {
    const now = this.#clock.now();
    if (this.#waiting?.at !== now) {
      const changes: Changes = { at: now, slots: [], halves: [], came: [] };
      this.#waiting = changes;
      this.#clock.after(EVENT_DELAY_MS, () => this.#arrive(changes));
    }
    this.#waiting.slots.push(slot);
    this.#waiting.halves.push(first | 0, second | 0);
    this.#waiting.came.push(came);
  }

  #arrive({ slots, halves, came }: Changes): void {
    for (const [i, slot] of slots.entries()) {
      const low = halves[2 * i]!;
      const high = halves[2 * i + 1]!;
      if (came[i]!) this.#index.add(slot, ENGINE, GPU, low, high, low, high);
      else this.#index.remove(slot, ENGINE, GPU, low, high);
    }
  }

  #definition(definition: PluginDefinition): PluginDefinition<"producer"> {
    const create = (parameters: unknown): Producer => {
      const { speculativeTtl } = preciseSettings(parameters as PreciseParameters);
      const speculation =
        speculativeTtl === 0 ? undefined : new Speculation(this.#index, this.#clock, EXPECTED, speculativeTtl);
      return {
        produce: (context) => {
          speculation?.expire();
          this.#produce(context);
        },
        routed: (request, endpoint) => speculation?.expect(endpoint.slot, Int32Array.from(this.#keysOf(request))),
      };
    };
    return { ...(definition as PluginDefinition<"producer">), requires: [], create };
  }

  #produce({ request, candidates }: ProduceContext): void {
    const { endpoints, count } = candidates;
    const matched = candidates.column(PREFIX_MATCHED_BLOCKS).fill(0, 0, count);
    const cached = candidates.column(PREFIX_CACHED_BLOCKS).fill(0, 0, count);
    const unconfirmed = candidates.column(PREFIX_UNCONFIRMED_BLOCKS).fill(0, 0, count);
    const keys = this.#keysOf(request);
    candidates.column(PREFIX_TOTAL_BLOCKS).fill(keys.length / 2, 0, count);
    candidates.column(PREFIX_BLOCK_TOKENS).fill(Math.max(1, this.#blockSize), 0, count);
    this.#index.begin(endpoints, count);
    for (let i = 0; i < keys.length && this.#index.extend(keys[i]! | 0, keys[i + 1]! | 0); i += 2);
    this.#index.finish(endpoints, count, { weighted: matched, blocks: cached, confirmed: unconfirmed });
    for (let i = 0; i < count; i++) unconfirmed[i] = cached[i]! - unconfirmed[i]!;
  }

  #keysOf(request: InferenceRequest): Uint32Array {
    const spec = this.#specs.get(request);
    if (spec === undefined || typeof spec.prompt === "number" || this.#blockSize === 0) return new Uint32Array(0);
    return promptHashes(spec.prompt, this.#blockSize, spec.cacheKey ?? spec.adapter ?? "");
  }
}
