import { counted, grouped } from "../../../base/document/words.ts";
import { columns } from "../../../base/process/screen.ts";
import { percent } from "../../../picker/decisions/explain-words.ts";
import { bullet, figureText, NO_FIGURE, wrapped } from "../figure-text.ts";
import { nameText } from "../study-table.ts";
import { studyText } from "../study-text.ts";
import type { Counted, DecidedBy, DecisionStudy, LogSummary, ReplayStudy, TrafficStudy } from "./replay-result.ts";

const WIDEST = 120;
const NARROWEST = 60;
/** The most models, upstreams and reasons in a list. */
const LISTED = 8;

/**
 * The result of a replay, for a terminal. No colours, and no control characters from the recording.
 * @param options.width characters of the terminal; undefined = the output is not a terminal
 */
export function replayStudyText(study: ReplayStudy, options: { readonly width?: number | undefined } = {}): string {
  const width = Math.min(WIDEST, Math.max(NARROWEST, options.width ?? WIDEST));
  const { decisions, traffic, notPlayed } = study;
  const blocks: (readonly string[])[] = [
    readText(study).flatMap((line) => wrapped(line, width)),
    ...(decisions === undefined ? [] : decisionBlocks(study, decisions, width)),
  ];
  if (notPlayed.length > 0)
    blocks.push(wrapped(`Nothing in the access log can be played: ${listText(notPlayed, LISTED)}.`, width));
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
        `${name} is larger than the limit of ${grouped(bytes / 1024 ** 3)} GiB; the command did not read the rest.`,
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
    lines.push(`The requests went to ${counted(upstreams.length, "upstream")}: ${listText(upstreams, LISTED)}.`);
  if (recorded !== undefined) {
    const { p50, p90, p99 } = recorded;
    const [a, b, c] = [p50, p90, p99].map((value) => figureText(value, "time"));
    lines.push(`Recorded from arrival to last byte: p50 ${a}, p90 ${b}, p99 ${c}.`);
  }
  if (skipped.length > 0) lines.push(`Not played: ${listText(skipped, LISTED)}.`);
  if (beyond > 0)
    lines.push(`Also not played: ${counted(beyond, "request")} beyond the limits of 100,000 requests and 24 hours.`);
  return [lines.flatMap((line) => wrapped(line, width)), log.notes.flatMap((note) => bullet(note, width))];
}

