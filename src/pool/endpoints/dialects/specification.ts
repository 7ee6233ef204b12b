import { SluiceError } from "../../../base/inference/errors.ts";

/** A metric and the labels that choose among its samples (scheduling 1.4). */
export interface MetricSpecification {
  readonly name: string;
  /** A sample must carry all of them with exactly these values; it may carry more. */
  readonly labels: readonly MetricLabel[];
}

export interface MetricLabel {
  readonly name: string;
  readonly value: string;
}

const SPECIFICATION = /^\s*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?:\{(.*)\}\s*)?$/s;
/** One pair with the character that ends it. A value that contains a comma, an equals sign or a brace needs quotes. */
const PAIR = /\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^",={}]*))\s*(?:,|$)/sy;

/**
 * Reads `NAME` or `NAME{label=value,...}`. Values may be in double quotes, with the escapes of the Prometheus text format.
 * Blanks around tokens mean nothing.
 * @returns undefined for an empty text: the value is not collected
 * @throws SluiceError METRIC_SPECIFICATION
 */
export function parseSpecification(text: string): MetricSpecification | undefined {
  if (text.trim() === "") return undefined;
  const match = SPECIFICATION.exec(text);
  if (match === null) throw invalid(`${shown(text)} is not a valid metric specification`);
  return { name: match[1]!, labels: readLabels(match[2] ?? "", text) };
}

/** The specification in the form of a sample on a page. */
export function formatSpecification({ name, labels }: MetricSpecification): string {
  if (labels.length === 0) return name;
  return `${name}{${labels.map((label) => `${label.name}="${escaped(label.value)}"`).join()}}`;
}

function readLabels(inside: string, text: string): MetricLabel[] {
  const labels: MetricLabel[] = [];
  let at = inside.trim() === "" ? inside.length : 0;
  let comma = false;
  while (at < inside.length || comma) {
    PAIR.lastIndex = at;
    const pair = PAIR.exec(inside);
    // A label given twice is a mistake: no sample carries two values of it.
    if (pair === null || labels.some(({ name }) => name === pair[1])) {
      const wrong = inside.slice(at).split(",", 1)[0]!.trim();
      throw invalid(`invalid label pair ${shown(wrong)} in specification ${shown(text)}`);
    }
    labels.push({ name: pair[1]!, value: pair[2] === undefined ? pair[3]!.trim() : unescaped(pair[2]) });
    at = PAIR.lastIndex;
    comma = pair[0].endsWith(",");
  }
  return labels;
}

function escaped(value: string): string {
  return value.replace(/[\\"]/g, "\\$&").replaceAll("\n", "\\n");
}

function unescaped(quoted: string): string {
  return quoted.replace(/\\([\\"n])/g, (_, escaped: string) => (escaped === "n" ? "\n" : escaped));
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, 200));
}

function invalid(problem: string): SluiceError {
  return new SluiceError("METRIC_SPECIFICATION", `${problem}; write NAME or NAME{label=value,...}`);
}
