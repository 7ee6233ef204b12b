/**
 * The check of citations: comments and test titles cite clauses ("scheduling 3.4"), test IDs ("A-51"), pitfalls, appendices,
 * decisions and ADRs; each must be in docs/spec or docs/adr. `--list` names the clauses and IDs that no test cites.
 * docs/spec/README.md says how citations are written.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, sep } from "node:path";

/** The pages that are cited by clause number. */
const PAGES = ["async-processor", "scheduling", "epp-protocol", "envoy-data-plane", "api-resources"] as const;

/** The page of each letter that test IDs begin with. */
const LETTERS: Readonly<Record<string, (typeof PAGES)[number]>> = {
  A: "async-processor",
  B: "async-processor",
  G: "async-processor",
  H: "async-processor",
  P: "async-processor",
  S: "scheduling",
  C: "epp-protocol",
  E: "epp-protocol",
  D: "envoy-data-plane",
  V: "envoy-data-plane",
  W: "envoy-data-plane",
  R: "api-resources",
  X: "api-resources",
};

/** Folders and files whose text may cite, relative to the root of the repository. */
const CITING = ["src", "test", "bench", "scripts", "deploy", "examples", "docs", "README.md", "CONTRIBUTING.md"];
const TEXT = /\.(ts|js|md|yaml|html|css|lua|proto|sh)$/;
/** Whose citations count as a test of what they cite. */
const IS_TEST = /\.(test|cases)\.ts$|^test\/|^bench\//;