/** The tables of the study, and the durations of whole answers, which a log records, too. */
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
    past === undefined
      ? [NO_FIGURE, NO_FIGURE, NO_FIGURE]
      : [past.p50, past.p90, past.p99].map((value) => figureText(value, "time"));
  const counts = log.upstreams.map(({ count }) => count);
  const spread = counts.length === 0 ? NO_FIGURE : `${Math.min(...counts)} to ${Math.max(...counts)}`;
  if (rows.length === 0) return lines;
  return [
    ...[...lines, "", "Time from arrival to last token: simulated, and recorded if the log has it"],
    ...columns([["policy", "p50", "p90", "p99", "requests per server"], ...rows, ["as recorded", ...recorded, spread]]),
    "",
    ...wrapped(
      "The servers are a model: compare the policies with each other. If the row `as recorded` is far from all policies, try another --engine or number of --servers.",
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

/** The most endpoints in the table; `--json` has a thousand. */
const LISTED_ENDPOINTS = 20;
/** The most data and configurations with names. */
const NAMED = 10;

/** The results of recorded decisions with another configuration. */
export function decisionBlocks(study: ReplayStudy, decisions: DecisionStudy, width: number): (readonly string[])[] {
  const { replayed, examples, notes } = decisions;
  const blocks: (readonly string[])[] = [gathered(study, decisions).flatMap((line) => wrapped(line, width))];
  const checks = decisions.decidedBy.slice(0, NAMED).flatMap((one) => bullet(checkText(one, study), width));
  if (checks.length > 0) blocks.push(checks);
  const doubts = doubtLines(decisions).flatMap((line) => wrapped(line, width));
  if (doubts.length > 0) blocks.push(doubts);
  if (replayed === 0) return blocks;
  blocks.push(changes(decisions).flatMap((line) => wrapped(line, width)));
  if (decisions.moves.length > 0) blocks.push(moveTable(decisions));
  blocks.push(picksTable(decisions));
  if (examples.length > 0)
    blocks.push(
      ["For example"],
      ...examples.map(({ sequence, before, after }) => [
        ...wrapped(`Decision ${sequence}, then: ${before}`, width),
        ...wrapped(`Now: ${after}`, width),
      ]),
    );
  blocks.push(notes.flatMap((note) => bullet(note, width)));
  return blocks;
}

function gathered({ configuration, configHash }: ReplayStudy, decisions: DecisionStudy): string[] {
  const { records, replayed, repeated, beyond, notReplayable, from, to } = decisions;
  const time = replayed === 0 ? "" : `, made from ${new Date(from).toISOString()} to ${new Date(to).toISOString()}`;
  const lines = [
    `${grouped(replayed)} of ${counted(records, "recorded decision")}${time}, replayed with ${configuration} (${configHash}).`,
  ];
  for (const { what, count } of notReplayable) lines.push(`Left out: ${grouped(count)} that ${what}.`);
  if (repeated > 0)
    lines.push(`${counted(repeated, "record")} given more than once ${repeated === 1 ? "counts" : "count"} once.`);
  if (beyond > 0)
    lines.push(
      `${counted(beyond, "record")} beyond the limit of ${grouped(records)} ${beyond === 1 ? "was" : "were"} not replayed.`,
    );
  return lines;
}

/** Says whether the decisions of a configuration are the same in a replay with it. */
function checkText({ configHash, decisions, configuration, same, difference }: DecidedBy, study: ReplayStudy): string {
  const by = `${counted(decisions, "decision")} of configuration ${configHash === "" ? "(unnamed)" : configHash}`;
  if (configuration === undefined)
    return `${by}: the command does not have this configuration, so it cannot check these records. Name the file of the configuration with --recorded-with.`;
  const which = configHash === study.configHash ? "the configuration that is tried" : configuration;
  if (same === decisions) return `${by} (${which}): checked: all records replay as they were, bit by bit.`;
  return `${by} (${which}): ${grouped(decisions - same)} do NOT replay with the configuration that made them (${difference}): do not rely on the figures about them. Did another version of Sluice make them, or do plugins keep a state?`;
}

function doubtLines({ doubtful, replayed, missing, missingHeaders }: DecisionStudy): string[] {
  if (doubtful === 0) return [];
  return [
    `DOUBTFUL: ${grouped(doubtful)} of ${counted(replayed, "comparison")}.`,
    ...missing
      .slice(0, NAMED)
      .map(
        ({ what, count }) =>
          `  ${counted(count, "record")} ${count === 1 ? "has" : "have"} no ${what}, which this configuration reads: the value 0 was used.`,
      ),
    ...missingHeaders
      .slice(0, NAMED)
      .map(
        ({ what, count }) =>
          `  ${counted(count, "record")} may lack the header ${what}, which this configuration reads: the header was taken as absent.`,
      ),
  ];
}

function changes(decisions: DecisionStudy): string[] {
  const { replayed, elsewhere, tossUps, otherProfiles, becameRouted, becameRefused } = decisions;
  const lines = [
    `${grouped(elsewhere)} of ${grouped(replayed)} (${percent(elsewhere / replayed)}) would go to another endpoint.`,
  ];
  if (tossUps > 0)
    lines.push(
      `${grouped(tossUps)} of these may also stay: this configuration rates both endpoints equal, or its picker chooses at random.`,
    );
  if (otherProfiles > 0)
    lines.push(`${grouped(otherProfiles)} stay, but another profile (such as prefill) chooses otherwise.`);
  if (becameRefused > 0) lines.push(`${grouped(becameRefused)} that were routed would be refused.`);
  if (becameRouted > 0) lines.push(`${grouped(becameRouted)} that were refused would be routed.`);
  return lines;
}

function moveTable({ moves, otherMoves }: DecisionStudy): string[] {
  const rows = moves.map(({ from, to, count }) => [from ?? "(refused)", to ?? "(refused)", grouped(count)]);
  const width = Math.max(...rows.map(([from]) => from!.length), "from".length);
  const lines = columns(
    [["from", "to", "decisions"], ...rows].map(([from, ...rest]) => [from!.padEnd(width), ...rest]),
  );
  return otherMoves === 0 ? lines : [...lines, `and ${grouped(otherMoves)} in other ways`];
}

function picksTable({ endpoints, otherEndpoints, maxToMean }: DecisionStudy): string[] {
  const rows = endpoints
    .slice(0, LISTED_ENDPOINTS)
    .map(({ id, before, after }) => [id, grouped(before), grouped(after)]);
  const more = endpoints.length - rows.length + otherEndpoints;
  return [
    ...columns([
      ["picks", "before", "after"],
      ...rows,
      ["max/mean", figureText(maxToMean.before, "load"), figureText(maxToMean.after, "load")],
    ]),
    ...(more > 0 ? [`and ${counted(more, "further endpoint")}, which max/mean includes`] : []),
  ];
}
