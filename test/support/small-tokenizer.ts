import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** The expressions by which Qwen's and Llama's tokenizers split texts before their byte pairs. */
export const SPLIT =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

const TEXT =
  "The quick brown fox jumps over the lazy dog.\nThis is the prompt of a user, and that is the answer of the assistant.\n" +
  "In the beginning there were tokens; then there were blocks of tokens, and the blocks were kept in the cache.\n\n" +
  "function name(arguments) {\n    return arguments;\n}\n" +
  "Größe, café, naïve: 日本語のテキスト 2024 1999\n";

/** A template with turns, tools, thinking and images, in the manner of Qwen's. */
export const TEMPLATE = `{%- if tools %}
    {{- '<|im_start|>system\\n# Tools\\n' }}
    {%- for tool in tools %}
        {{- tool | tojson }}
        {{- '\\n' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.reasoning_content %}
        {{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n' }}
    {%- endif %}
    {%- if message.content is string %}
        {{- message.content }}
    {%- else %}
        {%- for part in message.content %}
            {%- if part.type == 'image' %}
                {{- '<|image|>' }}
            {%- else %}
                {{- part.text }}
            {%- endif %}
        {%- endfor %}
    {%- endif %}
    {%- for call in message.tool_calls or [] %}
        {{- '<tool_call>' + call.function.name + ' ' + (call.function.arguments | tojson) + '</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and not enable_thinking %}
        {{- '<think>\\n\\n</think>\\n' }}
    {%- endif %}
{%- endif %}
`;

const SPECIALS = ["<|end|>", "<|im_start|>", "<|im_end|>", "<|image|>", "<think>", "</think>"];

/** The characters that stand for bytes in GPT-2's alphabet. */
function byteAlphabet(): string[] {
  const printable = (byte: number): boolean =>
    (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(printable(byte) ? byte : next++));
}

/** The `tokenizer.json` of a byte-pair encoding of 256 bytes and at most `merges` merges, trained on a short text. */
export function smallTokenizer(merges = 200): Record<string, unknown> {
  const alphabet = byteAlphabet();
  const words = [...TEXT.matchAll(new RegExp(SPLIT, "gu"))].map(([word]) =>
    [...Buffer.from(word)].map((byte) => alphabet[byte]!),
  );
  const made: [string, string][] = [];
  const vocab = new Map(alphabet.map((char, id) => [char, id]));
  while (made.length < merges) {
    const counts = new Map<string, number>();
    for (const word of words)
      for (let i = 1; i < word.length; i++) {
        const pair = `${word[i - 1]} ${word[i]}`;
        counts.set(pair, (counts.get(pair) ?? 0) + 1);
      }
    const [best] = [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
    if (best === undefined) break;
    const [left, right] = best[0].split(" ") as [string, string];
    made.push([left, right]);
    vocab.set(left + right, vocab.size);
    for (const word of words)
      for (let i = 1; i < word.length; i++)
        if (word[i - 1] === left && word[i] === right) word.splice(i - 1, 2, left + right);
  }
  const added = SPECIALS.map((content, i) => ({
    ...{ id: vocab.size + i, content, special: true, normalized: false },
    ...{ single_word: false, lstrip: false, rstrip: false },
  }));
  const split = { type: "Split", pattern: { Regex: SPLIT }, behavior: "Isolated", invert: false };
  const bytes = { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false };
  return {
    ...{ version: "1.0", truncation: null, padding: null, added_tokens: added, normalizer: { type: "NFC" } },
    pre_tokenizer: { type: "Sequence", pretokenizers: [split, bytes] },
    ...{ post_processor: bytes, decoder: bytes },
    model: {
      ...{ type: "BPE", dropout: null, unk_token: null, continuing_subword_prefix: "", end_of_word_suffix: "" },
      ...{ fuse_unk: false, byte_fallback: false, ignore_merges: false },
      vocab: Object.fromEntries(vocab),
      merges: made,
    },
  };
}

export const SMALL_CONFIG = { eos_token: "<|im_end|>", image_token: "<|image|>", chat_template: TEMPLATE };

/** Writes the files of a model. @returns the path of its `tokenizer.json` */
export function writeModel(
  folder: string,
  { tokenizer = smallTokenizer(), config = SMALL_CONFIG }: { tokenizer?: unknown; config?: unknown } = {},
): string {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "tokenizer_config.json"), JSON.stringify(config));
  const path = join(folder, "tokenizer.json");
  writeFileSync(path, typeof tokenizer === "string" ? tokenizer : JSON.stringify(tokenizer));
  return path;
}
