import { counted } from "../../base/document/words.ts";
import { columns } from "../../base/process/screen.ts";
import type { ExplainedCandidate, Explanation } from "../../picker/decisions/explain.ts";
import { digitsApart, percent, points, span, weightText } from "../../picker/decisions/explain-words.ts";

/** The most characters in a line of words. Tables may be wider, because names stay whole. */
const WIDTH = 80;

/**
 * A decision for a terminal: the sentence, the candidates with the part of each scorer, their load, and the excluded endpoints.
 * @param strong marks the most important text; plain text without it
 */
export function explanationText(given: Explanation, strong: (text: string) => string = (text) => text): string {
  const explained = printable(given);
  const { sentence, refusal, candidates, notes } = explained;
  const blocks = [wrapped(sentence).map((line) => strong(line)), facts(explained)];
  if (refusal !== null) blocks.push(wrapped(`The client received: ${refusal.detail} (${refusal.reason})`));
  if (candidates.length > 0) blocks.push(scoreTable(explained, strong), loadTable(candidates, strong));
  if (explained.filters.length > 0)
    blocks.push([
      `filtered out, of ${counted(explained.candidateCount, "candidate")}:`,
      ...explained.filters.flatMap(({ text }) => wrapped(text, "  ")),
    ]);
  if (explained.others.length > 0)
    blocks.push(columns(explained.others.map(({ profile, id }) => [`profile ${profile}`, id])));
  if (notes.length > 0) blocks.push(notes.flatMap((note) => wrapped(note)));
  return `${blocks.map((lines) => lines.join("\n")).join("\n\n")}\n`;
}

/** Removes control characters: clients choose ids and model names, and a terminal executes control characters. */
function printable(explained: Explanation): Explanation {
  return JSON.parse(JSON.stringify(explained), (_key, value: unknown) =>
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it replaces
    typeof value === "string" ? value.replace(/[\u0000-\u001f\u007f-\u009f]/g, "?") : value,
  ) as Explanation;
}

function facts(explained: Explanation): string[] {
  const { sequence, at, model, targetModel, priority, profile, picker, tied, configHash } = explained;
  const parts = [
    ...[`decision ${sequence}`, at, `priority ${priority}`],
    `model ${model === targetModel ? model : `${model}, served by ${targetModel}`}`,
    ...(profile === "" ? [] : [`profile ${profile}`]),
    ...(picker === "" ? [] : [`picker ${picker}`]),
    ...(tied > 1 ? [`tied ${tied}`] : []),
    ...(configHash === "" ? [] : [`configuration ${configHash}`]),
    ...(explained.full ? ["full record: add --full"] : []),
  ];
  return joinedWithin(parts, "   ");
}

/** Candidates in order; each scorer is a letter with its weight, each cell a score from 0 to 1. */
function scoreTable({ candidates }: Explanation, strong: (text: string) => string): string[] {
  const scorers = candidates[0]!.scores;
  const [first, second] = candidates;
  const digits = second === undefined || first!.total === second.total ? 2 : digitsApart(first!.total, second.total);
  const rows = columns([
    ["   candidate", "total", ...scorers.map(({ weight }, at) => `${letter(at)} x ${weightText(weight)}`)],
    ...candidates.map(({ place, id, total, scores }) => [
      `${place}  ${id}`,
      points(total, digits),
      ...scores.map(({ score }) => points(score)),
    ]),
  ]);
  const legend = scorers.map(({ scorer }, at) => `${letter(at)} ${scorer}`);
  return [...withPick(rows, strong), ...(legend.length === 0 ? [] : joinedWithin(legend, "   "))];
}

/** The load of each candidate at the time of the decision, and the age of its metrics. */
function loadTable(candidates: readonly ExplainedCandidate[], strong: (text: string) => string): string[] {
  const shares = candidates.some(({ peers }) => peers !== undefined);
  const rows = columns([
    [
      ...["   address", "state", "waiting", "running", "KV", "in flight"],
      ...(shares ? ["of peers", "said before"] : []),
      "metrics age",
    ],
    ...candidates.map(({ place, hostPort, state, waiting, running, kvUsage, inFlight, peers, ageMs, stale }) => [
      ...[`${place}  ${hostPort}`, state, whole(waiting), whole(running)],
      kvUsage === null ? "?" : percent(kvUsage),
      String(inFlight),
      ...(shares ? ofPeers(peers) : []),
      `${stale ? "* " : ""}${ageMs === null ? "never read" : span(ageMs)}`,
    ]),
  ]);
  const footnote = candidates.some(({ stale }) => stale)
    ? wrapped("* stale: Sluice uses the worst known waiting, running and KV of the candidates")
    : [];
  return [...withPick(rows, strong), ...footnote];
}

/** The requests of peers, with those that they have probably sent since they said so; and how long ago that is. */
function ofPeers(peers: ExplainedCandidate["peers"]): [string, string] {
  if (peers === undefined) return ["0", "-"];
  const { inFlight, ageMs, unseen } = peers;
  const more = unseen < 0.05 ? "" : ` +${unseen.toFixed(1)}`;
  return [`${inFlight}${more}`, inFlight === 0 ? "-" : span(ageMs)];
}

function withPick([head, pick, ...others]: readonly string[], strong: (text: string) => string): string[] {
  return [head!, strong(pick!), ...others];
}

function whole(value: number | null): string {
  return value === null ? "?" : String(Math.round(value));
}

function letter(at: number): string {
  return at < 26 ? String.fromCharCode(65 + at) : `S${at + 1}`;
}

/** Words in lines of at most `WIDTH` characters; a longer word has its own line. */
function wrapped(text: string, indent = ""): string[] {
  return joinedWithin(text.split(" "), " ").map((line) => indent + line);
}

function joinedWithin(parts: readonly string[], between: string): string[] {
  const lines: string[] = [];
  for (const part of parts) {
    const longer = lines.length === 0 ? part : `${lines.at(-1)}${between}${part}`;
    if (lines.length > 0 && longer.length <= WIDTH - 2) lines[lines.length - 1] = longer;
    else lines.push(part);
  }
  return lines;
}