/** A space, or the end of one comment line and the beginning of the next. */
const SPACE = String.raw`(?:[ \t]+|[ \t]*\n[ \t]*(?:\*(?!/)|//|--|#)?[ \t]*)`;
/** `2.7`, `6A.7`, `1.4(7)`, `appendix B`. */
const ITEM = String.raw`(?:\d+[A-B]?(?:\.\d+)*(?:\(\d+\))?(?![\w%]|\.\d)|[Aa]ppendix${SPACE}[A-D]\b)`;
/** A page, then items: a list of them, or ranges such as `8.3-8.6`. */
const CLAUSES = new RegExp(
  String.raw`\b(?<page>${PAGES.join("|")}),?${SPACE}(?<items>${ITEM}(?:(?:,|;|${SPACE}(?:and|to))?${SPACE}${ITEM}|-${ITEM})*)`,
  "g",
);
/** `A-51`; not the curve P-256, not a name such as `X-0`. */
const ID = /(?<![\w-])(?<letter>[A-Z])-(?<number>0[1-9]|[1-9]\d{0,2})(?![\w-])/g;
const PITFALL = /\bpitfalls? (?<numbers>\d+(?:(?:, | and )\d+)*)/g;
/** An appendix without the name of its page; those of an RFC are not ours. */
const BARE_APPENDIX = new RegExp(
  String.raw`(?<!(?:${PAGES.join("|")}|RFC \d+|\d|and|to),?${SPACE})\b[Aa]ppendix [A-D]\b`,
  "g",
);
const ADR = /(?:\bADR |docs\/adr\/)(?<numbers>\d{1,4}(?:-[\w-]+\.md)?(?: and \d{4}| and \d{2}\b)*)/g;
const LINK = /docs\/spec\/(?<page>[\w-]+)\.md(?:#(?<anchor>[\w-]+))?/g;
/** How documents were cited that are not in this repository. */
const FOREIGN = /(?<![\w/])spec\/[\w-]+\.md|\bseed 0\d\d\b|(?<!envoy-)\bdata-plane,? \d/g;

/** A place that cites, and the anchor or file it means: `docs/spec/scheduling.md#3-4`. */
export interface Citation {
  readonly file: string;
  readonly line: number;
  /** As it is written. */
  readonly text: string;
  /** Undefined where no page can be told from the text. */
  readonly target: string | undefined;
}

/** What docs/spec has: anchors such as `docs/spec/scheduling.md#3-4`, each with the anchors that its text leads on to. */
export interface Definitions {
  readonly anchors: ReadonlyMap<string, readonly string[]>;
  readonly problems: readonly string[];
}

const anchorOf = (name: string): string =>
  name
    .toLowerCase()
    .replace(/\s+/g, "-")
    .replaceAll(/[.(]/g, "-")
    .replaceAll(/[^\w-]/g, "");
const onPage = (page: string, name: string): string => `docs/spec/${page}.md#${anchorOf(name)}`;

/** Every citation in a text. @param file path in the repository, with forward slashes */
export function citationsIn(file: string, text: string): Citation[] {
  const found: Citation[] = [];
  const starts = lineStarts(text);
  const add = (index: number, written: string, target: string | undefined): void => {
    found.push({ file, line: lineAt(starts, index), text: written.replace(/\s+/g, " "), target });
  };
  for (const { index, groups } of text.matchAll(CLAUSES)) {
    const page = groups!["page"]!;
    for (const name of clausesIn(groups!["items"]!)) add(index, `${page} ${name}`, onPage(page, name));
  }
  for (const { index, groups, 0: id } of text.matchAll(ID)) {
    const page = LETTERS[groups!["letter"]!];
    if (page !== undefined && id !== "P-256") add(index, id, onPage(page, id));
  }
  for (const { index, groups } of text.matchAll(PITFALL))
    for (const number of groups!["numbers"]!.match(/\d+/g)!)
      add(index, `pitfall ${number}`, onPage("epp-protocol", `pitfall ${number}`));
  for (const { index, 0: written } of text.matchAll(BARE_APPENDIX)) add(index, written, undefined);
  for (const { index, groups } of text.matchAll(ADR))
    for (const name of groups!["numbers"]!.split(" and "))
      add(index, `ADR ${name}`, `docs/adr/${name.includes("-") ? name : name.padStart(4, "0")}`);
  for (const { index, groups, 0: written } of text.matchAll(LINK))
    add(index, written, `docs/spec/${groups!["page"]}.md${groups!["anchor"] ? `#${groups!["anchor"]}` : ""}`);
  for (const { index, 0: written } of text.matchAll(FOREIGN)) add(index, written, undefined);
  return found;
}

/** The single clauses of a list: `8.3-8.5, appendix C` is 8.3, 8.4, 8.5 and appendix C. */
function clausesIn(items: string): string[] {
  const names: string[] = [];
  const pattern = new RegExp(String.raw`(?<range>-|to${SPACE})?(?<item>${ITEM})`, "g");
  for (const { groups } of items.matchAll(pattern)) {
    const item = groups!["item"]!.replace(new RegExp(SPACE), " ");
    if (groups!["range"] !== undefined) names.push(...between(names.at(-1)!, item));
    names.push(item);
  }
  return names;
}

/** The clauses between two of one parent: 8.3 and 8.6 have 8.4 and 8.5 between them. */
function between(first: string, last: string): string[] {
  const parent = first.slice(0, first.lastIndexOf(".") + 1);
  if (!last.startsWith(parent)) return [];
  const [from, to] = [Number(first.slice(parent.length)), Number(last.slice(parent.length))];
  return Array.from({ length: Math.max(0, to - from - 1) }, (_, i) => `${parent}${from + 1 + i}`);
}

function lineStarts(text: string): number[] {
  return [0, ...[...text.matchAll(/\n/g)].map(({ index }) => index + 1)];
}

function lineAt(starts: readonly number[], index: number): number {
  return starts.findLastIndex((start) => start <= index) + 1;
}

/**
 * The anchors of a page: headings `## <a id="3-4"></a>3.4 ...` and rows `| <a id="s-50"></a>S-50 | ... | 3.10 |`, whose last
 * cell names the clauses that the test is about. Numbered items of a clause are anchors of the kind `1-4-7`.
 * @param page name without `.md`
 */
export function definitionsIn(page: string, text: string): Definitions {
  const anchors = new Map<string, readonly string[]>();
  const problems: string[] = [];
  const define = (anchor: string, name: string, leads: readonly string[]): void => {
    const key = `docs/spec/${page}.md#${anchor}`;
    if (anchor !== anchorOf(name)) problems.push(`${key}: the anchor of ${name} is ${anchorOf(name)}`);
    if (anchors.has(key)) problems.push(`${key} is there twice`);
    if (/^[A-Z]-\d/.test(name) && LETTERS[name[0]!] !== page) problems.push(`${key}: ${name} belongs to another page`);
    anchors.set(key, leads);
  };
  let clause: string | undefined;
  for (const line of text.split("\n")) {
    const heading = /^#+ (?:<a id="(?<anchor>[^"]+)"><\/a>)?(?<name>(?:Appendix [A-D]|\S+))/.exec(line)?.groups;
    const row = /^\|[ ]<a id="(?<anchor>[^"]+)"><\/a>(?<name>[^|]+?) \|(?<rest>.*)\|$/.exec(line)?.groups;
    const item = /^(?<number>\d+)\. /.exec(line)?.groups?.["number"];
    if (heading !== undefined) clause = undefined;
    if (heading?.["anchor"] !== undefined) {
      const decision = page === "decisions" ? heading["anchor"] : heading["name"]!;
      clause = heading["anchor"];
      define(heading["anchor"], decision, []);
    } else if (row !== undefined) {
      const leads = /^[\d.A-B, ]+$/.exec(row["rest"]!.split("|").at(-1)!.trim())?.[0] ?? "";
      define(
        row["anchor"]!,
        row["name"]!,
        leads
          .split(",")
          .filter(Boolean)
          .map((name) => onPage(page, name.trim())),
      );
    } else if (item !== undefined && clause !== undefined) anchors.set(`docs/spec/${page}.md#${clause}-${item}`, []);
  }
  for (const [anchor, leads] of anchors)
    for (const lead of leads) if (!anchors.has(lead)) problems.push(`${anchor} leads to ${lead}, which is not there`);
  return { anchors, problems };
}

/** The citations that lead nowhere, each a sentence. @param has whether an anchor, a page or an ADR is there */
export function deadCitations(citations: readonly Citation[], has: (target: string) => boolean): string[] {
  return citations
    .filter(({ target }) => target === undefined || !has(target))
    .map(({ file, line, text, target }) =>
      target === undefined
        ? `${file}:${line}: "${text}" names no page of docs/spec; docs/spec/README.md says how to cite`
        : `${file}:${line}: "${text}" is not there (${target})`,
    );
}

/** The clauses and IDs that no test cites, neither directly nor by an ID whose row leads to them. */
export function untested(citations: readonly Citation[], { anchors }: Definitions): string[] {
  const tested = new Set(citations.filter(({ file }) => IS_TEST.test(file)).map(({ target }) => target));
  for (const [anchor, leads] of anchors) if (tested.has(anchor)) for (const lead of leads) tested.add(lead);
  const isItem = (anchor: string): boolean => /#\d.*-\d+$/.test(anchor) && !cited.has(anchor);
  const cited = new Set(citations.map(({ target }) => target));
  return [...anchors.keys()].filter((anchor) => !tested.has(anchor) && !isItem(anchor));
}

function filesBelow(root: string, names: readonly string[]): Map<string, string> {
  const files = names.flatMap((name) => {
    if (TEXT.test(name)) return [name];
    const below = existsSync(join(root, name)) ? readdirSync(join(root, name), { recursive: true, encoding: "utf8" }) : [];
    return below.map((file) => `${name}/${file.split(sep).join("/")}`).filter((file) => TEXT.test(file));
  });
  return new Map(files.map((file) => [file, readFileSync(join(root, file), "utf8")]));
}

if (import.meta.main) {
  const root = join(import.meta.dirname, "..");
  // The test of this check plants citations that lead nowhere.
  const files = [...filesBelow(root, CITING)].filter(([file]) => file !== "scripts/citations.test.ts" && file !== "scripts/citations.ts");
  const citations = files.flatMap(([file, text]) => (file.startsWith("docs/spec/") ? [] : citationsIn(file, text)));
  const anchors = new Map<string, readonly string[]>();
  const problems: string[] = [];
  const pages = new Set<string>();
  for (const [file, text] of files) {
    if (!file.startsWith("docs/spec/")) continue;
    pages.add(file);
    const page = definitionsIn(file.slice("docs/spec/".length, -".md".length), text);
    for (const [anchor, leads] of page.anchors) anchors.set(anchor, leads);
    problems.push(...page.problems);
  }
  const adrs = readdirSync(join(root, "docs/adr"));
  const has = (target: string): boolean =>
    target.startsWith("docs/adr/")
      ? adrs.some((name) => `docs/adr/${name}`.startsWith(target) && /^[\d]{4}(-|$)/.test(target.slice(9)))
      : anchors.has(target) || pages.has(target);
  problems.push(...deadCitations(citations, has));
  for (const problem of problems) console.error(problem);
  const left = untested(citations, { anchors, problems: [] });
  const cited = new Set(citations.map(({ target }) => target));
  const unused = [...anchors.keys()].filter((anchor) => !cited.has(anchor));
  if (process.argv.includes("--targets")) for (const t of [...cited].sort()) console.log(t);
  if (process.argv.includes("--list")) for (const anchor of left) console.log(`no test cites ${anchor}`);
  if (citations.length === 0 || anchors.size === 0) console.error("the check of citations found nothing: it proves nothing");
  console.log(`citations: ${citations.length} of ${cited.size} clauses, IDs, decisions and ADRs, ${problems.length} dead`);
  console.log(`${left.length} clauses and IDs without a test (node scripts/citations.ts --list names them) ${unused.length}`);
  if (problems.length > 0 || citations.length === 0 || anchors.size === 0) process.exitCode = 1;
}
