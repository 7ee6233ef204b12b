import type { SeededRandom } from "../../../base/clock/random.ts";
import { poissonArrivals } from "./arrivals.ts";
import { numberedRandom, QuantileFunction } from "./draws.ts";
import { randomText } from "./prompt-text.ts";
import { SessionText } from "./session-text.ts";
import type { WorkloadDefinition, WorkloadPort } from "./workload.ts";

/** The first block of the trace's prompts, which is common to all of them. */
const SYSTEM_TOKENS = 512;
/** A session ends before prompt and answer together exceed the context window of the preset. */
const MAX_TOKENS = 131_072;
/** The least time between an answer's end and the next question of a person, in milliseconds. */
const READING_MS = 1000;

/**
 * Dialogues with the distributions of Mooncake's conversation trace. Sessions begin as a Poisson process. A turn's prompt is
 * the one before it, its answer and a new question. The next turn follows after a gap of the trace, but not before the answer
 * is read. A refused turn ends its session. Each session has its own generators, so every policy sees the same dialogues. Turns
 * after the end of the run are not sent. So a run must be longer than the pauses of people: half of them exceed two minutes.
 */
export const CONVERSATIONS: WorkloadDefinition = {
  name: "conversations",
  about:
    "sessions with turns, pauses and lengths as in the trace published with Mooncake: shows which policy keeps a dialogue on its server",
  rates: [0.5, 1, 2, 4, 8],
  rateUnit: "sessions/s",
  servers: 8,
  preset: "llama-3-8b-h100",
  durationMs: 600_000,
  make: ({ rate, durationMs }) => ({ start: (port) => startDialogues(port, rate, durationMs) }),
};

/** Begins the dialogues. @param rate sessions per second on average @param untilMs virtual time; all requests are before it */
export function startDialogues(port: WorkloadPort, rate: number, untilMs: number): void {
  const base = port.random.below(2 ** 32);
  const system = randomText(port.random, SYSTEM_TOKENS);
  let number = 0;
  poissonArrivals(port, rate, untilMs, () => new Session(port, untilMs, system, base, number++).next());
}

/** One dialogue. */
class Session {
  readonly #port: WorkloadPort;
  readonly #untilMs: number;
  readonly #number: number;
  readonly #text: SessionText;
  /** Draws lengths and pauses. */
  readonly #random: SeededRandom;
  #turnsLeft: number;
  #isFirst = true;
  /** Length of the next prompt. */
  #promptTokens: number;

  constructor(port: WorkloadPort, untilMs: number, system: Uint8Array, base: number, number: number) {
    this.#port = port;
    this.#untilMs = untilMs;
    this.#number = number;
    this.#text = new SessionText(system, base, number);
    this.#random = numberedRandom(base, 2 * number);
    this.#turnsLeft = Math.floor(TURNS.at(this.#random.next()));
    this.#promptTokens = Math.round(FIRST_PROMPT.at(this.#random.next()));
  }

  /** Sends the next prompt, and schedules the one after it. */
  next(): void {
    const { clock } = this.#port;
    const random = this.#random;
    const outputTokens = Math.round(ANSWER.at(random.next()));
    const soFar = this.#promptTokens + outputTokens;
    if (soFar > MAX_TOKENS) return;
    const exchanged = this.#text.exchanged(this.#promptTokens, outputTokens);
    const gapMs = GAP_SECONDS.at(random.next()) * 1000;
    this.#promptTokens = soFar + Math.round(NEXT_QUESTION.at(random.next()));
    this.#turnsLeft--;
    const due = clock.now() + gapMs;
    const request = {
      ...exchanged,
      session: `session-${this.#number}`,
      kind: this.#isFirst ? "first turn" : "later turn",
    };
    this.#isFirst = false;
    this.#port.send(request, (outcome) => {
      if (outcome === "rejected" || this.#turnsLeft === 0) return;
      const at = Math.max(due, clock.now() + READING_MS);
      if (at < this.#untilMs) clock.after(at - clock.now(), () => this.next());
    });
  }
}

/*
 * From the conversation trace published with Mooncake (FAST '25; kvcache-ai/Mooncake,
 * FAST25-release/traces/conversation_trace.jsonl: 12,031 requests to Kimi within an hour). The trace names no sessions, so
 * requests are linked by their blocks of 512 tokens. A request is the next turn of the latest earlier request that meets two
 * conditions: the whole blocks of the earlier one, at least two, are the first blocks of the request; and prompt and answer of
 * the earlier one fit into the prompt of the request. That links 3,682 requests; the first prompts are those of the other
 * 8,349.
 */

/** Tokens of the first prompt of a session, the system prompt included. */
export const FIRST_PROMPT = new QuantileFunction([
  [0, 891],
  [0.05, 898],
  [0.1, 908],
  [0.25, 1501],
  [0.5, 5951],
  [0.75, 14_218],
  [0.9, 26_158],
  [0.95, 37_744],
  [0.99, 86_923],
  [1, 126_195],
]);

/** Tokens that a later prompt adds to the prompt and the answer before it. */
export const NEXT_QUESTION = new QuantileFunction([
  [0, 1],
  [0.05, 6],
  [0.1, 8],
  [0.25, 13],
  [0.5, 39],
  [0.75, 520],
  [0.8, 1282],
  [0.85, 3371],
  [0.9, 4748],
  [0.95, 7720],
  [0.99, 18_870],
  [0.998, 36_333],
  [1, 91_467],
]);

/** Tokens of an answer, of first and later turns alike: they hardly differ. */
export const ANSWER = new QuantileFunction([
  [0, 1],
  [0.05, 10],
  [0.1, 24],
  [0.25, 156],
  [0.5, 350],
  [0.75, 472],
  [0.9, 597],
  [0.95, 698],
  [0.99, 1120],
  [1, 2000],
]);

/** Seconds from the arrival of a turn to that of the next one. */
export const GAP_SECONDS = new QuantileFunction([
  [0, 6],
  [0.05, 33],
  [0.1, 45],
  [0.25, 72],
  [0.5, 135],
  [0.75, 288],
  [0.9, 498],
  [0.95, 624],
  [0.99, 1482],
  [1, 3030],
]);

/**
 * Turns of a session, to be rounded down: the share of sessions with fewer than `value` turns. From the 2,292 sessions that
 * begin in the first third of the hour with two whole blocks or more. Shorter first prompts cannot be linked.
 */
export const TURNS = new QuantileFunction([
  [0, 1],
  [0.6985, 2],
  [0.8787, 3],
  [0.9324, 4],
  [0.9629, 5],
  [0.976, 6],
  [0.9826, 7],
  [0.9874, 8],
  [0.99, 9],
  [0.9909, 10],
  [0.993, 11],
  [0.9948, 12],
  [0.9952, 14],
  [0.996, 16],
  [0.9978, 18],
  [0.9991, 21],
  [1, 44],
]);
