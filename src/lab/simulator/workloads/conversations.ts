import type { SeededRandom } from "../../../base/clock/random.ts";
import { ANSWER, FIRST_PROMPT, GAP_SECONDS, NEXT_QUESTION, TURNS } from "./conversation-quantiles.ts";
import { numberedRandom } from "./numbered-random.ts";
import { poissonArrivals } from "./poisson.ts";
import { joined, randomText } from "./prompt-text.ts";
import {
  BYTES_PER_TOKEN,
  type Workload,
  type WorkloadDefinition,
  type WorkloadPort,
  type WorkloadSettings,
} from "./workload.ts";

/** The first block of the trace's prompts, which all of them have in common. */
const SYSTEM_TOKENS = 512;
/** A session ends before prompt and answer come to more: the context window of the preset. */
const MAX_TOKENS = 131_072;
/** Milliseconds that a person needs at least between an answer's end and the next question. */
const READING_MS = 1000;

/**
 * Dialogues as the conversation trace of Mooncake has them. Sessions begin by Poisson; a turn's prompt is the one before it,
 * its answer and a new question. The next turn comes as long after the last as people took in the trace, but not before
 * the answer is read; a refused turn ends its session. Each session has generators of its own, so every policy sees the
 * same dialogues. Turns that would come behind the end are not sent, so a run must be longer than people think: half of them
 * take more than two minutes.
 */
export const CONVERSATIONS: WorkloadDefinition = {
  name: "conversations",
  about:
    "sessions with turns, pauses and lengths as in the trace published with Mooncake: shows who finds a dialogue's server again",
  rates: [0.5, 1, 2, 4, 8],
  rateUnit: "sessions/s",
  servers: 8,
  preset: "llama-3-8b-h100",
  durationMs: 600_000,
  make: conversations,
};

function conversations({ rate, durationMs }: WorkloadSettings): Workload {
  return {
    start(port) {
      const base = port.random.below(2 ** 32);
      const system = randomText(port.random, SYSTEM_TOKENS);
      let number = 0;
      poissonArrivals(port, rate, durationMs, () => new Session(port, durationMs, system, base, number++).next());
    },
  };
}

/**
 * One dialogue. All of its text, answers included, is one stream from a generator that can be had again, so between turns a
 * session is a few numbers and not its text.
 */
class Session {
  readonly #port: WorkloadPort;
  readonly #untilMs: number;
  readonly #system: Uint8Array;
  readonly #base: number;
  readonly #number: number;
  /** Of lengths and pauses. */
  readonly #random: SeededRandom;
  #turnsLeft: number;
  #isFirst = true;
  /** Of the next prompt. */
  #promptTokens: number;

  constructor(port: WorkloadPort, untilMs: number, system: Uint8Array, base: number, number: number) {
    this.#port = port;
    this.#untilMs = untilMs;
    this.#system = system;
    this.#base = base;
    this.#number = number;
    this.#random = numberedRandom(base, 2 * number);
    this.#turnsLeft = Math.floor(TURNS.at(this.#random.next()));
    this.#promptTokens = Math.round(FIRST_PROMPT.at(this.#random.next()));
  }

  /** Sends the next prompt, and arms the one after it. */
  next(): void {
    const { clock } = this.#port;
    const random = this.#random;
    const outputTokens = Math.round(ANSWER.at(random.next()));
    const soFar = this.#promptTokens + outputTokens;
    if (soFar > MAX_TOKENS) return;
    const text = this.#text(soFar);
    const promptBytes = this.#promptTokens * BYTES_PER_TOKEN;
    const gapMs = GAP_SECONDS.at(random.next()) * 1000;
    this.#promptTokens = soFar + Math.round(NEXT_QUESTION.at(random.next()));
    this.#turnsLeft--;
    const due = clock.now() + gapMs;
    const request = {
      prompt: text.subarray(0, promptBytes),
      outputTokens,
      answer: text.subarray(promptBytes),
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

  /** The first `tokens` of everything that is said; more than `SYSTEM_TOKENS`. */
  #text(tokens: number): Uint8Array {
    return joined(this.#system, randomText(numberedRandom(this.#base, 2 * this.#number + 1), tokens - SYSTEM_TOKENS));
  }
}
