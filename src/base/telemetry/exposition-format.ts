import type { ExpositionFormat } from "./exposition.ts";

/** The most media ranges of an `accept` header that are looked at. */
const MAX_RANGES = 32;

/**
 * The format that an `accept` header asks for: the first of the ranges with the highest weight that names one of ours.
 * Whatever else is asked for is answered in the text format, as Prometheus exporters do.
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
