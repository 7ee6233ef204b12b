import type { Child, Family } from "./family.ts";
import type { MetricType, TwinLabel } from "./metric-spec.ts";
import type { MetricsRegistry } from "./registry.ts";

/** The Prometheus text format 0.0.4, or OpenMetrics 1.0. */
export type ExpositionFormat = "text" | "openmetrics";

/** The media type of a page in the Prometheus text format. */
export const EXPOSITION_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** The media type of each format. */
export const CONTENT_TYPES: Readonly<Record<ExpositionFormat, string>> = {
  text: EXPOSITION_CONTENT_TYPE,
  openmetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8",
};

/**
 * The page of `registry`. Its owners refresh their gauges first. A family without any series is left out; one without labels
 * always has a series. Twins follow their family. The samples have the same names and the same text in both formats: the format
 * that a scraper negotiates must not change dashboards.
 */
export function render(registry: MetricsRegistry, format: ExpositionFormat = "text"): string {
  const page = new Page(format === "openmetrics");
  for (const family of registry.refresh()) {
    const bounds = family.type === "histogram" ? family.bounds : undefined;
    writeFamily(page, family, bounds);
    for (const twin of family.twins) {
      writeTwin(page, family, bounds, twin.name, twin.help ?? family.help, twin.labels ?? family.labels);
    }
  }
  return format === "openmetrics" ? page.text + END : page.text;
}

/** The last line of a page in OpenMetrics. */
const END = "# EOF\n";

/** One page of two that have no family in common. */
export function joinPages(first: string, second: string): string {
  return second === "" ? first : (first.endsWith(END) ? first.slice(0, -END.length) : first) + second;
}

/** A number as Go prints it (`strconv`, 'g', shortest): dashboards match on the exact text of `le`. */
export function formatNumber(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (value === Number.POSITIVE_INFINITY) return "+Inf";
  if (value === Number.NEGATIVE_INFINITY) return "-Inf";
  const size = Math.abs(value);
  if (size === 0 || (size >= 1e-4 && size < 1e6)) return Object.is(value, -0) ? "-0" : String(value);
  const text = value.toExponential();
  // Go writes at least two digits of exponent.
  return text.at(-2) === "+" || text.at(-2) === "-" ? `${text.slice(0, -1)}0${text.at(-1)}` : text;
}

class Page {
  text = "";
  readonly #openMetrics: boolean;

  constructor(openMetrics: boolean) {
    this.#openMetrics = openMetrics;
  }

  head(name: string, help: string, type: MetricType): void {
    if (!this.#openMetrics) {
      this.text += `# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${type}\n`;
      return;
    }
    // OpenMetrics names a counter's family without `_total`. A counter that lacks the suffix can only be shown as unknown.
    const proper = type !== "counter" || name.endsWith("_total");
    const family = type === "counter" && proper ? name.slice(0, -"_total".length) : name;
    this.text += `# HELP ${family} ${escapeHelp(help).replaceAll('"', '\\"')}\n# TYPE ${family} ${proper ? type : "unknown"}\n`;
  }

  /** One series: `labels` is the text between the braces, "" for none. */
  series(name: string, labels: string, cells: Float64Array, at: number, bounds: Float64Array | undefined): void {
    if (bounds === undefined) {
      this.text += `${name}${labels === "" ? "" : `{${labels}}`} ${formatNumber(cells[at]!)}\n`;
      return;
    }
    const open = `${name}_bucket{${labels === "" ? "" : `${labels},`}le="`;
    const suffix = labels === "" ? " " : `{${labels}} `;
    let count = 0;
    for (let i = 0; i < bounds.length; i++) {
      count += cells[at + i]!;
      this.text += `${open}${formatNumber(bounds[i]!)}"} ${formatNumber(count)}\n`;
    }
    count += cells[at + bounds.length]!;
    this.text += `${open}+Inf"} ${formatNumber(count)}\n`;
    this.text += `${name}_sum${suffix}${formatNumber(cells[at + bounds.length + 1]!)}\n`;
    this.text += `${name}_count${suffix}${formatNumber(count)}\n`;
  }
}

function writeFamily(page: Page, family: Family<readonly string[], Child>, bounds: Float64Array | undefined): void {
  if (family.size === 0) return;
  page.head(family.name, family.help, family.type);
  for (const child of family.series()) {
    page.series(family.name, labelText(family.labels, child.labelValues), family.cells.values, child.offset, bounds);
  }
}

function writeTwin(
  page: Page,
  family: Family<readonly string[], Child>,
  bounds: Float64Array | undefined,
  name: string,
  help: string,
  labels: readonly TwinLabel[],
): void {
  const { values, stride } = family.cells;
  const names = labels.map((entry) => (typeof entry === "string" ? entry : entry.label));
  const sources = labels.map((entry) => family.labels.indexOf(typeof entry === "string" ? entry : entry.from));
  const sums = new Map<string, Float64Array>();
  if (labels.length === 0) sums.set("", new Float64Array(stride));
  for (const child of family.series()) {
    const key = labelText(
      names,
      sources.map((source) => child.labelValues[source]!),
    );
    let cells = sums.get(key);
    if (cells === undefined) {
      cells = new Float64Array(stride);
      sums.set(key, cells);
    }
    for (let i = 0; i < stride; i++) cells[i]! += values[child.offset + i]!;
  }
  if (sums.size === 0) return;
  page.head(name, help, family.type);
  for (const [key, cells] of sums) page.series(name, key, cells, 0, bounds);
}

function labelText(names: readonly string[], values: readonly string[]): string {
  let text = "";
  for (let i = 0; i < names.length; i++) {
    text += `${i === 0 ? "" : ","}${names[i]}="${escapeLabel(values[i]!)}"`;
  }
  return text;
}

function escapeHelp(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}

function escapeLabel(text: string): string {
  if (!/[\\"\n]/.test(text)) return text;
  return text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}

/** The most media ranges of an `accept` header that are read. */
const MAX_RANGES = 32;

/**
 * The format that an `accept` header asks for. Of the ranges that name one of the two formats, the first with the highest
 * weight decides. Any other request gets the text format, as from Prometheus exporters.
 */
export function negotiateFormat(accept: string | undefined): ExpositionFormat {
  let best: ExpositionFormat = "text";
  let bestWeight = 0;
  for (const range of (accept ?? "").toLowerCase().split(",", MAX_RANGES)) {
    const [type = "", ...parameters] = range.split(";").map((part) => part.trim());
    const format = formatOf(type, parameterOf(parameters, "version"));
    const q = Number.parseFloat(parameterOf(parameters, "q") ?? "1");
    const weight = Number.isNaN(q) ? 1 : q;
    if (format === undefined || weight <= bestWeight) continue;
    best = format;
    bestWeight = weight;
  }
  return best;
}

function formatOf(type: string, version: string | undefined): ExpositionFormat | undefined {
  if (type === "application/openmetrics-text")
    return version === undefined || version === "1.0.0" || version === "0.0.1" ? "openmetrics" : undefined;
  return type === "text/plain" || type === "*/*" ? "text" : undefined;
}

function parameterOf(parameters: readonly string[], name: string): string | undefined {
  return parameters.find((parameter) => parameter.startsWith(`${name}=`))?.slice(name.length + 1);
}
