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
  #joined: string[] = [];
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
    if (this.#joined.includes(flow)) return;
    this.turns.push(flow);
    this.#joined.push(flow);
    this.#figures.set(flow, Math.max(this.#figureOf(flow), this.#time));
  }

  /** The last queued request of the flow has left. */
  left(flow: string): void {
    this.turns = this.turns.filter((one) => one !== flow);
    this.#joined = this.#joined.filter((one) => one !== flow);
  }

  /** The flow whose turn it is has its next turn after all others. */
  served(flow: string): void {
    this.turns = [...this.turns.filter((one) => one !== flow), flow];
  }

  /** The flow with the lowest figure; of equals, the one that began to wait first. */
  get leastCharged(): string {
    const least = Math.min(...this.#joined.map((flow) => this.#figureOf(flow)));
    return this.#joined.find((flow) => this.#figureOf(flow) === least)!;
  }

  /** @returns the tokens that the request is charged with until its end */
  dispatched(flow: string, { prompt, most }: SlowTokens): number {
    const charged = prompt + (Number.isNaN(most) ? this.#expected.mean : Math.min(most, this.#expected.mean));
    this.#time = Math.max(this.#time, this.#figureOf(flow));
    this.#figures.set(flow, this.#time + charged / weightOf(flow));
    return charged;
  }

  ended(flow: string, { prompt, answer }: SlowTokens, charged: number): void {
    if (Number.isNaN(answer)) return;
    this.#expected.mean += (answer - this.#expected.mean) / 64;
    const figure = this.#figureOf(flow) + (prompt + answer - charged) / weightOf(flow);
    // A flow that waits is not served for time that is over.
    this.#figures.set(flow, this.#joined.includes(flow) ? Math.max(figure, this.#time) : figure);
  }

  #figureOf(flow: string): number {
    return this.#figures.get(flow) ?? this.#time;
  }
}

function weightOf(flow: string): number {
  return WEIGHTS[flow] ?? 1;
}
