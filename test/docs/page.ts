import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "../support/process.ts";

/** One command of a page, and what the page shows as its output. */
export interface PageCommand {
  /** As a shell takes it; lines that end in a backslash are one. */
  readonly text: string;
  /** Line of the page, from 1. */
  readonly line: number;
  readonly shown: readonly string[];
}

/** A block of commands. */
export interface CommandBlock {
  readonly line: number;
  readonly commands: readonly PageCommand[];
  /** Why no test runs it: `<!-- not run: ... -->` above the block. */
  readonly notRun: string | undefined;
  /** What a reader is taken to have: `<!-- given: a shell command -->` above the block. */
  readonly given: readonly string[];
  /** Begins of the commands that a reader has ended by then: `<!-- ended: a command -->` above the block. */
  readonly ended: readonly string[];
}

/** Programs by which a block without `$` is known to hold commands. */
const PROGRAMS =
  /^(\.\/sluice|sluice|scripts\/bootstrap|npm|npx|node|curl|envoy|kubectl|helm|docker|git|go|while|for|cat|cd|export|pip|redis-\S+) /;
const FENCE = /^```(\w*)$/;
const COMMENT = /^<!-- (not run|given|ended): (.*) -->$/;
/** Languages in which a block may be commands. */
const SHELLS: ReadonlySet<string> = new Set(["", "sh", "bash", "console"]);

/** The command blocks of a page in order. @param page path below the root of the repository */
export function commandBlocks(page: string): CommandBlock[] {
  return blocksOf(readFileSync(join(ROOT, page), "utf8"));
}

/** The same of a text. */
export function blocksOf(text: string): CommandBlock[] {
  const lines = text.split("\n");
  const blocks: CommandBlock[] = [];
  for (let at = 0; at < lines.length; at++) {
    const language = FENCE.exec(lines[at]!)?.[1];
    if (language === undefined) continue;
    const end = lines.indexOf("```", at + 1);
    const body = lines.slice(at + 1, end);
    if (SHELLS.has(language)) {
      const commands = commandsOf(body, at + 2);
      if (commands.length > 0) blocks.push({ line: at + 1, commands, ...marksAbove(lines, at) });
    }
    at = end;
  }
  return blocks;
}

function commandsOf(body: readonly string[], firstLine: number): PageCommand[] {
  const prompted = body.some((line) => line.startsWith("$ "));
  if (!prompted && !body.some((line) => PROGRAMS.test(line))) return [];
  const commands: { text: string; line: number; shown: string[] }[] = [];
  let isOpen = false;
  body.forEach((line, i) => {
    const last = commands.at(-1);
    if (isOpen && last !== undefined) last.text += `\n${line}`;
    else if (prompted && line.startsWith("$ ")) commands.push({ text: line.slice(2), line: firstLine + i, shown: [] });
    else if (prompted) {
      if (line.trim() !== "") last?.shown.push(line);
      return;
    } else if (line.trim() !== "") commands.push({ text: line, line: firstLine + i, shown: [] });
    isOpen = line.endsWith("\\");
  });
  return commands;
}

/** The comments directly above a fence; blank lines may stand between. */
function marksAbove(lines: readonly string[], at: number): Pick<CommandBlock, "notRun" | "given" | "ended"> {
  let notRun: string | undefined;
  const given: string[] = [];
  const ended: string[] = [];
  for (let i = at - 1; i >= 0; i--) {
    const line = lines[i]!;
    if (line === "") continue;
    const [, kind, text] = COMMENT.exec(line) ?? [];
    if (kind === "not run") notRun = text;
    else if (kind === "given") given.unshift(text!);
    else if (kind === "ended") ended.unshift(text!);
    else break;
  }
  return { notRun, given, ended };
}

/** What a shown line may be: figures, ids and addresses are others each time, and `...` stands for anything. */
export function shapeOf(shown: string): RegExp {
  const pattern = shown
    .trim()
    .split(/(\.\.\.|…|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d[\d.,]*)|(\s+)/)
    .filter((part) => part !== undefined && part !== "")
    .map((part) => {
      if (part === "..." || part === "…") return ".*";
      if (/^\s+$/.test(part)) return "\\s+";
      if (/^[0-9a-f]{8}-/.test(part)) return "[0-9a-f-]{36}";
      if (/^\d/.test(part)) return "[\\d.,]+";
      return part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    })
    .join("");
  return new RegExp(pattern);
}
