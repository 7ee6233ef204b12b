import { z } from "zod";
import type { Clock } from "../../../base/clock/clock.ts";
import { SluiceError } from "../../../base/inference/errors.ts";
import {
  defineMetricSource,
  type MetricAnswer,
  type MetricSample,
  type MetricSource,
} from "../../../base/plugin/gate.ts";
import { ExpositionReader, type ExpositionSample } from "../../../base/telemetry/exposition-reader.ts";
import { stringParameter, textMapParameter } from "../parameters.ts";
import { MetricHttp } from "./metric-http.ts";
import { withDeadline } from "./refresh-cache.ts";

/** Milliseconds that fetching a page may take (async-processor 3.7). */
export const SCRAPE_TIMEOUT = 10_000;
/** Most samples of one metric on one page. */
const MAX_SAMPLES = 10_000;

export interface PageFigure {
  readonly url: string;
  readonly metric: string;
  /** Every pair must match; samples may have further labels. */
  readonly labels: Readonly<Record<string, string>>;
}

/** One metric of a page in the Prometheus text format, fetched again for every question. */
export class PageScrape implements MetricSource {
  readonly #http: MetricHttp;
  readonly #clock: Clock;
  readonly #reader: ExpositionReader;
  readonly #labels: readonly (readonly [string, string])[];

  /** @throws SluiceError GATE_PARAMETERS when the URL is invalid */
  constructor({ url, metric, labels }: PageFigure, clock: Clock) {
    this.#http = new MetricHttp(url);
    this.#clock = clock;
    this.#reader = new ExpositionReader([metric]);
    this.#labels = Object.entries(labels);
  }

  query(signal: AbortSignal): Promise<MetricAnswer> {
    return withDeadline(this.#clock, SCRAPE_TIMEOUT, signal, (own) => this.#fetch(own));
  }

  async #fetch(signal: AbortSignal): Promise<MetricAnswer> {
    // The figures of the page were true at this moment or later.
    const startedAt = this.#clock.wall();
    const { status, headers, body } = await this.#http.send(
      { method: "GET", path: "", headers: { accept: "text/plain;version=0.0.4" } },
      signal,
    );
    if (status !== 200) throw this.#unreadable(`HTTP ${status}`);
    const perTick = String(headers["content-type"]).startsWith("application/openmetrics-text") ? 1000 : 1;
    const samples: MetricSample[] = [];
    let time = startedAt;
    this.#reader.read(body, body.length, (sample) => {
      if (!this.#wanted(sample)) return;
      if (samples.length === MAX_SAMPLES) throw this.#unreadable(`more than ${MAX_SAMPLES} samples`);
      samples.push({ labels: Object.fromEntries(sample.labels.toMap()), value: sample.value });
      // A page that passes on figures of other programs may state when they were true.
      if (sample.timestamp !== undefined) time = Math.min(time, sample.timestamp * perTick);
    });
    if (this.#reader.malformed > 0) throw this.#unreadable("a line of the metric cannot be read");
    return { samples, time };
  }

  #wanted({ type, labels }: ExpositionSample): boolean {
    return (
      type !== "histogram" && type !== "summary" && this.#labels.every(([name, text]) => labels.get(name) === text)
    );
  }

  #unreadable(problem: string): SluiceError {
    return new SluiceError("METRIC_SOURCE", `${this.#http.shown}: ${problem}`);
  }

  close(): Promise<void> {
    return this.#http.close();
  }
}

export const scrapeSource = defineMetricSource({
  type: "scrape",
  describe: "Reads one metric from a page in the Prometheus text format.",
  parameters: z.strictObject({
    url: stringParameter().describe("Address of the page."),
    metric: stringParameter().describe("Name of a gauge, counter or untyped metric; every sample counts."),
    labels: textMapParameter().describe("Labels that a sample must have to count."),
  }),
  create: (parameters, { clock }) => new PageScrape(parameters, clock),
});
