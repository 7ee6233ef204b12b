import { durationText, lineRateText } from "../../async/batch/batch-progress.ts";
import { counted, grouped } from "../../base/document/words.ts";
import { oneLine } from "../../base/inference/errors.ts";
import { columns } from "../../base/process/screen.ts";
import { isRunning, type ShownBatch, type ShownBatches, type ShownGate } from "./source.ts";

/** The most problems of an input that are shown. */
const PROBLEMS = 10;

/** The table of `sluice batch ls`. @param now Unix seconds */
export function listText({ batches, hasMore, gate }: ShownBatches, now: number): string {
  const callers = batches.some(({ caller }) => caller !== undefined && caller !== "");
  const lines = gate === undefined ? [] : [gateLine(gate), ""];
  if (batches.length === 0) return `${[...lines, "there are no batches"].join("\n")}\n`;
  const head = ["ID", ...(callers ? ["CALLER"] : []), "STATUS", "DONE", "FAILED", "RATE", "ETA", "TOKENS", "AGE"];
  const rows = batches.map((batch) => [
    ...[plain(batch.id), ...(callers ? [plain(batch.caller ?? "") || "-"] : []), plain(batch.status), doneText(batch)],
    ...[grouped(batch.failed), rateText(batch), etaText(batch), grouped(batch.inputTokens + batch.outputTokens)],
    durationText(Math.max(0, now - batch.createdAt)),
  ]);
  lines.push(...columns([head, ...rows]));
  if (hasMore) lines.push("", `more batches exist than these ${batches.length}: -n shows up to 100`);
  return `${lines.join("\n")}\n`;
}

/** What `sluice batch show` says of one batch. @param now Unix seconds */
export function batchText(batch: ShownBatch, gate: ShownGate | undefined, now: number): string {
  const { id, caller, status, endpoint, expiresAt, pace, problem, problems } = batch;
  const rows: [string, string][] = [["lines", linesText(batch)]];
  if (pace !== undefined && isRunning(batch)) rows.push(["pace", paceText(batch)]);
  if (expiresAt !== undefined) rows.push(["deadline", deadlineText(batch, expiresAt, now)]);
  if (gate !== undefined && isRunning(batch)) rows.push(["gate", `${plain(gate.state)}: ${plain(gate.reason)}`]);
  if (problem !== undefined) rows.push(["held up", plain(problem)]);
  rows.push(["tokens", tokensText(batch)], ["files", filesText(batch)]);
  for (const { line, code, message } of problems.slice(0, PROBLEMS))
    rows.push([line === null ? "problem" : `line ${grouped(line)}`, `${plain(message)} (${plain(code)})`]);
  if (problems.length > PROBLEMS)
    rows.push(["", `${counted(problems.length - PROBLEMS, "further problem")}; --json shows all`]);
  const width = Math.max(...rows.map(([name]) => name.length));
  const of = caller === undefined || caller === "" ? "" : ` of ${plain(caller)}`;
  return [
    `${plain(id)}${of}: ${plain(status)}, ${plain(endpoint)}`,
    ...rows.map(([name, text]) => `  ${name.padEnd(width)}  ${text}`),
    "",
  ].join("\n");
}

/** The progress of a batch in one line, for `--follow`. */
export function progressText(batch: ShownBatch, gate: ShownGate | undefined): string {
  const { status, total, completed, failed, pace, problem } = batch;
  if (total === 0) return plain(status);
  const parts = [`${plain(status)}: ${grouped(completed + failed)}/${grouped(total)} (${percent(batch)})`];
  if (failed > 0) parts.push(counted(failed, "error"));
  if (isRunning(batch) && pace !== undefined) parts.push(paceText(batch));
  if (problem !== undefined) parts.push(plain(problem));
  else if (isRunning(batch) && gate !== undefined && gate.state !== "open" && gate.state !== "none")
    parts.push(gateLine(gate));
  return parts.join(", ");
}

/** How a batch ended, in one line. */
export function endText(batch: ShownBatch): string {
  return `${plain(batch.id)} ${plain(batch.status)}: ${linesText(batch)}; ${tokensText(batch)}`;
}

function gateLine({ state, reason }: ShownGate): string {
  return `gate ${plain(state)}: ${plain(reason)}`;
}

function linesText(batch: ShownBatch): string {
  const { total, completed, failed, pace } = batch;
  if (total === 0) return isRunning(batch) ? "not validated yet" : "none";
  const parts = [`${grouped(completed + failed)} of ${grouped(total)} answered (${percent(batch)})`];
  if (failed > 0) parts.push(counted(failed, "error"));
  if (pace !== undefined && pace.underWay > 0) parts.push(`${grouped(pace.underWay)} under way`);
  return parts.join(", ");
}

function paceText(batch: ShownBatch): string {
  const { linesPerSecond, etaSeconds, makesIt } = batch.pace!;
  const eta = etaSeconds === null ? "ETA unknown" : `ETA ${durationText(etaSeconds)}`;
  const late = makesIt === false ? ", after the deadline" : "";
  return `${lineRateText(linesPerSecond)}/s, ${eta}${late}`;
}

function deadlineText(batch: ShownBatch, expiresAt: number, now: number): string {
  const at = new Date(expiresAt * 1000).toISOString().replace(".000", "");
  if (!isRunning(batch)) return at;
  return now >= expiresAt ? `${at}, over` : `${at}, in ${durationText(expiresAt - now)}`;
}

function tokensText({ inputTokens, cachedTokens, outputTokens, reasoningTokens }: ShownBatch): string {
  const cached = cachedTokens > 0 ? ` (${grouped(cachedTokens)} cached)` : "";
  const reasoning = reasoningTokens > 0 ? ` (${grouped(reasoningTokens)} for reasoning)` : "";
  return `${counted(inputTokens, "token")} in${cached}, ${grouped(outputTokens)} out${reasoning}`;
}

function filesText({ inputFile, outputFile, errorFile }: ShownBatch): string {
  const output = outputFile === undefined ? "" : `, output ${plain(outputFile)}`;
  const errors = errorFile === undefined ? "" : `, errors ${plain(errorFile)}`;
  return `input ${plain(inputFile)}${output}${errors}`;
}

function doneText({ total, completed, failed }: ShownBatch): string {
  return total === 0 ? "-" : `${grouped(completed + failed)}/${grouped(total)}`;
}

function rateText({ pace }: ShownBatch): string {
  return pace === undefined ? "-" : `${lineRateText(pace.linesPerSecond)}/s`;
}

function etaText({ pace }: ShownBatch): string {
  const eta = pace?.etaSeconds ?? undefined;
  return eta === undefined ? "-" : `${durationText(eta)}${pace!.makesIt === false ? " late" : ""}`;
}

function percent({ total, completed, failed }: ShownBatch): string {
  return `${Math.floor((1000 * (completed + failed)) / total) / 10} %`;
}

/** A text of the server, which must not steer the terminal. */
function plain(text: string): string {
  return oneLine(text).slice(0, 300);
}
