import { SeededRandom } from "../../../base/clock/random.ts";
import { quantile } from "../../../base/telemetry/quantile.ts";
import type { EnginePreset } from "../../simulator/batching/config.ts";
import {
  BYTES_PER_TOKEN,
  type Workload,
  type WorkloadDefinition,
  type WorkloadPort,
  type WorkloadRequest,
} from "../../simulator/workloads/workload.ts";
import type { RecordedRequest } from "./access-log.ts";
import { Counts, type LogSummary } from "./replay-result.ts";

/** The longest part of a log to replay, in milliseconds. */
const MAX_SPAN = 24 * 3_600_000;
/** Default tokens of a prompt for logs without a length, such as the Common Log Format. */
const USUAL_PROMPT = 1024;
/** Bytes of one token of a streamed answer: an event of the chat API with an id, a time and the name of a model. */
const EVENT_BYTES = 220;
/** Bytes of an answer besides its text: the rest of the JSON object, or the first event and the last ones. */
const ENVELOPE = 400;
/** The most models and upstreams that are counted separately. */
const MAX_MODELS = 64;
const MAX_UPSTREAMS = 512;

/** Settings that a log does not contain. */
export interface TrafficOptions {
  readonly preset: EnginePreset;
  /** Tokens of a prompt of unknown length; default `USUAL_PROMPT`. */
  readonly promptTokens?: number | undefined;
}

/** Recorded traffic, ready for a replay. */
interface RecordedTraffic {
  readonly summary: Omit<LogSummary, "skipped" | "beyond">;
  /** Requests outside of the replayed time. */
  readonly outside: number;
  /** The definition without the number of servers, which a log may not contain. */
  readonly definition: Omit<WorkloadDefinition, "servers">;
}

/** One request with all data for its replay. */
interface Played {
  /** Milliseconds after the first request. */
  readonly at: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
  readonly guessedPrompt: boolean;
  readonly guessedOutput: boolean;
  /** Number of its text: that of its session, or its own. */
  readonly text: number;
  readonly adapter: string | undefined;
  readonly session: string | undefined;
  readonly tenant: string | undefined;
}

/** @param requests at least one, in the order of their arrivals */
export function recordedTraffic(requests: readonly RecordedRequest[], options: TrafficOptions): RecordedTraffic {
  const { preset } = options;
  const used = densest(requests);
  const first = used[0]!.at;
  const sessions = new Map<string, number>();
  const models = new Counts(MAX_MODELS);
  const upstreams = new Counts(MAX_UPSTREAMS);
  for (const { session, model, upstream } of used) {
    if (session !== undefined && !sessions.has(session)) sessions.set(session, sessions.size);
    if (model !== undefined) models.add(model);
    if (upstream !== undefined) upstreams.add(upstream);
  }
  const [base, ...adapters] = models.list().slice(0, MAX_MODELS);
  const adapterNames = new Set(adapters.map(({ what }) => what));
  const list = used.map((request, at): Played => {
    const { session, model, tenant } = request;
    return {
      at: request.at - first,
      ...lengthsOf(request, options),
      text: session === undefined ? sessions.size + at : sessions.get(session)!,
      adapter: model !== undefined && adapterNames.has(model) ? model : undefined,
      ...{ session, tenant },
    };
  });
  const durationMs = list.at(-1)!.at + 1;
  const rate = Number(((list.length * 1000) / durationMs).toPrecision(4));
  const count = (is: (request: Played) => boolean): number => list.reduce((sum, one) => sum + (is(one) ? 1 : 0), 0);
  const mean = (of: (request: Played) => number): number => list.reduce((sum, one) => sum + of(one), 0) / list.length;
  const summary = {
    ...{ requests: list.length, from: first, durationMs, rate, sessions: sessions.size },
    recorded: recordedTimes(used),
    upstreams: upstreams.list("further upstreams"),
    models: models.list("further models"),
    promptTokens: mean(({ promptTokens }) => promptTokens),
    outputTokens: mean(({ outputTokens }) => outputTokens),
    guessedPrompts: count(({ guessedPrompt }) => guessedPrompt),
    guessedOutputs: count(({ guessedOutput }) => guessedOutput),
  };
  const unshared = count(({ session }) => session === undefined);
  return {
    summary: { ...summary, notes: notesOf(used, unshared, base?.what, [...adapterNames], options) },
    outside: requests.length - used.length,
    definition: {
      name: "recorded",
      about: `${list.length} requests of an access log, at the times at which they came`,
      ...{ rates: [rate], rateUnit: "requests/s", preset: preset.name, durationMs },
      // The log does not say how many adapters fit a server. The assumption is all of them, so the replay invents no loading of
      // adapters.
      ...(adapterNames.size === 0 ? {} : { loraSlots: adapterNames.size }),
      make: (settings) => new Playback(list, rate / settings.rate),
    },
  };
}

