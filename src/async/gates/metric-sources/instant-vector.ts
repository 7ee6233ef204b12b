import { oneLine, SluiceError } from "../../../base/inference/errors.ts";
import type { MetricSample } from "../../../base/plugin/gate.ts";

/** What an instant query of the Prometheus HTTP API v1 gave. */
export interface InstantVector {
  readonly samples: readonly MetricSample[];
  /** For which moment it was evaluated, milliseconds by the server's clock; the earliest one, undefined without samples. */
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
 * Reads the answer to an instant query. Only vectors are figures: a scalar must be made one by `vector()`.
 * @param body JSON, UTF-8
 * @throws SluiceError METRIC_SOURCE with what the server says is wrong, or what is wrong with its answer
 */
export function parseInstantVector(body: Uint8Array): InstantVector {
  let answer: unknown;
  try {
    answer = JSON.parse(new TextDecoder().decode(body));
  } catch {
    throw unreadable("the answer is not JSON");
  }
  const { status, error, data, warnings } = fields(answer);
  if (status !== "success") throw unreadable(typeof error === "string" ? oneLine(error) : "the answer is no success");
  const { resultType, result } = fields(data);
  if (resultType !== "vector")
    throw unreadable(
      `the answer is a ${typeof resultType === "string" ? oneLine(resultType) : "nothing"}, not a vector`,
    );
  if (!Array.isArray(result)) throw unreadable("the answer has no list of samples");
  let evaluatedAt: number | undefined;
  const samples = result.map((entry: unknown): MetricSample => {
    const { metric, value } = fields(entry);
    if (!Array.isArray(value)) throw unreadable("a sample is no single number, perhaps a histogram");
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
