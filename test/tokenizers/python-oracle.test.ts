import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { pythonTokenizers, tokenizerFiles } from "../../scripts/test-parts.ts";
import { readModelFiles } from "../../src/picker/tokenizers/model-files.ts";
import { ModelTokenizer } from "../../src/picker/tokenizers/model-tokenizer.ts";
import { promptsOf } from "../../src/picker/tokenizers/request-prompts.ts";
import { RequestUnusable } from "../../src/picker/tokenizers/unusable.ts";
import { writeModel } from "../support/small-tokenizer.ts";
import { CHATS, texts } from "./corpus.ts";

const scratch = mkdtempSync(join(tmpdir(), "sluice-oracle-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

/** The models, and whether their templates take contents as parts. */
const MODELS: readonly (readonly [string, boolean])[] = [
  ["small", true],
  ["qwen3", false],
  ["llama3_1", false],
  ["gemma3", true],
  ["deepseek_v3", false],
];

function folderOf(model: string): string {
  return model === "small" ? dirname(writeModel(join(scratch, "small"))) : tokenizerFiles(model);
}

/** The tokens by Jinja2 and the Rust library; the name of the error where the template refuses the chat. */
function byPython(folder: string, parts: boolean, cases: readonly object[]): (number[] | string)[] {
  const { stdout, stderr, status } = spawnSync("python3", [join(import.meta.dirname, "oracle.py")], {
    input: JSON.stringify({ folder, parts, cases }),
    env: { ...process.env, PYTHONPATH: pythonTokenizers(), TOKENIZERS_PARALLELISM: "false" },
    encoding: "utf8",
    maxBuffer: 2 ** 28,
  });
  expect([status, stderr]).toEqual([0, ""]);
  return JSON.parse(stdout) as (number[] | string)[];
}

describe.each(MODELS)("the tokenizer of %s", (model, parts) => {
  const folder = folderOf(model);
  const tokenizer = new ModelTokenizer(readModelFiles(join(folder, "tokenizer.json"), undefined), 2 ** 24, {
    format: "auto",
    kwargs: {},
  });

  it("makes the tokens of chats that Jinja2 and the Rust library make", () => {
    const cases = CHATS.map(({ messages, tools, kwargs = {} }) => ({ messages, tools, kwargs, special: false }));
    const expected = byPython(folder, parts, cases);
    const found = CHATS.map(({ api, body }) => {
      try {
        return promptsOf(api, body, tokenizer)[0];
      } catch (error) {
        expect(error).toBeInstanceOf(RequestUnusable);
        return "refused";
      }
    });
    // Both refuse a chat, or make the same tokens of it.
    for (const [i, { name }] of CHATS.entries())
      expect([name, found[i]]).toEqual([name, typeof expected[i] === "string" ? "refused" : expected[i]]);
    expect(found.filter((tokens) => tokens !== "refused").length).toBeGreaterThanOrEqual(7);
  });

  it("makes the tokens of texts that the Rust library makes, remembered and not", () => {
    const repository = readFileSync(join(import.meta.dirname, "..", "..", "CONTRIBUTING.md"), "utf8");
    const all = [...texts(400), repository.slice(0, 30_000), repository.slice(0, 20_000)];
    const expected = byPython(
      folder,
      parts,
      all.map((text) => ({ text, special: false })),
    );
    for (let round = 0; round < 2; round++)
      for (const [i, text] of all.entries()) expect([text, tokenizer.text(text, false)]).toEqual([text, expected[i]]);
    expect(tokenizer.cache.lookups.hits).toBeGreaterThan(400);
  });

  // Transformers adds the first token of DeepSeek's texts by the class of the tokenizer, which the Rust library does not know.
  it("adds the tokens that the Rust library adds to the beginning and the end", () => {
    const [own] = byPython(folder, false, [{ text: "Hello there", special: true }]);
    const expected = model === "deepseek_v3" ? [0, ...(own as number[])] : own;
    expect(promptsOf("completions", { prompt: "Hello there" }, tokenizer)[0]).toEqual(expected);
  });
});
