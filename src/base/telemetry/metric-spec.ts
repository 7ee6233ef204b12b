import { SluiceError } from "../inference/errors.ts";

export type MetricType = "counter" | "gauge" | "histogram";

/** Default for the most label sets of a family; further ones share one series. */
export const DEFAULT_MAX_SERIES = 1000;

/** The value of every label of the series that takes the overflow. */
export const OTHER = "other";

/** A label of a twin: the family's own label, or one of another name that takes its value `from` a label of the family. */
export type TwinLabel = string | { readonly label: string; readonly from: string };

/**
 * A second family shown under another (older) name with the numbers of the first one. Series whose remaining labels are
 * equal are added up, gauges included (scheduling 8.1).
 */
export interface TwinSpec {
  readonly name: string;
  /** Default: the labels of the family. */
  readonly labels?: readonly TwinLabel[];
  /** Default: the help text of the family. */
  readonly help?: string;
}

/** A metric family as its owner describes it. */
export interface MetricSpec<L extends readonly string[] = readonly string[]> {
  readonly name: string;
  readonly help: string;
  readonly labels?: L;
  /** At most this many series; further label sets share one whose label values are all `other`. Default 1,000. */
  readonly maxSeries?: number;
  readonly twins?: readonly TwinSpec[];
}

/** A histogram family: `buckets` are finite upper bounds, strictly ascending; +Inf is added. */
export interface HistogramSpec<L extends readonly string[] = readonly string[]> extends MetricSpec<L> {
  readonly buckets: readonly number[];
}

const METRIC_NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const LABEL_NAME = /^(?!__)[a-zA-Z_][a-zA-Z0-9_]*$/;

/** Throws SluiceError METRIC_SPEC unless the Prometheus text format can carry what `spec` describes. */
export function checkMetricSpec(spec: MetricSpec, type: MetricType): void {
  checkName(spec.name);
  const labels = spec.labels ?? [];
  checkLabels(spec.name, labels, type);
  const max = spec.maxSeries ?? DEFAULT_MAX_SERIES;
  if (!Number.isInteger(max) || max < 1) fail(spec.name, `maxSeries is ${max}; give an integer of at least 1`);
  for (const twin of spec.twins ?? []) {
    checkName(twin.name);
    const twinLabels = twin.labels ?? labels;
    checkLabels(
      twin.name,
      twinLabels.map((entry) => (typeof entry === "string" ? entry : entry.label)),
      type,
    );
    for (const entry of twinLabels) {
      const from = typeof entry === "string" ? entry : entry.from;
      if (!labels.includes(from)) fail(twin.name, `takes label "${from}", which "${spec.name}" does not have`);
    }
  }
}

/** Throws SluiceError METRIC_SPEC unless `buckets` are finite and strictly ascending. */
export function checkBuckets(name: string, buckets: readonly number[]): void {
  for (let i = 0; i < buckets.length; i++) {
    const bound = buckets[i]!;
    if (!Number.isFinite(bound)) fail(name, `bucket bound ${bound} is not finite (Sluice adds +Inf)`);
    if (i > 0 && bound <= buckets[i - 1]!) fail(name, `bucket bounds ${buckets[i - 1]}, ${bound} are not ascending`);
  }
}

/** Every sample name that a family of this type puts on the page. */
export function sampleNames(name: string, type: MetricType): readonly string[] {
  return type === "histogram" ? [name, `${name}_bucket`, `${name}_sum`, `${name}_count`] : [name];
}

function checkName(name: string): void {
  if (!METRIC_NAME.test(name)) fail(name, "is not a valid metric name: letters, digits, _ and :, no digit first");
}

function checkLabels(name: string, labels: readonly string[], type: MetricType): void {
  for (const label of labels) {
    if (!LABEL_NAME.test(label))
      fail(name, `label "${label}" is not legal: letters, digits and _, no digit or __ first`);
    if (label === "le" && type === "histogram") fail(name, 'label "le" is taken by the buckets of the histogram');
  }
  if (new Set(labels).size !== labels.length) fail(name, `a label is named twice: ${labels.join(", ")}`);
}

function fail(name: string, problem: string): never {
  throw new SluiceError("METRIC_SPEC", `metric "${name}": ${problem}`);
}
