/**
 * The check of citations. Comments and test titles cite clauses ("scheduling 3.4"), IDs ("A-51"), pitfalls, appendices, decisions
 * and ADRs. Each must be in docs/spec or docs/adr; docs/spec/README.md says how to cite. `--list` names the clauses and IDs
 * that no test cites.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { anchorOf, type Citation, citationsIn, LETTERS, onPage, SPEC } from "./citation-text.ts";
import { filesBelow } from "./files-below.ts";

/** Folders and files that cite, relative to the root of the repository. */
const CITING = ["src", "test", "bench", "scripts", "deploy", "examples", "docs", "README.md", "CONTRIBUTING.md"];
const TEXT = [".ts", ".js", ".md", ".yaml", ".html", ".css", ".lua", ".proto", ".sh"];
/** This check and its test: they hold citations that lead nowhere. */
const THIS = /^scripts\/citation[\w.-]*\.ts$/;
/** Files whose citations count as a test of what they cite. */
const IS_TEST = /\.(test|cases)\.ts$|^test\/|^bench\//;

/** What pages of docs/spec define. */
export interface Definitions {
  /** Clauses and IDs, each with the clauses that its row names. */
  readonly anchors: ReadonlyMap<string, readonly string[]>;
  /** Items of numbered lists, `1-4-7` for `1.4(7)`. */
  readonly items: ReadonlySet<string>;
  readonly problems: readonly string[];
}

/**
 * What a page defines: headings `## <a id="3-4"></a>3.4 Title` and rows `| <a id="s-50"></a>S-50 | Test | 3.10 |`, whose last cell
 * names the clauses that the test is about. A heading of the page `decisions` is a title without a number.
 * @param page name of the page, without `.md`
 */
export function definitionsIn(page: string, text: string): Definitions {
  const anchors = new Map<string, readonly string[]>();
  const items = new Set<string>();
  const problems: string[] = [];
  let clause: string | undefined;
  let itemsOfClause = 0;
  for (const line of text.split("\n")) {
    const groups = /^(?<kind>#+|\|) <a id="(?<anchor>[^"]*)"><\/a>(?<rest>.*)$/.exec(line)?.groups;
    if (groups !== undefined) {
      const { kind, anchor, rest } = groups as { kind: string; anchor: string; rest: string };
      const cells = rest.split("|").map((cell) => cell.trim());
      const title = page === "decisions" ? rest : /^(?:Appendix )?\S+/.exec(rest)![0];
      const name = kind === "|" ? cells[0]! : title;
      const key = onPage(page, name);
      if (anchor !== anchorOf(name)) problems.push(`${SPEC}${page}.md: the id of ${name} is "${anchorOf(name)}"`);
      if (anchors.has(key)) problems.push(`${SPEC}${page}.md: ${name} is there twice`);
      if (/^[A-Z]-\d/.test(name) && LETTERS[name[0]!] !== page)
        problems.push(`${SPEC}${page}.md: ${name} belongs to the page ${LETTERS[name[0]!] ?? "of another letter"}`);
      const leads = kind === "|" ? cells.at(-2)!.match(/\d+[AB]?(?:\.\d+)*/g) : null;
      anchors.set(key, leads?.map((lead) => onPage(page, lead)) ?? []);
      if (kind !== "|") [clause, itemsOfClause] = [key, 0];
    } else if (clause !== undefined && line.startsWith(`${itemsOfClause + 1}. `))
      items.add(`${clause}-${++itemsOfClause}`);
  }
  for (const [anchor, leads] of anchors)
    for (const lead of leads) if (!anchors.has(lead)) problems.push(`${anchor} names ${lead}, which is not there`);
  return { anchors, items, problems };
}

/** What several pages define together. */
function merged(pages: readonly Definitions[]): Definitions {
  return {
    anchors: new Map(pages.flatMap(({ anchors }) => [...anchors])),
    items: new Set(pages.flatMap(({ items }) => [...items])),
    problems: pages.flatMap(({ problems }) => problems),
  };
}

/** The citations that lead nowhere, each a sentence. @param files paths of pages and ADRs, such as `docs/adr/0004-prefix-hash.md` */
export function deadCitations(
  citations: readonly Citation[],
  { anchors, items }: Definitions,
  files: readonly string[],
): string[] {
  const has = (target: string): boolean =>
    anchors.has(target) || items.has(target) || files.some((file) => file === target || file.startsWith(`${target}-`));
  return citations.flatMap(({ file, line, text, target }) => {
    if (target === undefined) return [`${file}:${line}: "${text}" names no page; docs/spec/README.md says how to cite`];
    return has(target) ? [] : [`${file}:${line}: "${text}" is not there: ${target}`];
  });
}

/**
 * The clauses and IDs without a test. A test is about what it cites, about the clauses that the row of a cited ID names, and about
 * the chapters that these are in.
 */
export function untested(citations: readonly Citation[], { anchors }: Definitions): string[] {
  const tested = new Set<string>();
  for (const { file, target } of citations) {
    if (target === undefined || !IS_TEST.test(file)) continue;
    for (const anchor of [target, ...(anchors.get(target) ?? [])]) {
      tested.add(anchor);
      for (let at = anchor.lastIndexOf("-"); at > anchor.indexOf("#"); at = anchor.lastIndexOf("-", at - 1))
        if (/#\d/.test(anchor)) tested.add(anchor.slice(0, at));
    }
  }
  // Chapters hold clauses, and decisions repeat clauses that have IDs.
  const isRule = (anchor: string): boolean => !/#\d+$|decisions\.md#/.test(anchor);
  return [...anchors.keys()].filter((anchor) => isRule(anchor) && !tested.has(anchor));
}

if (import.meta.main) {
  const root = join(import.meta.dirname, "..");
  const paths = CITING.flatMap((name) =>
    name.endsWith(".md") ? [name] : filesBelow(join(root, name), TEXT).map((file) => `${name}/${file}`),
  ).filter((file) => !THIS.test(file));
  const files = new Map(paths.map((path) => [path, readFileSync(join(root, path), "utf8")]));
  const pages = [...files].filter(([path]) => path.startsWith(SPEC));
  const definitions = merged(pages.map(([path, text]) => definitionsIn(path.slice(SPEC.length, -".md".length), text)));
  const citations = [...files].flatMap(([path, text]) => citationsIn(path, text));
  const found = [...definitions.problems, ...deadCitations(citations, definitions, paths)];
  const open = untested(citations, definitions);
  if (process.argv.includes("--list")) for (const anchor of open) console.log(`no test cites ${anchor}`);
  for (const problem of found) console.error(problem);
  const isEmpty = citations.length === 0 || definitions.anchors.size === 0;
  if (isEmpty) console.error("the check of citations found nothing: it proves nothing");
  console.log(`citations: ${citations.length} of ${definitions.anchors.size} clauses and IDs, ${found.length} faults`);
  console.log(`${open.length} clauses and IDs have no test; node scripts/citations.ts --list names them`);
  if (found.length > 0 || isEmpty) process.exitCode = 1;
}
