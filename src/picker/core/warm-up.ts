import type { Clock } from "../../base/clock/clock.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import type { EndpointMetrics } from "../../base/inference/endpoint.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { objectivesFromFlags } from "../../pool/resources/objectives.ts";
import type { EffectiveConfig } from "../config/effective.ts";
import { loadConfig } from "../config/load.ts";
import { type PlayExchanges, type SyntheticExchange, withoutWire } from "../exchange/synthetic.ts";
import { InferenceCore } from "./inference-core.ts";
import { PLUGIN_REGISTRY } from "./plugins/plugins.ts";

/**
 * Short exchanges, of which half have a streamed answer. V8 compiles a function after some hundred calls. Then the first
 * requests cost about what later ones do; `node bench/first-requests.ts` compares them.
 */
const SHORT = 300;
/** Words of a long prompt, five bytes each, and how many exchanges have such a prompt: 16 KB, 200 KB. */
const LONG = [
  { words: 3200, times: 24 },
  { words: 40_000, times: 1 },
] as const;
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
 * Runs synthetic exchanges through a core of its own, so that the first real request finds compiled code: short and long
 * prompts, answers in one piece and in many. The warm-up uses neither other hosts nor the process's own core.
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
  const core = new InferenceCore({
    clock,
    random: new SeededRandom(1),
    config: isOurs ? config : loadConfig(undefined, ours),
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
  for (const [i, endpoint] of core.endpoints.list().entries())
    endpoint.metrics = { ...LOAD, waiting: i % 3, running: i, scrapedAt: clock.now() };
  await play((wire) => core.openExchange(wire), exchanges());
  await core.close();
}

/** Values as a scrape reads them: decisions run other code where they are unknown. */
const LOAD: EndpointMetrics = {
  waiting: 0,
  running: 0,
  kvUsage: 0.25,
  maxLora: 4,
  loraRunning: new Set(),
  loraWaiting: new Set(),
  blockSize: 16,
  blocks: 10_000,
  scrapedAt: 0,
};

function* exchanges(): Iterable<SyntheticExchange> {
  const long = answer(CHUNKS);
  for (let i = 0; i < SHORT; i++) yield exchange(i, 100 + (i % 100), i % 2 === 0 ? PLAIN : STREAMED);
  for (const { words, times } of LONG) for (let i = 0; i < times; i++) yield exchange(i, words, STREAMED);
  yield exchange(0, 100, long);
}

/** @param number makes the prompt another one */
function exchange(number: number, words: number, { answerType, answer: chunks }: Answer): SyntheticExchange {
  const content = `${number} ${"word ".repeat(words)}`;
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
