/**
 * The words check: measures how the texts for people read, prints a row for each, and fails above the limits below. The texts:
 * README, CONTRIBUTING, SECURITY, docs/ without adr/ and spec/, and the messages, help and labels in src/. `--list` names every
 * long sentence, passive sentence and avoided word of each text and never fails.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { filesBelow } from "./files-below.ts";
import { withoutBlocks, withoutSpans } from "./markdown.ts";
import { messagesIn } from "./messages.ts";

/** A sentence of more words is long. */
const LONG = 30;

/** The highest values that a page may have. */
export interface Limits {
  /** Sentences over `LONG` words. */
  readonly long: number;
  /** Percent of the sentences that are passive. */
  readonly passive: number;
  /** Words and phrases of the avoided list. */
  readonly avoided: number;
  /** Words; absent = any number. */
  readonly words?: number;
}

const LIMITS: Limits = { long: 0, passive: 7, avoided: 0 };
/** The README has two screens. */
const README_LIMITS: Limits = { ...LIMITS, words: 1_000 };
/** A message that says a state is passive by this measure: "is not supported", "is limited". */
const MESSAGE_LIMITS: Limits = { long: 0, passive: 11, avoided: 0 };
const MESSAGES = "messages in src/";
const OWN_PAGES = /^(README|CONTRIBUTING|SECURITY|examples\/.*\/README)\.md$|^docs\/(?!(adr|spec)\/)/;
/** The pages that people write and read as documentation. */
const WRITTEN_DOCS = /^README\.md$|^docs\/(?!reference\/)/;
/** The most words of all these pages together. A fact has one place; other pages link to it. */
const MOST_WRITTEN_WORDS = 36_500;

/** Words that a reader goes over twice, and phrases that say nothing; each with what to write. */
const AVOIDED: Readonly<Record<string, RegExp>> = {
  "told: name who says what": /\btold\b/gi,
  "whoever: name the subject": /\bwho(m|so)?ever\b/gi,
  "whatever: name the thing": /\bwhatever\b/gi,
  "nobody: name the subject": /\bnobody\b/gi,
  "thereof and its kin: repeat the noun": /\b(there|here|where)(of|by|upon|in|with)\b/gi,
  "of whichever kind: any": /\bwhichever\b/gi,
  "from when on: after": /\bfrom (when|then|now|there) on\b/gi,
  "as much as it may: give the limit": /\bas (much|many|far|long) as (it|they) may\b/gi,
  "all the same: leave it out": /\ball the same\b/gi,
  "by itself: leave it out": /\bby (itself|themselves)\b/gi,
  "comes to: is, reaches": /\bcom(es?|ing) to\b|\bcame to\b/gi,
  "is had: exists": /\b(is|are|be) had\b/gi,
  "brings: has, adds": /\bbrings\b|\bbrought\b/gi,
  "anew: again, new": /\banew\b/gi,
  "stands: is, exists": /\bstands?\b(?!-| (by|for|in for)\b)/gi,
  "a look: a poll, a read": /\b(a|each|every|one|next|last|first) looks?\b/gi,
  "what is: name the thing": /(?<!^|[.?!:] )\bwhat (is|are|was|were)\b/gi,
};
/** A clause as the subject of a sentence; a question may begin so. */
const CLAUSE_SUBJECT = /^(What|Who|Whose) .*[^?]$/;

const BE = "(?:is|are|was|were|be|been|being|gets?)";
const BETWEEN = "(?:not|never|also|only|then|still|always|already|now|both|all|again|once|twice|\\w+ly)";
const IRREGULAR =
  "(?:built|bought|bound|broken|brought|caught|chosen|cut|drawn|driven|fed|found|forgotten|given|gone over|got|held|hidden|kept|known|laid|left|let|lost|made|meant|met|paid|put|read|run|said|seen|sent|set|shown|shut|spent|split|spread|spoken|sworn|taken|taught|thought|thrown|told|understood|won|worn|written)";
const NO_PARTICIPLE = "(?:need|speed|seed|feed|red|indeed|hundred)";
/** A form of "be" before a participle. A rough measure: "is limited" counts, though it may be an adjective. */
const PASSIVE = new RegExp(`\\b${BE}\\s+(?:${BETWEEN}\\s+){0,2}(?!${NO_PARTICIPLE}\\b)(?:\\w+ed|${IRREGULAR})\\b`, "i");
const ABBREVIATION = /\b(e\.g|i\.e|etc|cf|vs|approx)\.$/i;

/** The sentences of a Markdown text in order. A heading, a list item and a cell of a table are sentences of their own; code counts as one word. */
export function sentencesOf(text: string): string[] {
  const prose = withoutSpans(withoutBlocks(text), "Code").replace(/!\[[^\]]*\]\([^)]*\)/g, "");
  const plain = prose
    .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/<https?:[^>]*>/g, "Code")
    .replace(/<\/?[a-z][^>]*>/gi, "")
    .replace(/\*\*|__/g, "");
  const blocks: string[] = [""];
  for (const line of plain.split("\n")) {
    const item = /^\s*(?:[*+-]|\d+\.|>|#{1,6})\s+(.*)$/.exec(line);
    if (line.trim() === "") blocks.push("");
    else if (/^\s*\|/.test(line)) blocks.push(...line.split(/(?<!\\)\|/), "");
    else if (item !== null) blocks.push(item[1]!, ...(line.startsWith("#") ? [""] : []));
    else blocks[blocks.length - 1] += ` ${line.trim()}`;
  }
  return blocks.flatMap(split).filter((sentence) => /[a-z]/i.test(sentence));
}

