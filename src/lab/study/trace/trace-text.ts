import { counted, grouped } from "../../../base/document/words.ts";
import { percent } from "../../../picker/decisions/explain-words.ts";
import { wrapped } from "../figure-text.ts";
import { STOPPED, type TraceSummary } from "./trace-reader.ts";
import { UNUSABLE } from "./trace-row.ts";

const WIDEST = 120;
const NARROWEST = 60;

/**
 * What was read of a trace and what was not used, for a terminal.
 * @param width characters of the terminal; undefined = the output is not a terminal
 */
export function traceSummaryText(summary: TraceSummary, width: number = WIDEST): string {
  const { file, format, rows, requests, before, unusable, stopped, speed, contextLength, repeated } = summary;
  const factor = speed === 1 ? "" : `, ${speed} times as fast as recorded`;
  const lines = [
    `${file} (${format}): ${counted(rows, "row")} read, ${counted(requests, "request")} to play${factor}; a prompt with its answer has at most ${grouped(contextLength)} tokens.`,
  ];
  if (repeated !== undefined)
    lines.push(`${percent(repeated)} of the prompt tokens are in blocks that an earlier request had.`);
  if (before > 0) lines.push(`${counted(before, "row")} before the window.`);
  for (const { why, count, line } of unusable)
    lines.push(`${counted(count, "row")} not used: ${UNUSABLE[why]} (the first is line ${line}).`);
  if (stopped !== undefined) lines.push(`The command did not read all rows: ${STOPPED[stopped]}.`);
  const room = Math.min(WIDEST, Math.max(NARROWEST, width));
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the name of the file is the user's, and a terminal obeys it
  const plain = (line: string): string => line.replace(/[\u0000-\u001f\u007f-\u009f]/g, "?");
  return `${lines.flatMap((line) => wrapped(plain(line), room)).join("\n")}\n`;
}
