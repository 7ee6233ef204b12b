import { columns } from "../../../base/process/screen.ts";
import { figureText, grouped, NONE } from "../figure-text.ts";
import { nameText } from "../study-table.ts";
import { studyText } from "../study-text.ts";
import { counted, wrapped } from "../words.ts";
import { bullet } from "./bullet.ts";
import { decisionBlocks } from "./decision-text.ts";
import type { Counted, LogSummary, ReplayStudy, TrafficStudy } from "./replay-result.ts";

const WIDEST = 120;
const NARROWEST = 60;
/** Models, upstreams and reasons that are listed. */
const LISTED = 8;

/**
 * What a replay came to, for a terminal. No colours, and no control characters of what was recorded.
 * @param options.width characters of the terminal; undefined = it is none
 */
export function replayStudyText(study: ReplayStudy, options: { readonly width?: number | undefined } = {}): string {
  const width = Math.min(WIDEST, Math.max(NARROWEST, options.width ?? WIDEST));
  const { decisions, traffic, notPlayed } = study;
  const blocks: (readonly string[])[] = [
    readText(study).flatMap((line) => wrapped(line, width)),
    ...(decisions === undefined ? [] : decisionBlocks(study, decisions, width)),
  ];
  if (notPlayed.length > 0)
    blocks.push(wrapped(`Of the access log nothing can be played: ${listText(notPlayed, LISTED)}.`, width));
  if (traffic !== undefined) blocks.push(...logBlocks(traffic.log, width), trafficLines(traffic, width));
  const text = blocks.map((lines) => lines.join("\n")).join("\n\n");
  // biome-ignore lint/suspicious/noControlCharactersInRegex: ids are the clients', and a terminal obeys what it is shown
  return `${text.replace(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/g, "?")}\n`;
}

function readText({ files, broken }: ReplayStudy): string[] {
  const items = files.reduce((sum, file) => sum + file.items, 0);
  const names = files.length === 1 ? files[0]!.name : counted(files.length, "file");
  const lines = [`Read ${counted(items, "entry", "entries")} of ${names}.`];
  for (const { name, bytes, cut } of files)
    if (cut)
      lines.push(
        `${name} is larger than the ${grouped(bytes / 1024 ** 3)} GiB that are read of a file; the rest was not looked at.`,
      );
  if (broken.count > 0) {
    lines.push(
      `${counted(broken.count, "entry", "entries")} cannot be read${broken.count > broken.first.length ? ", among them" : ""}:`,
    );
    const several = files.length > 1;
    for (const { file, place, problem } of broken.first)
      lines.push(`  ${several ? `${file}, ` : ""}${place}: ${problem}`);
  }
  return lines;
}

function logBlocks(log: LogSummary, width: number): (readonly string[])[] {
  const { requests, durationMs, rate, beyond, skipped, upstreams, models, sessions, recorded } = log;
  const from = log.from > 0 ? ` from ${new Date(log.from).toISOString()}` : "";
  const lines = [
    `The access log has ${counted(requests, "request")} to play, ${figureText(durationMs, "time")} of them${from}: ${rate} a second.`,
    `Prompts of ${grouped(log.promptTokens)} and answers of ${grouped(log.outputTokens)} tokens on average; ${sessions === 0 ? "no sessions" : counted(sessions, "session")}.`,
  ];
  if (models.length > 0) lines.push(`Models: ${listText(models, LISTED)}.`);
  if (upstreams.length > 0)
    lines.push(`They went to ${counted(upstreams.length, "upstream")}: ${listText(upstreams, LISTED)}.`);
  if (recorded !== undefined) {
    const { p50, p90, p99 } = recorded;
    const [a, b, c] = [p50, p90, p99].map((value) => figureText(value, "time"));
    lines.push(`Recorded from arrival to last byte: p50 ${a}, p90 ${b}, p99 ${c}.`);
  }
  if (skipped.length > 0) lines.push(`Not played: ${listText(skipped, LISTED)}.`);
  if (beyond > 0) lines.push(`Nor played: ${counted(beyond, "request")} beyond the 100,000 or the 24 hours that are.`);
  return [lines.flatMap((line) => wrapped(line, width)), log.notes.flatMap((note) => bullet(note, width))];
}

/** The study's own tables, and beside them the whole times, which are what a log records. */
function trafficLines({ log, study }: TrafficStudy, width: number): readonly string[] {
  const planned = study.policies.length * study.seeds.length;
  const lines = studyText(study, { width, planned }).trimEnd().split("\n");
  const [seed] = study.seeds;
  const rows = study.policies.flatMap(({ name }) => {
    const run = study.runs.find((one) => one.policy === name && one.seed === seed);
    if (run === undefined) return [];
    const { p50, p90, p99 } = run.e2e;
    const sent = run.servers.map((server) => server.requests).sort((a, b) => a - b);
    return [
      [nameText(name), ...[p50, p90, p99].map((value) => figureText(value, "time")), `${sent[0]} to ${sent.at(-1)}`],
    ];
  });
  const past = log.recorded;
  const recorded =
    past === undefined ? [NONE, NONE, NONE] : [past.p50, past.p90, past.p99].map((value) => figureText(value, "time"));
  const counts = log.upstreams.map(({ count }) => count);
  const spread = counts.length === 0 ? NONE : `${Math.min(...counts)} to ${Math.max(...counts)}`;
  if (rows.length === 0) return lines;
  return [
    ...[...lines, "", "From arrival to last token, simulated, and recorded as far as the log tells"],
    ...columns([["policy", "p50", "p90", "p99", "requests a server"], ...rows, ["as recorded", ...recorded, spread]]),
    "",
    ...wrapped(
      "The servers are a model of some: what tells is how the policies stand to each other. Where the row as recorded is far from all of them, another --engine or number of --servers comes closer.",
      width,
    ),
  ];
}

/** `5 x a, 3 x b and 2 more kinds`. */
function listText(list: readonly Counted[], most: number): string {
  const shown = list.slice(0, most).map(({ what, count }) => `${grouped(count)} x ${what}`);
  const more = list.length - shown.length;
  return `${shown.join(", ")}${more > 0 ? ` and ${more} more kinds` : ""}`;
}
