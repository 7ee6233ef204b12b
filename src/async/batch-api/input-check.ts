import { isUtf8 } from "node:buffer";
import type { TextLine } from "../../base/document/line-splitter.ts";
import { IdHashes } from "./id-hashes.ts";
import { inputLines, isBlank, MAX_LINE, withoutMark } from "./input-lines.ts";
import { checkLine, type LineRules } from "./line-check.ts";
import type { BatchProblem } from "./records.ts";

/** The most problems that a batch tells. */
const MOST_PROBLEMS = 100;

export interface InputCheckOptions extends LineRules {
  readonly path: string;
  /** The most lines. */
  readonly lines: number;
  /** Where hashes of ids may go, when they are many. */
  readonly spill: string;
  readonly seeds: readonly [number, number];
  /** Awaited between two stretches of work. @throws to end the check */
  breathe(): Promise<void>;
}

/** The result of the check of an input file. */
export interface InputCheck {
  /** Lines that are not blank. */
  readonly lines: number;
  /** The first 100 in the order of the lines; none = every line can be sent. */
  readonly problems: readonly BatchProblem[];
}

/**
 * Checks every line of an input file, in one pass and in bounded memory; a second pass names the lines of duplicates where there
 * are some.
 */
export async function checkInput(options: InputCheckOptions): Promise<InputCheck> {
  const hashes = new IdHashes(options.spill, options.seeds);
  const problems: BatchProblem[] = [];
  let lines = 0;
  try {
    const whole = await eachLine(options, (line) => {
      if (++lines > options.lines) return false;
      const { customId, problem } = readLine(line, options);
      if (customId !== undefined) hashes.add(customId);
      if (problem !== undefined && problems.length < MOST_PROBLEMS) problems.push({ ...problem, line: line.number });
      return true;
    });
    if (!whole) return { lines, problems: [ofBatch("too_many_lines", `a batch has at most ${options.lines} lines`)] };
    if (lines === 0) return { lines, problems: [ofBatch("empty_file", "the input file has no line with a request")] };
    const twins = await hashes.twins(options.breathe);
    if (twins.size > 0) await findTwins(options, hashes, twins, problems);
    problems.sort((a, b) => a.line! - b.line!);
    return { lines, problems: problems.slice(0, MOST_PROBLEMS) };
  } finally {
    hashes.close();
  }
}

/** Adds a problem for each line whose custom id is on an earlier line. */
async function findTwins(
  options: InputCheckOptions,
  hashes: IdHashes,
  twins: ReadonlySet<bigint>,
  problems: BatchProblem[],
): Promise<void> {
  const first = new Map<string, number>();
  let found = 0;
  await eachLine(options, (line) => {
    const { customId } = readLine(line, options);
    if (customId === undefined || !twins.has(hashes.hashOf(customId))) return true;
    const before = first.get(customId);
    if (before === undefined) {
      first.set(customId, line.number);
      return true;
    }
    const message = `the custom_id ${JSON.stringify(customId.slice(0, 100))} is also on line ${before}`;
    problems.push({ code: "duplicate_custom_id", line: line.number, message, param: "custom_id" });
    return ++found < MOST_PROBLEMS;
  });
}

function readLine({ bytes, number }: TextLine, rules: LineRules): ReturnType<typeof checkLine> {
  if (bytes === undefined) return unreadable("line_too_long", `this line is longer than ${MAX_LINE / 1024 / 1024} MiB`);
  if (!isUtf8(bytes)) return unreadable("invalid_encoding", "this line is not UTF-8");
  const text = bytes.toString();
  return checkLine(number === 1 ? withoutMark(text) : text, rules);
}

function unreadable(code: string, message: string): ReturnType<typeof checkLine> {
  return { customId: undefined, problem: { code, message, param: null } };
}

function ofBatch(code: string, message: string): BatchProblem {
  return { code, line: null, message, param: null };
}

/** Calls `each` for each line that is not blank, until it returns false. @returns whether it never did */
async function eachLine(
  { path, breathe }: Pick<InputCheckOptions, "path" | "breathe">,
  each: (line: TextLine) => boolean,
): Promise<boolean> {
  for (const lines of inputLines(path)) {
    for (const line of lines) if (!isBlank(line) && !each(line)) return false;
    await breathe();
  }
  return true;
}