function split(block: string): string[] {
  const sentences: string[] = [];
  for (const part of block.trim().split(/(?<=[.!?]["')\]]*)\s+(?=["'([]*[A-Z0-9])/)) {
    const last = sentences.at(-1);
    if (last !== undefined && ABBREVIATION.test(last)) sentences[sentences.length - 1] = `${last} ${part}`;
    else sentences.push(part);
  }
  return sentences;
}

const wordsIn = (sentence: string): number => sentence.split(/\s+/).filter((word) => /[a-z0-9]/i.test(word)).length;

/** How a page reads. */
export interface Reading {
  readonly words: number;
  readonly sentences: number;
  /** The sentences over `LONG` words. */
  readonly long: readonly string[];
  /** The sentences with a passive verb. */
  readonly passive: readonly string[];
  /** Each find of the avoided list, with the sentence. */
  readonly avoided: readonly string[];
}

/** Measures a Markdown text. */
export function readingOf(text: string): Reading {
  const sentences = sentencesOf(text);
  const avoided: string[] = [];
  for (const sentence of sentences) {
    for (const [hint, pattern] of Object.entries(AVOIDED))
      for (const [found] of sentence.matchAll(pattern)) avoided.push(`"${found}" (${hint}): ${sentence}`);
    // A heading may be such a clause: it has no end mark.
    if (CLAUSE_SUBJECT.test(sentence) && /[.!:]$/.test(sentence)) avoided.push(`clause as subject: ${sentence}`);
  }
  return {
    words: sentences.reduce((sum, sentence) => sum + wordsIn(sentence), 0),
    sentences: sentences.length,
    long: sentences.filter((sentence) => wordsIn(sentence) > LONG),
    passive: sentences.filter((sentence) => PASSIVE.test(sentence)),
    avoided,
  };
}

/** Percent of the sentences that are passive, rounded. */
export const passiveShare = ({ passive, sentences }: Reading): number =>
  sentences === 0 ? 0 : Math.round((100 * passive.length) / sentences);

/** What a page has too much of, each a line with what to change. */
export function faultsOf(reading: Reading, limits: Limits): string[] {
  const faults: string[] = [];
  const over = (what: string, value: number, limit: number, places: readonly string[]): void => {
    if (value > limit) faults.push(`${what} ${value}, limit ${limit}:`, ...places.map((place) => `  ${place}`));
  };
  over(`sentences over ${LONG} words:`, reading.long.length, limits.long, reading.long);
  over("percent of passive sentences:", passiveShare(reading), limits.passive, reading.passive);
  over("avoided words:", reading.avoided.length, limits.avoided, reading.avoided);
  over("words:", reading.words, limits.words ?? Number.POSITIVE_INFINITY, []);
  return faults;
}

if (import.meta.main) {
  const root = join(import.meta.dirname, "..");
  const pages = filesBelow(root, [".md"]).filter((name) => OWN_PAGES.test(name));
  const texts = new Map(pages.map((page) => [page, readFileSync(join(root, page), "utf8")]));
  const messages = filesBelow(join(root, "src"), [".ts"])
    .filter((file) => !file.endsWith(".test.ts"))
    .flatMap((file) => messagesIn(file, readFileSync(join(root, "src", file), "utf8")));
  // An empty line ends a sentence.
  texts.set(MESSAGES, messages.join("\n\n"));
  const all = process.argv.includes("--list");
  const faults: string[] = [];
  let words = 0;
  let written = 0;
  console.log(`${"text".padEnd(34)} words  sentences  over ${LONG}  passive  avoided`);
  for (const [page, text] of texts) {
    const reading = readingOf(text);
    words += reading.words;
    if (WRITTEN_DOCS.test(page)) written += reading.words;
    const figures = [reading.words, reading.sentences, reading.long.length, `${passiveShare(reading)} %`];
    const [w, s, l, p] = figures.map(String) as [string, string, string, string];
    console.log(
      `${page.padEnd(34)} ${w.padStart(5)}  ${s.padStart(9)}  ${l.padStart(7)}  ${p.padStart(7)}  ${String(reading.avoided.length).padStart(7)}`,
    );
    const limits = page === MESSAGES ? MESSAGE_LIMITS : page === "README.md" ? README_LIMITS : LIMITS;
    const found = faultsOf(reading, all ? { long: -1, passive: -1, avoided: -1 } : limits);
    faults.push(...found.map((fault) => `${page}: ${fault}`));
  }
  console.log(`${pages.length} pages, ${messages.length} messages, ${words} words`);
  console.log(`README and docs/ without reference/: ${written} words, limit ${MOST_WRITTEN_WORDS}`);
  if (written > MOST_WRITTEN_WORDS)
    faults.push(
      `README and docs/ have ${written} words, limit ${MOST_WRITTEN_WORDS}: say each fact once, and link to it`,
    );
  for (const fault of faults) console.error(fault);
  if (all) process.exit(0);
  const proves = pages.length > 0 && messages.length > 0;
  if (!proves) console.error("the words check found no page or no message: it proves nothing");
  if (faults.length > 0 || !proves) process.exit(1);
}
