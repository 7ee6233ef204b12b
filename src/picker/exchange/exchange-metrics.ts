import type { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import { LabelGuard } from "../../base/telemetry/label-guard.ts";
import { OTHER } from "../../base/telemetry/metric-spec.ts";
import type { Metrics } from "../../base/telemetry/names.ts";
import type { Flow } from "../../pool/endpoints/flow-loads.ts";
import type { ResponseObserver } from "./response-observer.ts";
import type { EndCause } from "./wire.ts";

/** The most distinct model names, and the most distinct fairness IDs, for the life of the process (scheduling 8.1). */
const MAX_NAMES = 1000;
/** The most label sets that clients choose freely. */
const MAX_SETS = 1000;
/** The most further label sets with a pinned name. Clients choose the fairness ID in them, so they share one limit. */
const MAX_PINNED_SETS = 1000;

/** The state of an exchange at its end. */
export interface EndedExchange {
  readonly cause: EndCause;
  /** Undefined when the request was never routed, or had no body to schedule. */
  readonly series: RequestSeries | undefined;
  /** The series that `refused` returned. */
  readonly refused: RequestSeries | undefined;
  readonly rejection: Rejection | undefined;
  readonly response: ResponseObserver;
  readonly streaming: boolean;
  /** Monotonic ms of the request headers. */
  readonly receivedAt: number;
  readonly endedAt: number;
}

/** Counts and times exchanges under the reference's names. Source: scheduling 8.3 and its measurement rules. */
export class ExchangeMetrics {
  readonly #metrics: Metrics;
  readonly #models: LabelGuard;
  readonly #fairness: LabelGuard;
  /** By label set. */
  readonly #series = new Map<string, RequestSeries>();
  readonly #unrouted: RequestSeries;
  /** The series for all label sets beyond the limits. */
  readonly #others: RequestSeries;
  readonly #requestProcessing: ReturnType<Metrics["requestProcessing"]["with"]>;
  readonly #responseProcessing: ReturnType<Metrics["responseProcessing"]["with"]>;

  /**
   * @param models bounds the names that clients choose
   * @param fairness bounds the fairness IDs that clients choose
   */
  constructor(metrics: Metrics, models = new LabelGuard(MAX_NAMES), fairness = new LabelGuard(MAX_NAMES)) {
    this.#metrics = metrics;
    this.#models = models;
    this.#fairness = fairness;
    this.#requestProcessing = metrics.requestProcessing.with();
    this.#responseProcessing = metrics.responseProcessing.with();
    this.#unrouted = new RequestSeries(metrics, ["", "", "", "0"]);
    this.#others = new RequestSeries(metrics, [OTHER, OTHER, OTHER, OTHER]);
  }

  /**
   * Rules 1 and 3: counts a routed request and its received bytes; the request runs until `ended`.
   * @param tookMs from its headers to the decision
   */
  routed(request: InferenceRequest, bodyBytes: number, tookMs: number): RequestSeries {
    const series = this.#seriesOf(request);
    this.#requestProcessing.observe(tookMs / 1000);
    series.requests.inc();
    series.requestSize.observe(bodyBytes);
    series.running.inc();
    return series;
  }

  /** Rule 12: a request that was understood and refused counts only as an error, under its own names. */
  refused(request: InferenceRequest): RequestSeries {
    return this.#seriesOf(request);
  }

  /** Counts the end of one exchange; called exactly once for each. @returns its `error_code`; undefined when it was no error */
  ended(exchange: EndedExchange): string | undefined {
    const { cause, series, refused, rejection, response } = exchange;
    this.#metrics.exchangesTotal.with(cause).inc();
    series?.running.dec();
    // Rule 2: one error per exchange; an error of the model server goes before one of sluice.
    const failed = response.status !== 0 && !response.succeeded;
    const code = failed ? "ModelServerError" : (rejection?.code ?? (cause === "error" ? "Internal" : undefined));
    if (code !== undefined) (series ?? refused ?? this.#unrouted).error(code);
    if (cause === "complete" && response.status !== 0) this.#completed(exchange, series ?? this.#unrouted);
    return code;
  }

  #completed({ response, streaming, receivedAt, endedAt }: EndedExchange, series: RequestSeries): void {
    series.responseSize.observe(response.bytes);
    const processing = streaming ? response.handling : endedAt - response.headersAt;
    this.#responseProcessing.observe(processing / 1000);
    const duration = (endedAt - receivedAt) / 1000;
    if (duration > 0) series.duration.observe(duration);
    const usage = response.usage;
    const output = usage?.completionTokens ?? Number.NaN;
    if (usage !== undefined) {
      if (usage.promptTokens > 0) series.inputTokens.observe(usage.promptTokens);
      if (output > 0) series.outputTokens.observe(output);
      if (!Number.isNaN(usage.cachedTokens)) series.cachedTokens.observe(usage.cachedTokens);
    }
    if (output > 0) series.ntpot.observe(duration / output);
    if (Number.isNaN(response.firstByteAt)) return;
    // Rule 7: an answer that is not streamed counts as a whole, so its first token arrives with its last.
    const ttft = streaming ? (response.firstByteAt - receivedAt) / 1000 : duration;
    series.ttft(streaming).observe(ttft);
    if (streaming && output > 1) series.tpot.observe((duration - ttft) / (output - 1));
  }

  #seriesOf(request: InferenceRequest): RequestSeries {
    const model = this.#models.admit(request.model);
    const target = this.#models.admit(request.targetModel);
    const fairness = this.#fairness.admit(request.fairnessId);
    const priority = String(request.priority);
    const found = this.#series.get(keyOf(model, target, fairness, priority));
    if (found !== undefined) return found;
    if (this.#series.size < MAX_SETS) return this.#add(model, target, fairness, priority);
    if (!this.#models.pins(model) && !this.#models.pins(target)) return this.#others;
    const shared = this.#series.get(keyOf(model, target, OTHER, priority));
    if (shared !== undefined) return shared;
    return this.#series.size < MAX_SETS + MAX_PINNED_SETS ? this.#add(model, target, OTHER, priority) : this.#others;
  }

  #add(model: string, target: string, fairness: string, priority: string): RequestSeries {
    const series = new RequestSeries(this.#metrics, [model, target, fairness, priority]);
    this.#series.set(keyOf(model, target, fairness, priority), series);
    return series;
  }
}

function keyOf(model: string, target: string, fairness: string, priority: string): string {
  return `${model}\n${target}\n${fairness}\n${priority}`;
}

type Labels = readonly [model: string, target: string, fairness: string, priority: string];
type Histogram = ReturnType<Metrics["requestSize"]["with"]>;
type Counter = ReturnType<Metrics["requestTotal"]["with"]>;
type Gauge = ReturnType<Metrics["requestRunning"]["with"]>;

/** The request metrics of one label set. It looks up each series on first use and keeps it: one set serves many requests. */
export class RequestSeries {
  readonly #metrics: Metrics;
  readonly #labels: Labels;
  /** The model and the fairness ID of these requests, as labels show them. */
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