/** The part of a log with the most requests, within the longest time: a few wrong times must not decide. */
function densest(requests: readonly RecordedRequest[]): readonly RecordedRequest[] {
  let best = { from: 0, to: 0 };
  for (let from = 0, to = 0; to < requests.length; from++) {
    while (to < requests.length && requests[to]!.at - requests[from]!.at < MAX_SPAN) to++;
    if (to - from > best.to - best.from) best = { from, to };
  }
  return requests.slice(best.from, best.to);
}

/** The lengths of prompt and answer, from the log where it has them; never more than fits the engine. */
function lengthsOf(request: RecordedRequest, { preset, promptTokens = USUAL_PROMPT }: TrafficOptions) {
  const { bytesReceived, bytesSent, streamed, durationMs, generates } = request;
  const { cost, maxModelLen } = preset.config;
  const guess = bytesReceived === undefined ? promptTokens : bytesReceived / BYTES_PER_TOKEN;
  const prompt = whole(request.promptTokens ?? guess, maxModelLen - 1);
  const sent = Math.max(0, (bytesSent ?? 0) - ENVELOPE) / (streamed ? EVENT_BYTES : BYTES_PER_TOKEN);
  // Without a mark, a stream has far too many bytes for its tokens. But an engine needs a step for each token.
  const possible = durationMs === undefined ? Number.POSITIVE_INFINITY : durationMs / cost.base;
  const output = generates ? (request.outputTokens ?? Math.min(sent, possible)) : 1;
  return {
    promptTokens: prompt,
    outputTokens: whole(output, maxModelLen - prompt),
    guessedPrompt: request.promptTokens === undefined,
    guessedOutput: generates && request.outputTokens === undefined,
  };
}

function whole(tokens: number, most: number): number {
  return Math.max(1, Math.min(most, Math.round(tokens)));
}

function recordedTimes(requests: readonly RecordedRequest[]): LogSummary["recorded"] {
  const times = requests.flatMap(({ durationMs }) => (durationMs === undefined ? [] : [durationMs]));
  if (times.length === 0) return undefined;
  const sorted = Float64Array.from(times).sort();
  return { p50: quantile(sorted, 0.5), p90: quantile(sorted, 0.9), p99: quantile(sorted, 0.99) };
}

