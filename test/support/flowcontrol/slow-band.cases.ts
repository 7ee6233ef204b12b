import { WEIGHTS } from "./plain-policies.cases.ts";

/** Tokens of a request: of its prompt, the most that it allows for its answer (NaN = any number), those of its answer (NaN = unknown). */
export interface SlowTokens {
  readonly prompt: number;
  readonly most: number;
  readonly answer: number;
}

/** The mean length of an answer, as the bands of one configuration expect it. */
export interface ExpectedAnswer {
  mean: number;
}

/**
 * The flows of one band as the model knows them. For turns: their order. For shares of tokens: start-time fair queueing by the
 * letter, where each flow has a figure and no figure is forgotten.
 */
export class SlowBand {
  readonly priority: number;
  emptySince: number;
  /** Flows that wait, in the order of their turns. */
  turns: string[] = [];
  readonly #expected: ExpectedAnswer;
  /** Flows that wait, in the order in which they began to wait. */
  flows: string[] = [];
  readonly #figures = new Map<string, number>();
  /** Virtual time: the figure of the flow that was served last. */
  #time = 0;

  constructor(priority: number, now: number, expected: ExpectedAnswer) {
    this.priority = priority;
    this.emptySince = now;
    this.#expected = expected;
  }

  /** A request of the flow is queued. */
  queued(flow: string): void {
    if (this.flows.includes(flow)) return;
    this.turns.push(flow);
    this.flows.push(flow);
    this.#figures.set(flow, Math.max(this.#figureOf(flow), this.#time));
  }

  /** The last queued request of the flow has left. */
  left(flow: string): void {
    this.turns = this.turns.filter((one) => one !== flow);
    this.flows = this.flows.filter((one) => one !== flow);
  }

  /** The flow whose turn it is has its next turn after all others. */
  served(flow: string): void {
    this.turns = [...this.turns.filter((one) => one !== flow), flow];
  }

  /** The flow with the lowest figure; of equals, the one that began to wait first. */
  get leastCharged(): string {
    const least = Math.min(...this.flows.map((flow) => this.#figureOf(flow)));
    return this.flows.find((flow) => this.#figureOf(flow) === least)!;
  }

  /** @returns the tokens that the request is charged with until its end */
  dispatched(flow: string, { prompt, most }: SlowTokens): number {
    const charged = prompt + (Number.isNaN(most) ? this.#expected.mean : Math.min(most, this.#expected.mean));
    // A flow that waits keeps what it was charged too much.
    const figure = this.#figureOf(flow);
    const start = this.flows.includes(flow) ? figure : Math.max(figure, this.#time);
    this.#time = Math.max(this.#time, start);
    this.#figures.set(flow, start + charged / weightOf(flow));
    return charged;
  }

  ended(flow: string, { prompt, answer }: SlowTokens, charged: number): void {
    if (Number.isNaN(answer)) return;
    this.#expected.mean += (answer - this.#expected.mean) / 64;
    this.#figures.set(flow, this.#figureOf(flow) + (prompt + answer - charged) / weightOf(flow));
  }

  #figureOf(flow: string): number {
    return this.#figures.get(flow) ?? this.#time;
  }
}

function weightOf(flow: string): number {
  return WEIGHTS[flow] ?? 1;
}
