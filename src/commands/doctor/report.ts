import { counted } from "../../base/document/words.ts";
import { oneLine } from "../../base/inference/errors.ts";
import { exitStatus, type Finding } from "./finding.ts";

const MARKS = { ok: "ok  ", warn: "warn", fail: "FAIL" } as const;

/** A line for each finding, with what to do below it, and a last line with the counts. */
export function reportText(findings: readonly Finding[]): string {
  const width = Math.max(...findings.map(({ check }) => check.length));
  const lines = findings.flatMap(({ check, level, says, todo }) => [
    `${MARKS[level]}  ${check.padEnd(width)}  ${oneLine(says)}`,
    ...(todo === undefined ? [] : [`${" ".repeat(width + 6)}  -> ${oneLine(todo)}`]),
  ]);
  const count = (level: Finding["level"]): number => findings.filter((finding) => finding.level === level).length;
  const summary = `${counted(count("fail"), "failure")}, ${counted(count("warn"), "warning")}, ${count("ok")} ok`;
  return `${[...lines, summary].join("\n")}\n`;
}

/** One JSON object: `{exitStatus, findings: [{check, level, says, todo?}]}`. */
export function reportJson(findings: readonly Finding[]): string {
  return `${JSON.stringify({ exitStatus: exitStatus(findings), findings }, null, 2)}\n`;
}
