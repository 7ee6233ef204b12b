import type { Clock } from "../../../base/clock/clock.ts";
import { messageOf, oneLine, SluiceError } from "../../../base/inference/errors.ts";
import type { MetricSample } from "../../../base/plugin/gate.ts";
import type { Logger } from "../../../base/telemetry/logger.ts";
import { RateLimitedLog } from "../../../base/telemetry/rate-limited-log.ts";
import { MetricHttp, type MetricHttpAnswer } from "./metric-http.ts";

/** The result of an instant query of the Prometheus HTTP API v1. */
interface InstantVector {
  readonly samples: readonly MetricSample[];
  /** The moment of the evaluation, milliseconds by the server's clock; the earliest one, undefined without samples. */
  readonly evaluatedAt: number | undefined;
  readonly warnings: readonly string[];
}

const SPECIAL: Readonly<Record<string, number>> = {
  NaN: Number.NaN,
  "+Inf": Number.POSITIVE_INFINITY,
  "-Inf": Number.NEGATIVE_INFINITY,
};
const DECIMAL = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/**
 * Reads the answer to an instant query. Only vectors are figures: `vector()` makes one of a scalar.
 * @param body JSON, UTF-8
 * @throws SluiceError METRIC_SOURCE with the server's error, or with the error in its answer
 */
export function parseInstantVector(body: Uint8Array): InstantVector {
  let answer: unknown;
  try {
    answer = JSON.parse(new TextDecoder().decode(body));
  } catch {
    throw unreadable("the answer is not JSON");
  }
  const { status, error, data, warnings } = fields(answer);
  if (status !== "success")
    throw unreadable(typeof error === "string" ? oneLine(error) : "the answer does not report success");
  const { resultType, result } = fields(data);
  if (resultType !== "vector")
    throw unreadable(
      `the answer is a ${typeof resultType === "string" ? oneLine(resultType) : "nothing"}, not a vector`,
    );
  if (!Array.isArray(result)) throw unreadable("the answer has no list of samples");
  let evaluatedAt: number | undefined;
  const samples = result.map((entry: unknown): MetricSample => {
    const { metric, value } = fields(entry);
    if (!Array.isArray(value)) throw unreadable("a sample is not a single number; is the metric a histogram?");
    const [time, text] = value as readonly unknown[];
    const number = numberOf(text);
    if (typeof time !== "number" || number === undefined) throw unreadable("a sample cannot be read");
    evaluatedAt = Math.min(evaluatedAt ?? Number.POSITIVE_INFINITY, time * 1000);
    return { labels: fields(metric) as Record<string, string>, value: number };
  });
  return { samples, evaluatedAt, warnings: Array.isArray(warnings) ? warnings.slice(0, 8).map(shown) : [] };
}

function numberOf(text: unknown): number | undefined {
  if (typeof text !== "string") return undefined;
  return SPECIAL[text] ?? (DECIMAL.test(text) ? Number(text) : undefined);
}

