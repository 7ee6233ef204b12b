import { columns } from "../../../base/process/screen.ts";
import { percent } from "../../../picker/decisions/explain-words.ts";
import { figureText, grouped } from "../figure-text.ts";
import { counted, wrapped } from "../words.ts";
import { bullet } from "./bullet.ts";
import type { DecidedBy, DecisionStudy, ReplayStudy } from "./replay-result.ts";

/** Endpoints that the table shows; `--json` has a thousand. */
const LISTED_ENDPOINTS = 20;
/** Data and configurations that are named. */
const LISTED = 10;

/** What recorded decisions came to with another configuration. */
export function decisionBlocks(study: ReplayStudy, decisions: DecisionStudy, width: number): (readonly string[])[] {
  const { replayed, examples, notes } = decisions;
  const blocks: (readonly string[])[] = [gathered(study, decisions).flatMap((line) => wrapped(line, width))];
  const checks = decisions.decidedBy.slice(0, LISTED).flatMap((one) => bullet(checkText(one, study), width));
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
    `${grouped(replayed)} of ${counted(records, "recorded decision")}${time}, made again with ${configuration} (${configHash}).`,
  ];
  for (const { what, count } of notReplayable) lines.push(`Left out: ${grouped(count)} that ${what}.`);
  if (repeated > 0)
    lines.push(`${counted(repeated, "record")} given more than once ${repeated === 1 ? "counts" : "count"} once.`);
  if (beyond > 0)
    lines.push(
      `${counted(beyond, "record")} beyond the ${grouped(records)} that are made again ${beyond === 1 ? "was" : "were"} not looked at.`,
    );
  return lines;
}

/** Whether the decisions of a configuration come out the same with it. */
function checkText({ configHash, decisions, configuration, same, difference }: DecidedBy, study: ReplayStudy): string {
  const by = `${counted(decisions, "decision")} of configuration ${configHash === "" ? "(unnamed)" : configHash}`;
  if (configuration === undefined)
    return `${by}: it is not at hand, so that nothing shows whether these records replay as they were. Name its file with --recorded-with.`;
  const which = configHash === study.configHash ? "the configuration that is tried" : configuration;
  if (same === decisions) return `${by} (${which}): checked, all come out as they were, bit by bit.`;
  return `${by} (${which}): ${grouped(decisions - same)} do NOT come out as they were with the very configuration that made them (${difference}): what is said of those is doubtful. Were they made by another version, or do plugins remember something?`;
}

function doubtLines({ doubtful, replayed, missing, missingHeaders }: DecisionStudy): string[] {
  if (doubtful === 0) return [];
  return [
    `DOUBTFUL: ${grouped(doubtful)} of ${counted(replayed, "comparison")}.`,
    ...missing
      .slice(0, LISTED)
      .map(
        ({ what, count }) =>
          `  ${counted(count, "record")} ${count === 1 ? "has" : "have"} nothing of ${what}, which this configuration reads: it counted as 0.`,
      ),
    ...missingHeaders
      .slice(0, LISTED)
      .map(
        ({ what, count }) =>
          `  ${counted(count, "record")} may lack the header ${what}, which this configuration reads: it counted as absent.`,
      ),
  ];
}

function changes(decisions: DecisionStudy): string[] {
  const { replayed, elsewhere, tossUps, otherProfiles, becameRouted, becameRefused } = decisions;
  const lines = [
    `${grouped(elsewhere)} of ${grouped(replayed)} (${percent(elsewhere / replayed)}) would go elsewhere.`,
  ];
  if (tossUps > 0)
    lines.push(
      `${grouped(tossUps)} of these might as well stay: both endpoints are equal to this configuration, or its picker draws lots.`,
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
