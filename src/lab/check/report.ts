import type { CheckReport } from "./check-server.ts";
import type { Result, Verdict } from "./verdict.ts";

/** A verdict as one line: title, observation, level with paragraph, remedy. */
export function verdictLine({ result, title, seen, level, paragraph, remedy }: Verdict): string {
  const advice = remedy === undefined ? "" : ` -> ${remedy}`;
  return `${result.padEnd(4)}  ${title}: ${seen} (${level}, ${paragraph})${advice}`;
}

/** The last line. */
export function summaryLine({ verdicts, engine, model, exitStatus }: CheckReport): string {
  const { ok, warn, FAIL, skip } = countsOf(verdicts);
  const gist = [
    "the server meets every MUST that was checked",
    "the server breaks a MUST",
    "a MUST could not be checked",
  ][exitStatus];
  const asked = model === undefined ? "" : `, model ${model}`;
  return `${ok} ok, ${warn} warn, ${FAIL} FAIL, ${skip} skip: ${gist} (metrics of ${engine}${asked})`;
}

/** The whole report as JSON. */
export function reportJson(report: CheckReport): string {
  const { origin, model, engine, exitStatus, verdicts } = report;
  return JSON.stringify(
    {
      url: origin,
      model,
      engine,
      exitStatus,
      counts: countsOf(verdicts),
      verdicts: verdicts.map(({ result, obligation, title, level, paragraph, seen, remedy }) => ({
        result,
        obligation,
        title,
        level,
        paragraph,
        seen,
        remedy,
      })),
    },
    null,
    2,
  );
}

function countsOf(verdicts: readonly Verdict[]): Record<Result, number> {
  const counts = { ok: 0, warn: 0, FAIL: 0, skip: 0 };
  for (const { result } of verdicts) counts[result]++;
  return counts;
}
