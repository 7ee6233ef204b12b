import type { Metrics } from "../../base/telemetry/names.ts";
import type { Flow } from "../../pool/endpoints/flow-loads.ts";

type Labels = readonly [model: string, target: string, fairness: string, priority: string];
type Histogram = ReturnType<Metrics["requestSize"]["with"]>;
type Counter = ReturnType<Metrics["requestTotal"]["with"]>;
type Gauge = ReturnType<Metrics["requestRunning"]["with"]>;

/** The request metrics of one label set, each series looked up on first use and kept: one set serves many requests. */
export class RequestSeries {
  readonly #metrics: Metrics;
  readonly #labels: Labels;
  /** Whose requests these are, as labels say it. */
  readonly flow: Flow;
  readonly #histograms = new Map<string, Histogram>();
  #requests: Counter | undefined;
  #running: Gauge | undefined;

  constructor(metrics: Metrics, labels: Labels) {
    this.#metrics = metrics;
    this.#labels = labels;
    this.flow = { fairnessId: labels[2], priority: labels[3] };
  }

  get requests(): Counter {
    this.#requests ??= this.#metrics.requestTotal.with(...this.#labels);
    return this.#requests;
  }

  get running(): Gauge {
    this.#running ??= this.#metrics.requestRunning.with(...this.#labels);
    return this.#running;
  }

  get requestSize(): Histogram {
    return this.#histogram("requestSize");
  }

  get responseSize(): Histogram {
    return this.#histogram("responseSize");
  }

  get duration(): Histogram {
    return this.#histogram("requestDuration");
  }

  get inputTokens(): Histogram {
    return this.#histogram("inputTokens");
  }

  get outputTokens(): Histogram {
    return this.#histogram("outputTokens");
  }

  get cachedTokens(): Histogram {
    return this.#histogram("cachedTokens");
  }

  get ntpot(): Histogram {
    return this.#histogram("ntpot");
  }

  get tpot(): Histogram {
    return this.#histogram("streamingTpot");
  }

  get itl(): Histogram {
    return this.#histogram("streamingItl");
  }

  ttft(streaming: boolean): Histogram {
    const key = streaming ? "ttft/true" : "ttft/false";
    let found = this.#histograms.get(key);
    if (found === undefined) {
      found = this.#metrics.ttft.with(...this.#labels, streaming ? "true" : "false");
      this.#histograms.set(key, found);
    }
    return found;
  }

  /** @param code value of the label `error_code` */
  error(code: string): void {
    this.#metrics.requestErrorTotal.with(...this.#labels, code).inc();
  }

  #histogram(
    name:
      | "requestSize"
      | "responseSize"
      | "requestDuration"
      | "inputTokens"
      | "outputTokens"
      | "cachedTokens"
      | "ntpot"
      | "streamingTpot"
      | "streamingItl",
  ): Histogram {
    let found = this.#histograms.get(name);
    if (found === undefined) {
      found = this.#metrics[name].with(...this.#labels);
      this.#histograms.set(name, found);
    }
    return found;
  }
}
