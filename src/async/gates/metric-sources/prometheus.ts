import { z } from "zod";
import type { Clock } from "../../../base/clock/clock.ts";
import { SluiceError } from "../../../base/inference/errors.ts";
import {
  defineMetricSource,
  type GateContext,
  type GateSurroundings,
  type MetricAnswer,
  type MetricSource,
} from "../../../base/plugin/gate.ts";
import { durationParameter, stringParameter } from "../parameters.ts";
import { PrometheusClient } from "./prometheus-client.ts";
import { withDeadline } from "./refresh-cache.ts";

/** Milliseconds that questions to a Prometheus may take (async-processor 3.7). */
export const PROMETHEUS_TIMEOUT = 5000;
/**
 * Milliseconds. A value further from the evaluation is not the time of a sample: no Prometheus reads that far back for an
 * instant vector (its default is five minutes).
 */
const PLAUSIBLE_AGE = 24 * 3_600_000;

/** The queries for a figure and for the time of its samples. */
export interface FigureQuery {
  readonly query: string;
  /** Gives Unix seconds, such as `timestamp(selector)`; undefined = the samples have no timestamp of their own. */
  readonly timestampQuery: string | undefined;
  /** Milliseconds that samples without a time count as older than their evaluation. */
  readonly metricLag: number;
}

/** A figure of a Prometheus with the time of the samples behind it. */
export class PrometheusFigure {
  readonly #client: PrometheusClient;
  readonly #query: FigureQuery;
  /** The time of the latest sample by the server's clock, and by the local clock. */
  #latest = { server: Number.NaN, local: Number.NaN };

  constructor(client: PrometheusClient, query: FigureQuery) {
    this.#client = client;
    this.#query = query;
  }

  /**
   * Asks for the time of the samples and then for the figure. A sample that arrives between the two questions thus counts as
   * older than it is, never as newer. Without a usable time, the time is that of the evaluation minus `metricLag`
   * (async-processor 2.7).
   * @throws SluiceError METRIC_SOURCE
   */
  async ask(signal: AbortSignal): Promise<MetricAnswer> {
    const { query, timestampQuery, metricLag } = this.#query;
    const sampled = timestampQuery === undefined ? undefined : await this.#sampleTime(timestampQuery, signal);
    const { samples, evaluatedAt } = await this.#client.query(query, signal);
    return { samples, time: sampled === undefined ? evaluatedAt - metricLag : Math.min(sampled, evaluatedAt) };
  }

  /** The oldest time that the query gives, by the local clock; undefined when it gives none. */
  async #sampleTime(query: string, signal: AbortSignal): Promise<number | undefined> {
    try {
      const { samples, evaluatedAt, localTime } = await this.#client.query(query, signal);
      const server = 1000 * samples.reduce((least, { value }) => Math.min(least, value), Number.POSITIVE_INFINITY);
      const local = localTime(server);
      if (!(Math.abs(evaluatedAt - local) <= PLAUSIBLE_AGE)) return undefined;
      // A new computation would make the same sample a little younger or older each time, and it would look like another
      // sample.
      if (server !== this.#latest.server) this.#latest = { server, local };
      return this.#latest.local;
    } catch {
      // The figure itself may still be readable; if not, its question returns the reason.
      return undefined;
    }
  }
}

/** @throws SluiceError GATE_PARAMETERS when `--prometheus-url` is missing or no URL */
export function prometheusOf({ prometheusUrl, askPrometheus, clock, log }: GateContext): PrometheusClient {
  if (askPrometheus !== undefined) return new PrometheusClient(askPrometheus, clock, log);
  return new PrometheusClient(requirePrometheus({ prometheusUrl }), clock, log);
}

/** @throws SluiceError GATE_PARAMETERS when `--prometheus-url` is missing */
export function requirePrometheus({ prometheusUrl }: GateSurroundings): string {
  if (prometheusUrl === undefined || prometheusUrl === "")
    throw new SluiceError("GATE_PARAMETERS", "--prometheus-url is missing: give the URL of Prometheus");
  return prometheusUrl;
}

class PrometheusSource implements MetricSource {
  readonly #client: PrometheusClient;
  readonly #clock: Clock;
  readonly #figure: PrometheusFigure;

  constructor(client: PrometheusClient, clock: Clock, query: FigureQuery) {
    this.#client = client;
    this.#clock = clock;
    this.#figure = new PrometheusFigure(client, query);
  }

  query(signal: AbortSignal): Promise<MetricAnswer> {
    return withDeadline(this.#clock, PROMETHEUS_TIMEOUT, signal, (own) => this.#figure.ask(own));
  }

  close(): Promise<void> {
    return this.#client.close();
  }
}

export const prometheusSource = defineMetricSource({
  type: "prometheus",
  describe: "Sends an instant query to the Prometheus of `--prometheus-url`.",
  parameters: z.strictObject({
    query: stringParameter().describe("PromQL that returns an instant vector; every sample counts."),
    timestamp_query: stringParameter({ optional: true }).describe(
      "PromQL that returns the timestamps of the samples behind `query`, such as `timestamp(metric)`; the oldest timestamp counts.",
    ),
    metric_lag: durationParameter({ default: "15s" }).describe(
      "Assumed age of the samples at the query, if no timestamp of the samples is known.",
    ),
  }),
  verify: (_, around) => void requirePrometheus(around),
  create: ({ query, timestamp_query: timestampQuery, metric_lag: metricLag }, context) =>
    new PrometheusSource(prometheusOf(context), context.clock, { query, timestampQuery, metricLag }),
});
