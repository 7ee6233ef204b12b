import type { Clock } from "../../src/base/clock/clock.ts";
import type { SimEngine } from "../../src/lab/simulator/engine.ts";

/** Which figures of the pool are published: those of the EPP (what waits) or those of the model servers (what runs). */
export type PublishedFigures = "waiting" | "running";

/** What was there at one scrape. */
interface Page {
  /** Unix milliseconds. */
  readonly at: number;
  readonly waiting: number;
  readonly running: number;
}

/** A Prometheus that scrapes simulated engines and answers the few expressions that the budget gate asks. */
export class FakePrometheus {
  readonly #clock: Clock;
  readonly #engines: readonly SimEngine[];
  readonly #published: PublishedFigures;
  readonly #interval: number;
  #page: Page | undefined;

  /** @param interval milliseconds between scrapes */
  constructor(clock: Clock, engines: readonly SimEngine[], published: PublishedFigures, interval: number) {
    this.#clock = clock;
    this.#engines = engines;
    this.#published = published;
    this.#interval = interval;
  }

  /** Scrapes for as long as `open` says. */
  scrape(open: () => boolean): void {
    const sum = (figure: (engine: SimEngine) => number): number =>
      this.#engines.reduce((total, engine) => total + figure(engine), 0);
    this.#page = {
      at: this.#clock.wall(),
      waiting: sum(({ waiting }) => waiting),
      running: sum(({ running }) => running),
    };
    if (open()) this.#clock.after(this.#interval, () => this.scrape(open));
  }

  /** The body of an answer of `/api/v1/query`. */
  answer(promql: string): string {
    const value = this.#page === undefined ? undefined : this.#evaluate(promql, this.#page);
    const now = this.#clock.wall() / 1000;
    const result = value === undefined ? [] : [{ metric: {}, value: [now, String(value)] }];
    return JSON.stringify({ status: "success", data: { resultType: "vector", result } });
  }

  #evaluate(promql: string, { at, waiting, running }: Page): number | undefined {
    if (promql.includes("pool_saturation"))
      return promql.includes("timestamp(")
        ? at / 1000
        : 1 - (running + waiting) / (this.#engines.length * this.#engines[0]!.config.maxNumSeqs);
    const figure = promql.includes("inference_pool_per_pod_queue_size")
      ? "waiting"
      : promql.includes("vllm:num_requests_running")
        ? "running"
        : undefined;
    if (figure === undefined) return promql.startsWith("inference_pool_ready_pods{") ? this.#engines.length : undefined;
    if (figure !== this.#published) return undefined;
    if (promql.includes("timestamp(")) return at / 1000;
    // The constant of the expression: requests per model server.
    const perPod = Number(/[/*] ([\d.e+]+)\)+$/.exec(promql)?.[1]);
    return 1 - (figure === "waiting" ? waiting : running) / this.#engines.length / perPod;
  }
}
