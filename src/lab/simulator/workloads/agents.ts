import type { SeededRandom } from "../../../base/clock/random.ts";
import { poissonArrivals } from "./arrivals.ts";
import { drawTokens, numberedRandom, type TokenLengths } from "./draws.ts";
import { randomText } from "./prompt-text.ts";
import { SessionText } from "./session-text.ts";
import type { Workload, WorkloadDefinition, WorkloadPort, WorkloadSettings } from "./workload.ts";

/** Kinds of agents, each with its instructions and the descriptions of its tools. */
const ROLES = 8;
const ROLE_TOKENS = 6000;
const TASK: TokenLengths = { mean: 1000, sigma: 0.7, least: 16, most: 8000 };
/** Tokens of a tool's result: half of them less than 1,400 tokens, sometimes a file. */
const TOOL_RESULT: TokenLengths = { mean: 3000, sigma: 1.2, least: 16, most: 40_000 };
const STEP: TokenLengths = { mean: 150, sigma: 0.6, least: 8, most: 1000 };
/** Chance that a step is the last one: 15 steps on average. */
const LAST_STEP = 1 / 15;
/** Mean duration of a tool in milliseconds; exponential. */
const TOOL_MS = 3000;
/** A session ends before prompt and answer together exceed this many tokens. */
const MAX_TOKENS = 120_000;

/**
 * Agents that call tools. Each prompt is the one before it, the answer and the result of the tool. So prompts grow to tens of
 * thousands of tokens, and nearly all of them are cached at one server. The next prompt follows when the tool ends. Each
 * session has its own generators, so every policy sees the same sessions. The times of later steps depend on answers.
 */
export const AGENTS: WorkloadDefinition = {
  name: "agents",
  about:
    "agents that call tools, whose prompts grow from 7,000 up to 120,000 tokens: shows which policy keeps a session on its server",
  rates: [0.5, 1, 2],
  rateUnit: "sessions/s",
  servers: 8,
  preset: "llama-3-8b-h100",
  durationMs: 120_000,
  make: agents,
};

function agents({ rate, durationMs }: WorkloadSettings): Workload {
  return {
    start(port) {
      const base = port.random.below(2 ** 32);
      const roles = Array.from({ length: ROLES }, () => randomText(port.random, ROLE_TOKENS));
      let number = 0;
      poissonArrivals(port, rate, durationMs, () => {
        const role = roles[port.random.below(ROLES)]!;
        new Session(port, durationMs, role, base, number++).next();
      });
    },
  };
}

/** One agent at work. */
class Session {
  readonly #port: WorkloadPort;
  readonly #untilMs: number;
  readonly #number: number;
  readonly #text: SessionText;
  /** Draws lengths and pauses. */
  readonly #random: SeededRandom;
  #isFirst = true;
  /** Length of the next prompt. */
  #promptTokens: number;

  constructor(port: WorkloadPort, untilMs: number, role: Uint8Array, base: number, number: number) {
    this.#port = port;
    this.#untilMs = untilMs;
    this.#number = number;
    this.#text = new SessionText(role, base, number);
    this.#random = numberedRandom(base, 2 * number);
    this.#promptTokens = ROLE_TOKENS + drawTokens(this.#random, TASK);
  }

  /** Sends the next prompt, and schedules the one after it. */
  next(): void {
    const { clock } = this.#port;
    const random = this.#random;
    const outputTokens = drawTokens(random, STEP);
    const soFar = this.#promptTokens + outputTokens;
    if (soFar > MAX_TOKENS) return;
    const exchanged = this.#text.exchanged(this.#promptTokens, outputTokens);
    const isLast = random.next() < LAST_STEP;
    const toolMs = -Math.log(1 - random.next()) * TOOL_MS;
    this.#promptTokens = soFar + drawTokens(random, TOOL_RESULT);
    const request = {
      ...exchanged,
      session: `session-${this.#number}`,
      kind: this.#isFirst ? "first step" : "later step",
    };
    this.#isFirst = false;
    this.#port.send(request, (outcome) => {
      if (outcome === "rejected" || isLast || clock.now() + toolMs >= this.#untilMs) return;
      clock.after(toolMs, () => this.next());
    });
  }
}
