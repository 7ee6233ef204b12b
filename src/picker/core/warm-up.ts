import type { Clock } from "../../base/clock/clock.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { UNKNOWN_METRICS } from "../../base/inference/endpoint.ts";
import { withoutLastCompiler } from "../../base/process/compilers.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { Dialects } from "../../pool/endpoints/dialects/dialects.ts";
import { objectivesFromFlags } from "../../pool/resources/objectives.ts";
import type { EffectiveConfig } from "../config/effective.ts";
import { loadConfig } from "../config/load.ts";
import { type PlayExchanges, type SyntheticExchange, withoutWire } from "../exchange/synthetic.ts";
import type { Exchange, Wire } from "../exchange/wire.ts";
import { InferenceCore } from "./inference-core.ts";
import { PLUGIN_REGISTRY } from "./plugins/plugins.ts";

/** Prompts of exchanges. */
interface Prompts {
  /** Words of the shortest one; a word has five bytes. */
  readonly words: number;
  /** So many lengths take turns, each a word longer than the one before. */
  readonly lengths: number;
  /** How many there are. */
  readonly times: number;
}

/**
 * Short exchanges of each core, of 0.5 to 1 KB. V8 compiles a function that each exchange calls once after about 500 calls: with a
 * tenth fewer exchanges, the first 1,000 requests compile three times as many functions.
 * `node bench/first-requests.ts` compares these requests with later ones.
 */
const SHORT: readonly Prompts[] = [{ words: 100, lengths: 100, times: 260 }];
/** Long exchanges of each core, of 16 KB and 200 KB. */
const LONG: readonly Prompts[] = [
  { words: 3200, lengths: 1, times: 12 },
  { words: 40_000, lengths: 1, times: 1 },
];
/** Prompts that begin with other words. Those of one group share four fifths, as prompts with the same instructions do. */
const GROUPS = 6;
/** Chunks of a long answer. */
const CHUNKS = 400;

/** What the process has besides the built-in plugins and no wire. */
export interface WarmUpOptions {
  /** The plugins that the warm-up may call. */
  readonly ours?: typeof PLUGIN_REGISTRY;
  /** The way of the exchanges through the wire of the process. */
  readonly play?: PlayExchanges;
}

/**
 * Runs synthetic exchanges through cores of its own, so that the first real request finds compiled code: short and long
 * prompts, answers in one piece and in many. The warm-up uses neither other hosts nor the process's own core.
 *
 * There are two cores, one after the other. V8 compiles code for the objects and functions that it has seen; what it compiles for
 * one core alone, it throws away at the first request of another.
 *
 * V8's last compiler works only during the long exchanges, whose loops over bytes take up to twice the time without it. What the short
 * ones call, it compiles when real requests call it: in the warm-up this costs a twentieth of the start, and makes the first requests
 * a quarter dearer.
 *
 * A configuration may refuse these exchanges and serve others, such as gRPC only, or requests with a certain header. Then the
 * code before the refusal is warm. Plugins of users may act on the requests that they see, so they must not see these. With
 * such plugins, the warm-up uses the built-in profile.
 */
export async function warmUp(
  clock: Clock,
  config: EffectiveConfig,
  { ours = PLUGIN_REGISTRY, play = withoutWire(clock) }: WarmUpOptions = {},
): Promise<void> {
  const isOurs = config.configured.every(({ definition }) => ours.get(definition.type) === definition);
  const played = isOurs ? config : loadConfig(undefined, ours);
  for (const seed of [1, 2]) {
    const core = coreOf(clock, played, seed);
    const openExchange = (wire: Wire): Exchange => core.openExchange(wire);
    await withoutLastCompiler(() => play(openExchange, exchangesOf(SHORT)));
    await play(openExchange, longExchanges());
    await core.close();
  }
}

/** A core with a pool of its own. */
function coreOf(clock: Clock, config: EffectiveConfig, seed: number): InferenceCore {
  const core = new InferenceCore({
    clock,
    random: new SeededRandom(seed),
    config,
    models: { objectives: objectivesFromFlags([]) },
    staleness: 2000,
    ignoreSubset: false,
    prepares: false,
    log: silentLogger,
  });
  for (let i = 0; i < 10; i++)
    core.endpoints.upsert({
      namespace: "warm-up",
      name: `e${i}`,
      address: `127.0.0.${i + 1}`,
      port: 1,
      rank: 0,
      labels: {},
    });
  const pages = new Dialects().of({}).createReader();
  for (const [i, endpoint] of core.endpoints.list().entries()) {
    const page = Buffer.from(pageOf(i % 3, i));
    endpoint.metrics = pages.read(page, page.length, UNKNOWN_METRICS, clock.now()).metrics;
  }
  return core;
}

/**
 * A metrics page: decisions run other code where the load is unknown, and code compiled for objects of another origin is thrown
 * away. Its cache is so small that the index drops prompts, too.
 */
function pageOf(waiting: number, running: number): string {
  return `vllm:num_requests_waiting ${waiting}
vllm:num_requests_running ${running}
vllm:kv_cache_usage_perc 0.25
vllm:lora_requests_info{max_lora="4",running_lora_adapters="",waiting_lora_adapters=""} 1
vllm:cache_config_info{block_size="16",num_gpu_blocks="1600"} 1
`;
}

/** Half of them have a streamed answer. */
function* exchangesOf(prompts: readonly Prompts[]): Iterable<SyntheticExchange> {
  for (const { words, lengths, times } of prompts)
    for (let i = 0; i < times; i++) yield exchange(i, words + (i % lengths), i % 2 === 0 ? STREAMED : PLAIN);
}

function* longExchanges(): Iterable<SyntheticExchange> {
  yield* exchangesOf(LONG);
  yield exchange(0, 100, answer(CHUNKS));
}

/** @param number makes the prompt another one */
function exchange(number: number, words: number, { answerType, answer: chunks }: Answer): SyntheticExchange {
  const shared = Math.round(0.8 * words);
  const content = `${number % GROUPS} ${"word ".repeat(shared)}${number} ${"word ".repeat(words - shared)}`;
  const body = Buffer.from(
    `{"model":"warm-up","stream":${chunks.length > 1},"max_tokens":256,"temperature":0.7,"top_p":1,"n":1,"stop":null,"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"${content}"}]}`,
  );
  const headers = [
    [":method", "POST"],
    [":scheme", "http"],
    [":authority", "warm-up"],
    [":path", "/v1/chat/completions"],
    ["content-type", "application/json"],
    ["content-length", String(body.length)],
    ["x-request-id", `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`],
    ["user-agent", "warm-up"],
    ["accept", "*/*"],
  ] as const;
  return { headers, body, answerType, answer: chunks };
}

type Answer = Pick<SyntheticExchange, "answerType" | "answer">;

const USAGE = '"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120}';

const PLAIN: Answer = {
  answerType: "application/json",
  answer: [Buffer.from(`{"id":"a","object":"chat.completion","choices":[{"message":{"content":"x"}}],${USAGE}}`)],
};

/** A streamed answer with usage in its last chunk. */
function answer(chunks: number): Answer {
  const chunk = Buffer.from(
    'data: {"id":"a","object":"chat.completion.chunk","choices":[{"delta":{"content":"x"}}]}\n\n',
  );
  const last = Buffer.from(`data: {"id":"a","choices":[],${USAGE}}\n\ndata: [DONE]\n\n`);
  return { answerType: "text/event-stream", answer: [...new Array<Buffer>(chunks).fill(chunk), last] };
}

const STREAMED = answer(4);
