import type { Clock } from "../../base/clock/clock.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { UNKNOWN_METRICS } from "../../base/inference/endpoint.ts";
import { whileWarming } from "../../base/process/compilers.ts";
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

/** Exchanges of the first core: more than V8 needs before it collects types, and too few for most compilations. */
const FIRST: readonly Prompts[] = [
  { words: 3200, lengths: 1, times: 2 },
  { words: 100, lengths: 60, times: 60 },
];
/** Exchanges of the second core with prompts of 16 KB and 200 KB. */
const LONG: readonly Prompts[] = [
  { words: 3200, lengths: 1, times: 12 },
  { words: 40_000, lengths: 1, times: 1 },
];
/**
 * Exchanges of the second core with prompts of 0.5 to 1 KB. With `whileWarming`, V8 compiles a function that each exchange calls once
 * after 200 calls, and after 200 more if it met new types. `node bench/first-requests.ts` compares the first requests with later ones.
 */
const SHORT: readonly Prompts[] = [{ words: 100, lengths: 100, times: 300 }];
/** Prompts that begin with other words. Those of one group share four fifths, as prompts with the same instructions do. */
const GROUPS = 6;
/** Chunks of a long answer in each core. */
const CHUNKS = [20, 400] as const;

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
 * There are two cores, one after the other. The first one plays little: V8 then knows objects and functions of two cores before it
 * compiles. What it compiles for one core alone, it throws away at the first request of another. The long prompts come first for the
 * same reason.
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
  await whileWarming(async () => {
    for (const [seed, exchanges] of [firstExchanges(), secondExchanges()].entries()) {
      const core = coreOf(clock, played, seed + 1);
      // Two functions, so that V8 does not take the one of the warm-up for the only one.
      const openExchange =
        seed === 0 ? (wire: Wire): Exchange => core.openExchange(wire) : core.openExchange.bind(core);
      await play(openExchange, exchanges);
      await core.close();
    }
  });
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
vllm:lora_requests_info{max_lora="4",running_lora_adapters="${waiting === 0 ? "" : "a,b"}",waiting_lora_adapters=""} 1
vllm:cache_config_info{block_size="16",num_gpu_blocks="1600"} 1
`;
}

/** Half of them have a streamed answer. */
function* exchangesOf(prompts: readonly Prompts[]): Iterable<SyntheticExchange> {
  for (const { words, lengths, times } of prompts)
    for (let i = 0; i < times; i++) yield exchange(i, words + (i % lengths), ANSWERS[i % ANSWERS.length]!);
}

function* firstExchanges(): Iterable<SyntheticExchange> {
  yield exchange(0, 100, answer(CHUNKS[0], USAGES[0]));
  yield* exchangesOf(FIRST);
}

function* secondExchanges(): Iterable<SyntheticExchange> {
  yield* exchangesOf(LONG);
  yield exchange(0, 100, answer(CHUNKS[1], USAGES[0]));
  yield* exchangesOf(SHORT);
}

/** @param number makes the prompt another one */
function exchange(number: number, words: number, { answerType, answer: chunks }: Answer): SyntheticExchange {
  const shared = Math.round(0.8 * words);
  const content = `${number % GROUPS} ${"word ".repeat(shared)}\\n\\n${number} \\"é\\" ${"word ".repeat(words - shared)}`;
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
    ["accept", "*/*"],
    ["accept-encoding", "gzip, deflate"],
    ["user-agent", "warm-up"],
    ["authorization", "Bearer warm-up"],
    ["x-forwarded-for", "127.0.0.1"],
    ["x-forwarded-proto", "http"],
    ["x-request-id", `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`],
    ["traceparent", `00-${String(number).padStart(32, "0")}-0000000000000001-01`],
  ] as const;
  return { headers, body, answerType, answer: chunks };
}

type Answer = Pick<SyntheticExchange, "answerType" | "answer">;

/** Two kinds of usage: other servers have other members. */
const USAGES = [
  '"usage":{"prompt_tokens":100,"total_tokens":120,"completion_tokens":20}',
  '"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,"prompt_tokens_details":{"cached_tokens":64}}',
] as const;

const PLAIN: readonly Answer[] = USAGES.map((usage) => ({
  answerType: "application/json",
  answer: [
    Buffer.from(
      `{"id":"a","object":"chat.completion","created":1,"model":"warm-up","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"logprobs":null,"finish_reason":"stop"}],${usage}}`,
    ),
  ],
}));

/** A streamed answer with usage in its last chunk. */
function answer(chunks: number, usage: string): Answer {
  const head = '"id":"a","object":"chat.completion.chunk","created":1,"model":"warm-up"';
  const chunk = Buffer.from(`data: {${head},"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}\n\n`);
  const last = Buffer.from(`data: {${head},"choices":[],${usage}}\n\ndata: [DONE]\n\n`);
  return { answerType: "text/event-stream", answer: [...new Array<Buffer>(chunks).fill(chunk), last] };
}

const STREAMED: readonly Answer[] = USAGES.map((usage) => answer(4, usage));
const ANSWERS: readonly Answer[] = [...STREAMED, ...PLAIN];
