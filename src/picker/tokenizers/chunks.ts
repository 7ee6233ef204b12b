/** The fewest characters of a piece of text between two special tokens. Smaller pieces would cost more memory per token. */
export const CHUNK_CHARACTERS = 1024;

/** The places within a text at which a tokenizer's result is that of both sides, one behind the other. */
export interface CutRules {
  /** Behind a line feed, before a letter of ASCII. */
  readonly line: boolean;
  /** Behind a letter of ASCII, before a space. */
  readonly word: boolean;
}

export const NO_CUTS: CutRules = { line: false, word: false };

/**
 * Cuts a text that holds no special token into pieces. The first cut lies behind at least `CHUNK_CHARACTERS` characters from the
 * beginning, the next one as far behind that, so texts that begin alike are cut alike.
 */
export function chunksOf(text: string, { line, word }: CutRules): string[] {
  if (text.length <= CHUNK_CHARACTERS || !(line || word)) return [text];
  const cut = line && word ? LINE_OR_WORD : line ? LINE : WORD;
  const chunks: string[] = [];
  let start = 0;
  while (text.length - start > CHUNK_CHARACTERS) {
    cut.lastIndex = start + CHUNK_CHARACTERS - 1;
    if (!cut.test(text)) break;
    chunks.push(text.slice(start, cut.lastIndex));
    start = cut.lastIndex;
  }
  if (start < text.length) chunks.push(text.slice(start));
  return chunks;
}

const LINE = /\n(?=[A-Za-z])/g;
const WORD = /[A-Za-z](?= )/g;
const LINE_OR_WORD = /\n(?=[A-Za-z])|[A-Za-z](?= )/g;

/** The parts of a `tokenizer.json` on which cuts depend. */
export interface TokenizerParts {
  readonly normalizer: unknown;
  readonly pre_tokenizer: unknown;
  readonly model: { readonly type?: string; readonly vocab: unknown };
  readonly added_tokens?: readonly {
    readonly content: string;
    readonly normalized?: boolean;
    readonly lstrip?: boolean;
    readonly rstrip?: boolean;
  }[];
}

/**
 * Returns the cuts that are exact for a tokenizer. The tokens of a byte-pair encoding never reach over a place whose two sides no
 * token of the vocabulary holds, and the rules that split text before it must not look across that place. The structure tells
 * most of that; for the regular expressions in it, `encode` tries the combinations of the kinds of characters that they name.
 * Everything unknown means no cut.
 */
export function cutRulesOf(tokenizer: TokenizerParts, encode: (text: string) => readonly number[]): CutRules {
  const { model, added_tokens: added = [] } = tokenizer;
  if (!isLocalNormalizer(tokenizer.normalizer) || !isLocalPreTokenizer(tokenizer.pre_tokenizer)) return NO_CUTS;
  if (model.type !== undefined && model.type !== "BPE") return NO_CUTS;
  if (typeof model.vocab !== "object" || model.vocab === null || Array.isArray(model.vocab)) return NO_CUTS;
  if (added.some(({ lstrip, rstrip }) => lstrip || rstrip)) return NO_CUTS;
  // Other added tokens are cut out of the text before.
  const normalized = added.filter((token) => token.normalized !== false).map(({ content }) => content);
  const texts = [...Object.keys(model.vocab), ...normalized];
  return {
    line: !texts.some((text) => LINE_INSIDE.test(text)) && isExact(encode, LINE_ENDS, LINE_BEGINNINGS),
    word: !texts.some((text) => WORD_INSIDE.test(text)) && isExact(encode, WORD_ENDS, WORD_BEGINNINGS),
  };
}

/** How vocabularies write a line feed and a space: as they are, in GPT-2's alphabet of bytes, and as SentencePiece does. */
const LINE_INSIDE = /[\nĊ][A-Za-z]/;
const WORD_INSIDE = /[A-Za-z][ Ġ▁]/;

const BEFORE = [
  "",
  "a",
  "Z",
  "7",
  " ",
  ".",
  "'",
  "é",
  "語",
  "\n",
  "\t",
  "\r",
  "🙂",
  "a ",
  "  ",
  " .",
  "'s",
  "\r\n",
  "_",
  "\u0301",
];
const LINE_ENDS = BEFORE.map((text) => `${text}\n`);
const LINE_BEGINNINGS = [
  "a",
  "Z",
  "the",
  "s ",
  "a1",
  "a.",
  "a\n",
  "a'",
  "aé",
  "a語",
  "a\u0301",
  "A B",
  "x\t",
  "ll",
  "re ",
];
const WORD_ENDS = BEFORE.flatMap((text) => [`${text}a`, `${text}The`, `${text}'s`]);
const WORD_BEGINNINGS = [
  " ",
  "  ",
  " a",
  " Z",
  " 7",
  " .",
  " '",
  " é",
  " 語",
  " \n",
  " \t",
  " \u0301",
  "  a",
  "  \n",
  " 's",
  " 🙂",
];

function isExact(
  encode: (text: string) => readonly number[],
  lefts: readonly string[],
  rights: readonly string[],
): boolean {
  const ends = lefts.map((text) => encode(text));
  const beginnings = rights.map((text) => encode(text));
  return lefts.every((left, l) =>
    rights.every((right, r) => {
      const whole = encode(left + right);
      const [end, beginning] = [ends[l]!, beginnings[r]!];
      return (
        whole.length === end.length + beginning.length &&
        whole.every((token, at) => token === (at < end.length ? end[at] : beginning[at - end.length]))
      );
    }),
  );
}

type Part = Readonly<Record<string, unknown>>;

/** Whether a normalizer changes each side of a cut as it would change that side alone. */
function isLocalNormalizer(part: unknown): boolean {
  if (part === null || part === undefined) return true;
  const { type, normalizers, pattern } = part as Part;
  if (type === "Sequence") return Array.isArray(normalizers) && normalizers.every(isLocalNormalizer);
  if (type === "Replace") return (pattern as Part | undefined)?.["String"] === " ";
  return ["NFC", "NFD", "NFKC", "NFKD", "Lowercase"].includes(type as string);
}

function isLocalPreTokenizer(part: unknown): boolean {
  if (part === null || part === undefined) return true;
  const { type, pretokenizers, pattern, add_prefix_space: prefix } = part as Part;
  if (type === "Sequence") return Array.isArray(pretokenizers) && pretokenizers.every(isLocalPreTokenizer);
  if (type === "ByteLevel") return prefix === false;
  if (type === "Digits" || type === "Punctuation") return true;
  if (type !== "Split") return false;
  const { Regex: regex, String: text } = (pattern ?? {}) as Part;
  return typeof text === "string" || (typeof regex === "string" && !LOOKS_BACK.test(regex));
}

/** Look-behind and anchors: such an expression sees what lies before the place where it begins. */
const LOOKS_BACK = /\(\?<[=!]|\\[bBAGzZ]|(?<![[\\])[\^$]/;
