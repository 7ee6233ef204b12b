import { realClock } from "../../base/clock/real.ts";
import { checkServer } from "../../lab/check/check-server.ts";
import { type MetricNames, parseHeader, parseMetricsPath, parseTarget } from "../../lab/check/options.ts";
import { reportJson, summaryLine, verdictLine } from "../../lab/check/report.ts";

/** The flags of `sluice check-server`, as text. */
export interface CheckServerFlags {
  readonly url: string;
  readonly metricsPath: string;
  readonly engine: string | undefined;
  readonly metricNames: MetricNames;
  readonly model: string | undefined;
  readonly lora: string | undefined;
  /** `Name: value` each. */
  readonly headers: readonly string[];
  /** Milliseconds for each request. */
  readonly timeout: number;
  readonly skipGeneration: boolean;
  readonly json: boolean;
}

/**
 * Checks a model server and prints one verdict per line, or one JSON document.
 * @returns the exit status: 0, 1 when the server breaks a MUST, 2 when the check is not conclusive
 * @throws SluiceError FLAG_VALUE, CHECK_UNREACHABLE
 */
export async function runCheckServer(flags: CheckServerFlags): Promise<number> {
  const { json, url, headers, metricsPath, ...rest } = flags;
  const options = {
    ...rest,
    origin: parseTarget(url),
    headers: headers.map(parseHeader),
    metricsPath: parseMetricsPath(metricsPath),
  };
  const report = await checkServer(options, realClock, (verdict) => {
    if (!json) process.stdout.write(`${verdictLine(verdict)}\n`);
  });
  process.stdout.write(`${json ? reportJson(report) : summaryLine(report)}\n`);
  return report.exitStatus;
}
