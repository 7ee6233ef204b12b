import { formatSpecification, parseSpecification } from "../../pool/endpoints/dialects/specification.ts";
import type { MetricsPage, Series } from "./metrics-page.ts";
import type { ObligationName } from "./obligations.ts";
import { Finding, type Verdict } from "./verdict.ts";

/** Where to find a load metric. */
interface Wanted {
  readonly obligation: ObligationName;
  /** Metric specifications in order of preference; empty where the engine has none. */
  readonly specifications: readonly (string | undefined)[];
  /** The option that names another one. */
  readonly option: string;
  /** Says what is wrong with one value. */
  readonly check: (finding: Finding, name: string, value: number) => void;
}

/** A number of requests: a gauge of whole numbers from 0 up. @param pages one per reading, at least one */
export function checkCount(
  obligation: "queued" | "running",
  pages: readonly MetricsPage[],
  specification: string | undefined,
  option: string,
): Verdict {
  return checkGauge(pages, { obligation, specifications: [specification], option, check: count });
}

/** KV-cache utilisation: a gauge from 0 to 1. @param former an older name that is as good */
export function checkKvUsage(
  pages: readonly MetricsPage[],
  specification: string | undefined,
  former: string | undefined,
  option: string,
): Verdict {
  return checkGauge(pages, { obligation: "kvUsage", specifications: [specification, former], option, check: fraction });
}

function checkGauge(pages: readonly MetricsPage[], wanted: Wanted): Verdict {
  const finding = new Finding(wanted.obligation);
  const specifications = wanted.specifications.flatMap((text) => {
    const specification = text === undefined ? undefined : parseSpecification(text);
    return specification === undefined ? [] : [specification];
  });
  if (specifications.length === 0) {
    finding.broken("the engine has no such metric", `expose one and name it with ${wanted.option}`);
    return finding.verdict("");
  }
  let last = "";
  for (const page of pages) {
    const series = specifications.map((one) => page.find(one)).find((one) => one !== undefined);
    if (series === undefined) {
      const names = specifications.map(formatSpecification).join(" nor ");
      finding.broken(`${names} is not on the page`, `expose it, or name yours with ${wanted.option}`);
      continue;
    }
    const name = formatSpecification(series.specification);
    checkType(finding, series);
    for (const { value } of series.samples) wanted.check(finding, name, value);
    if (series.samples.length + series.more > 1)
      finding.doubtful(
        `${name} has ${series.samples.length + series.more} series`,
        "expose one per port: pickers read the first one",
      );
    last = `${name} is a gauge, now ${series.samples[0]!.value}`;
  }
  return finding.verdict(last);
}

/** Whether a series is declared as what the protocol demands of all its metrics. */
export function checkType(finding: Finding, { specification, type }: Series): void {
  const { name } = specification;
  if (type === "gauge") return;
  finding.broken(
    type === "untyped" ? `${name} has no type` : `${name} is a ${type}`,
    `make it a gauge and write \`# TYPE ${name} gauge\` before it: pickers read other types as 0 or not at all`,
  );
}

function count(finding: Finding, name: string, value: number): void {
  if (Number.isNaN(value) || !Number.isFinite(value))
    finding.broken(`${name} is ${value}`, "report a number at all times, 0 when there is nothing");
  else if (value < 0) finding.broken(`${name} is ${value}, below 0`, "report how many requests there are now");
  else if (!Number.isInteger(value))
    finding.broken(`${name} is ${value}, no whole number`, "report how many requests there are now, not a mean");
}

function fraction(finding: Finding, name: string, value: number): void {
  if (value >= 0 && value <= 1) return;
  if (value > 1 && value <= 100)
    finding.broken(`${name} is ${value}, so it runs from 0 to 100`, "divide it by 100: the range is 0 to 1");
  else finding.broken(`${name} is ${value}`, "report the share of KV blocks in use, from 0 to 1");
}