function notesOf(
  requests: readonly RecordedRequest[],
  unshared: number,
  base: string | undefined,
  adapters: readonly string[],
  { promptTokens = USUAL_PROMPT, preset }: TrafficOptions,
): string[] {
  const notes: string[] = [];
  const without = (is: (request: RecordedRequest) => boolean): number => requests.filter(is).length;
  const bare = without((one) => one.promptTokens === undefined && one.bytesReceived === undefined);
  const sized = without((one) => one.promptTokens === undefined && one.bytesReceived !== undefined);
  const answers = without((one) => one.generates && one.outputTokens === undefined);
  if (sized > 0)
    notes.push(
      `The log has no prompt tokens of ${sized} requests: Sluice counts a quarter of a token for each received byte.`,
    );
  if (bare > 0)
    notes.push(`The log does not say how long ${bare} prompts were: each counts as ${promptTokens} tokens.`);
  if (answers > 0)
    notes.push(
      `Sluice guesses the answers of ${answers} requests from the bytes sent, and from how many tokens ${preset.name} generates in the recorded time.`,
    );
  if (unshared === requests.length)
    notes.push(
      "The log names no sessions: no two prompts share a beginning here, so this replay shows nothing about prefix caches.",
    );
  else if (unshared > 0)
    notes.push(`${unshared} requests belong to no session: they share no beginning with another request.`);
  if (unshared < requests.length)
    notes.push(
      "Requests of a session count as turns of one conversation: each prompt begins with the previous prompt and its answer.",
    );
  if (adapters.length > 0)
    notes.push(
      `Sluice treats ${base} as the base model and ${adapters.length === 1 ? adapters[0] : `the ${adapters.length} other models`} as LoRA adapters of ${base}, which all fit in a server.`,
    );
  return notes;
}

/** Sends the requests at their times. Makes the text of each only then: all texts together do not fit into memory. */
class Playback implements Workload {
  readonly #list: readonly Played[];
  readonly #scale: number;

  /** @param scale factor of the times, > 0 */
  constructor(list: readonly Played[], scale: number) {
    this.#list = list;
    this.#scale = scale;
  }

  start(port: WorkloadPort): void {
    const text = new RecordedText();
    const arrive = (at: number): void => {
      const played = this.#list[at];
      if (played === undefined) return;
      port.clock.after(played.at * this.#scale - port.clock.now(), () => {
        port.send(requestOf(played, text));
        arrive(at + 1);
      });
    };
    arrive(0);
  }
}

function requestOf(played: Played, text: RecordedText): WorkloadRequest {
  const { promptTokens, outputTokens, session, adapter, tenant } = played;
  return {
    prompt: text.tokens(played.text, 0, promptTokens),
    ...{ outputTokens, adapter, tenant, session },
    // The prompt of a later turn begins with it.
    ...(session === undefined ? {} : { answer: text.tokens(played.text, promptTokens, promptTokens + outputTokens) }),
  };
}

/** Tokens of text in memory; longer prompts repeat them. */
const TAPE = 1 << 18;
/** Tokens at the start that make a text unlike any other. */
const HEAD = 4;

const CONSONANTS = "bdfghklmnprstvz";
const VOWELS = "aeiou";

/** The word of a number: three letters and a space as four bytes, the first letter first. */
function word(number: number): number {
  const a = CONSONANTS.charCodeAt(number % 15);
  const b = VOWELS.charCodeAt(Math.floor(number / 15) % 5);
  const c = CONSONANTS.charCodeAt(Math.floor(number / 75) % 15);
  return a | (b << 8) | (c << 16) | (0x20 << 24);
}

const WORDS = 15 * 5 * 15;

/**
 * Text for requests of known length but unknown content. Each text has a number, and the same number gives the same text. A
 * shorter text is the beginning of a longer one. Texts of different numbers share no beginning.
 */
export class RecordedText {
  readonly #tape = new Uint32Array(TAPE);

  constructor() {
    const random = new SeededRandom(1);
    for (let i = 0; i < TAPE; i++) this.#tape[i] = word(random.below(WORDS));
  }

  /**
   * @param number from 0 up, below 1,125^4
   * @param from first token, from 0 up
   * @param to end, not included
   * @returns four bytes per token
   */
  tokens(number: number, from: number, to: number): Uint8Array {
    const text = new Uint32Array(to - from);
    let at = 0;
    for (; from + at < HEAD && at < text.length; at++)
      text[at] = word(Math.floor(number / WORDS ** (from + at)) % WORDS);
    while (at < text.length) {
      const place = (number * 8191 + from + at) % TAPE;
      const part = this.#tape.subarray(place, place + text.length - at);
      text.set(part, at);
      at += part.length;
    }
    return new Uint8Array(text.buffer);
  }
}
