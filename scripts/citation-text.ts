/** How a text cites: clauses, IDs, pitfalls, appendices, decisions and ADRs. docs/spec/README.md says it for people. */

/** Where the pages of clauses are. */
export const SPEC = "docs/spec/";

/** The pages that are cited by clause number. */
const PAGES = ["async-processor", "scheduling", "epp-protocol", "envoy-data-plane", "api-resources"] as const;

/** The page of each letter that IDs begin with. */
export const LETTERS: Readonly<Record<string, (typeof PAGES)[number]>> = {
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

/** A space, or the end of one comment line and the beginning of the next. */
const SPACE = String.raw`(?:[ \t]+|[ \t]*\n[ \t]*(?:\*(?!/)|//|--|#)?[ \t]*)`;
/** `2.7`, `6A.7`, `1.4(7)`, `appendix B`. */
const ITEM = String.raw`(?:\d+[A-B]?(?:\.\d+)*(?:\(\d+\))?(?![\w%]|\.\d)|[Aa]ppendix${SPACE}[A-D]\b)`;
/** A page, then a list of items and ranges: `scheduling 4.6, 8.3-8.6`. */
const CLAUSES = new RegExp(
  String.raw`\b(?<page>${PAGES.join("|")}),?${SPACE}(?<items>${ITEM}(?:(?:,|;|${SPACE}(?:and|to))?${SPACE}${ITEM}|-${ITEM})*)`,
  "g",
);
const ID = /(?<![\w-])(?<letter>[A-Z])-(?:0[1-9]|[1-9]\d{0,2})(?![\w-])/g;
const PITFALL = /\bpitfalls? (?<numbers>\d+(?:(?:, | and )\d+)*)/g;
const ADR = /(?:\bADR |docs\/adr\/)(?<numbers>\d{1,4}(?:-[\w-]+\.md)?(?: and \d{2,4}\b)*)/g;
const LINK = /docs\/spec\/(?<page>[\w-]+)\.md(?:#(?<anchor>[\w-]+))?/g;
/** An appendix without its page (those of an RFC are not ours), and documents that are not in this repository. */
const PAGELESS = new RegExp(
  [
    String.raw`(?<!RFC \d+,?${SPACE})\b[Aa]ppendix [A-D]\b`,
    String.raw`(?<![\w/])spec/[\w-]+\.md`,
    String.raw`\bseed 0\d\d\b`,
    String.raw`\bdesign (?:rule|section) \d`,
    String.raw`(?<!envoy-)\bdata-plane,?${SPACE}\d`,
  ].join("|"),
  "g",
);
/** A clause without its page, in brackets: in a comment or in the title of a test. */
const BARE_CLAUSE =
  /(?<=^[ \t]*(?:\*|\/\*\*).*|\/\/.*|\b(?:it|describe)\b[^"\n]*"[^"\n]*)\((?:[A-Z]-\d+, )*\d{1,2}\.\d{1,2}(?:\.\d)?(?:\(\d+\))?[,)]/gm;
/** The curve of certificates looks like an ID. */
const NO_ID = "P-256";

/** A place that cites something. */
export interface Citation {
  readonly file: string;
  readonly line: number;
  /** As a person reads it: `scheduling 3.4`. */
  readonly text: string;
  /** Where it leads: `docs/spec/scheduling.md#3-4`, `docs/adr/0010`. Undefined where the text names no page. */
  readonly target: string | undefined;
}

/** The id of a clause, an ID, a pitfall, an appendix or a title: `1.4(7)` is `1-4-7`, `Appendix B` is `appendix-b`. */
export function anchorOf(name: string): string {
  return name
    .toLowerCase()
    .replace(/[\s.(]+/g, "-")
    .replace(/[^\w-]/g, "");
}

/** Where a name leads on a page. */
export const onPage = (page: string, name: string): string => `${SPEC}${page}.md#${anchorOf(name)}`;

/** Every citation in a text. @param file path in the repository, with forward slashes */
export function citationsIn(file: string, text: string): Citation[] {
  const found: Citation[] = [];
  const add = (index: number, written: string, target: string | undefined): void => {
    found.push({ file, line: text.slice(0, index).split("\n").length, text: written, target });
  };
  for (const { index, groups } of text.matchAll(CLAUSES)) {
    const page = groups!["page"]!;
    for (const name of clausesIn(groups!["items"]!)) add(index, `${page} ${name}`, onPage(page, name));
  }
  for (const { index, groups, 0: id } of text.matchAll(ID)) {
    const page = LETTERS[groups!["letter"]!];
    if (page !== undefined && id !== NO_ID) add(index, id, onPage(page, id));
  }
  for (const { index, groups } of text.matchAll(PITFALL))
    for (const number of groups!["numbers"]!.match(/\d+/g)!)
      add(index, `pitfall ${number}`, onPage("epp-protocol", `pitfall ${number}`));
  for (const { index, groups } of text.matchAll(ADR))
    for (const name of groups!["numbers"]!.split(" and "))
      add(index, `ADR ${name}`, `docs/adr/${name.includes("-") ? name : name.padStart(4, "0")}`);
  for (const { index, 0: link } of text.matchAll(LINK)) add(index, link, link);
  // A page speaks of its own appendices.
  if (file.startsWith(SPEC)) return found;
  const rest = text.replace(CLAUSES, (clauses) => clauses.replace(/[^\n]/g, " "));
  for (const pattern of file.endsWith(".ts") ? [PAGELESS, BARE_CLAUSE] : [PAGELESS])
    for (const { index, 0: written } of rest.matchAll(pattern)) add(index, written, undefined);
  return found;
}

/** The single clauses of a list: `8.3-8.5, appendix C` is 8.3, 8.4, 8.5 and appendix C. */
function clausesIn(items: string): string[] {
  const names: string[] = [];
  for (const { groups } of items.matchAll(new RegExp(`(?<range>-|to${SPACE})?(?<item>${ITEM})`, "g"))) {
    const item = groups!["item"]!.replace(new RegExp(SPACE), " ");
    if (groups!["range"] !== undefined) names.push(...between(names.at(-1)!, item));
    names.push(item);
  }
  return names;
}

/** The clauses between two of one parent: 8.3 and 8.6 have 8.4 and 8.5 between them. */
function between(first: string, last: string): string[] {
  const parent = first.slice(0, first.lastIndexOf(".") + 1);
  const [from, to] = [Number(first.slice(parent.length)), Number(last.slice(parent.length))];
  return Array.from({ length: Math.max(0, to - from - 1) }, (_, i) => `${parent}${from + 1 + i}`);
}
