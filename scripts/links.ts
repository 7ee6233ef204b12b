/**
 * The link check: every relative link of every Markdown file leads to a file, and its anchor to a heading. A page below docs/
 * that other files of the repository name, such as messages in src/, exists as well.
 */
import { existsSync, readFileSync, statSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { filesBelow } from "./files-below.ts";
import { slugOf, withoutBlocks, withoutSpans } from "./markdown.ts";

const root = join(import.meta.dirname, "..");
/** Files that name pages in messages and comments. */
const NAMING = [".ts", ".tpl", ".yaml", ".html", ".txt"];
const LINK =
  /\]\(\s*<?([^)\s>]+)>?(?:\s+["'][^"']*["'])?\s*\)|^\s*\[[^\]]+\]:\s+(\S+)|<(?:img|a)\s[^>]*(?:src|href)="([^"]+)"/gm;
const NAMED_PAGE = /(?<![\w/.-])docs\/[\w./-]*\.md(?:#[\w-]+)?/g;

/** One link and the line it is on. */
export interface Link {
  readonly target: string;
  readonly line: number;
}

/** The links of a Markdown text; code has none. */
export function linksOf(text: string): Link[] {
  const prose = withoutSpans(withoutBlocks(text), "");
  return [...prose.matchAll(LINK)].map((match) => ({
    target: (match[1] ?? match[2] ?? match[3])!,
    line: prose.slice(0, match.index + match[0].search(/\S/)).split("\n").length,
  }));
}

/** The anchors of a Markdown text as GitHub makes them: of headings, and those that the text sets with `<a id>`. */
export function anchorsOf(text: string): Set<string> {
  const anchors = new Set<string>();
  const prose = withoutBlocks(text);
  for (const [, title] of prose.matchAll(/^#{1,6}\s+(.+?)\s*#*$/gm)) {
    anchors.add(slugOf(title!, anchors));
  }
  for (const [, id] of prose.matchAll(/<a\s[^>]*(?:id|name)="([^"]+)"/g)) anchors.add(id!);
  return anchors;
}

/** What a link check reads: the text of a file; "" = a folder or a file without anchors; undefined = nothing is there. */
export type Lookup = (path: string) => string | undefined;

/** Why a link is dead. @param file path below the root @returns undefined = it is not dead, or leads out of the repository */
export function faultOf(file: string, target: string, lookup: Lookup): string | undefined {
  if (/^[a-z][a-z+.-]*:/i.test(target) || target.startsWith("//")) return undefined;
  const [path, anchor] = decodeURI(target).split("#") as [string, string?];
  const base = path.startsWith("/") ? "." : dirname(file);
  const place = path === "" ? file : normalize(join(base, path)).replace(/\/$/, "");
  if (place.startsWith("..")) return `${target} leads out of the repository`;
  const text = lookup(place);
  if (text === undefined) return `${target}: there is no ${place}`;
  if (anchor === undefined) return undefined;
  if (place.endsWith(".md")) return anchorsOf(text).has(anchor) ? undefined : `${place} has no heading for #${anchor}`;
  const last = /^L(\d+)(?:-L(\d+))?$/.exec(anchor);
  const lines = Number(last?.[2] ?? last?.[1] ?? Number.POSITIVE_INFINITY);
  return lines <= text.split("\n").length ? undefined : `${place} has no ${anchor}`;
}

function lookUp(path: string): string | undefined {
  const full = join(root, path);
  if (!existsSync(full)) return undefined;
  return statSync(full).isDirectory() || full.endsWith(".png") ? "" : readFileSync(full, "utf8");
}

if (import.meta.main) {
  const faults: string[] = [];
  let checked = 0;
  const check = (file: string, target: string, line: number, from = file): void => {
    checked++;
    const fault = faultOf(from, target, lookUp);
    if (fault !== undefined) faults.push(`${file}:${line}: ${fault}`);
  };
  for (const file of filesBelow(root, [".md"]))
    for (const { target, line } of linksOf(readFileSync(join(root, file), "utf8"))) check(file, target, line);
  for (const file of filesBelow(root, NAMING).filter((name) => !name.endsWith(".test.ts"))) {
    const lines = readFileSync(join(root, file), "utf8").split("\n");
    lines.forEach((text, i) => {
      for (const [page] of text.matchAll(NAMED_PAGE)) check(file, page, i + 1, ".");
    });
  }
  for (const fault of faults) console.error(fault);
  if (checked === 0) console.error("the link check found no link: it proves nothing");
  if (faults.length > 0 || checked === 0) process.exit(1);
  console.log(`links: ${checked}, none dead`);
}