function fields(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function shown(warning: unknown): string {
  return oneLine(String(warning));
}

function unreadable(problem: string): SluiceError {
  return new SluiceError("METRIC_SOURCE", problem);
}

const PATH = "/api/v1/query";
/** A Date header has whole seconds. */
const DATE_RESOLUTION = 1000;
const WARNINGS = { intervalMs: 60_000, maxKeys: 16 };

interface InstantAnswer {
  readonly samples: readonly MetricSample[];
  /** The moment of the evaluation, Unix milliseconds by the local clock. */
  readonly evaluatedAt: number;
  /**
   * A time of the server's clock by the local clock: never too late, and too early by no more than the time of the question.
   */
  localTime(serverTime: number): number;
}

/** Asks a Prometheus for the present value of an expression (HTTP API v1, async-processor 3.7). */
export class PrometheusClient {
  readonly #http: MetricServer;
  readonly #clock: Clock;
  readonly #warnings: RateLimitedLog;
  #method: "GET" | "POST" = "POST";

  /**
   * @param server as `--prometheus-url`: scheme, host, optional path of the API, user and password; or a function that answers
   * in its place
   * @throws SluiceError GATE_PARAMETERS
   */
  constructor(server: string | ((promql: string) => string), clock: Clock, log: Logger) {
    this.#http = typeof server === "string" ? new MetricHttp(server) : inPlaceOf(server);
    this.#clock = clock;
    this.#warnings = new RateLimitedLog(log, clock, WARNINGS);
  }

  /** @throws SluiceError METRIC_SOURCE for anything but an instant vector; the signal's reason when it was aborted */
  async query(promql: string, signal: AbortSignal): Promise<InstantAnswer> {
    const startedAt = this.#clock.wall();
    const answer = await this.#ask(promql, signal);
    const took = Math.max(0, this.#clock.wall() - startedAt);
    let vector: ReturnType<typeof parseInstantVector>;
    try {
      vector = parseInstantVector(answer.body);
    } catch (error) {
      const status = answer.status === 200 ? "" : `HTTP ${answer.status}: `;
      throw new SluiceError("METRIC_SOURCE", `${this.#http.shown}: ${status}${messageOf(error)}`);
    }
    if (answer.status !== 200) throw new SluiceError("METRIC_SOURCE", `${this.#http.shown}: HTTP ${answer.status}`);
    const { samples, evaluatedAt = startedAt, warnings } = vector;
    if (warnings.length > 0)
      this.#warnings.log("warn", promql, { query: promql, warnings }, "Prometheus answered with warnings");
    const ahead = clockAhead(evaluatedAt, startedAt, took, answer.headers["date"]);
    return { samples, evaluatedAt: evaluatedAt - ahead, localTime: (serverTime) => serverTime - ahead };
  }

  async #ask(promql: string, signal: AbortSignal): Promise<MetricHttpAnswer> {
    const query = `query=${encodeURIComponent(promql)}`;
    if (this.#method === "POST") {
      const answer = await this.#http.send(
        {
          method: "POST",
          path: PATH,
          headers: { accept: "application/json", "content-type": "application/x-www-form-urlencoded" },
          body: query,
        },
        signal,
      );
      // Some proxies only let GET through; the official client then asks again like this.
      if (answer.status !== 405 && answer.status !== 501) return answer;
      this.#method = "GET";
    }
    return this.#http.send(
      { method: "GET", path: `${PATH}?${query}`, headers: { accept: "application/json" } },
      signal,
    );
  }

  close(): Promise<void> {
    return this.#http.close();
  }
}

type MetricServer = Pick<MetricHttp, "shown" | "send" | "close">;

function inPlaceOf(answer: (promql: string) => string): MetricServer {
  return {
    shown: "simulated",
    send: async ({ body = "" }) => {
      const promql = decodeURIComponent(body.slice("query=".length));
      return { status: 200, headers: {}, body: Buffer.from(answer(promql)) };
    },
    close: async () => {},
  };
}

/**
 * The most by which the server's clock can be ahead of the local clock, milliseconds; negative when it is behind. The server
 * read its clock for the evaluation and for the Date header while the question was under way. An evaluation that does not fit
 * the Date is no reading of the clock: the server answered with an old result.
 */
function clockAhead(
  evaluatedAt: number,
  startedAt: number,
  took: number,
  header: string | string[] | undefined,
): number {
  const date = typeof header === "string" ? Date.parse(header) : Number.NaN;
  // Without a Date, a slow clock looks like an old answer. The assumption that makes samples older is the safe one.
  if (Number.isNaN(date)) return Math.max(0, evaluatedAt - startedAt);
  const latest = date + DATE_RESOLUTION;
  const fits = evaluatedAt >= date - took - DATE_RESOLUTION && evaluatedAt <= latest + took;
  return (fits ? Math.min(evaluatedAt, latest) : latest) - startedAt;
}
