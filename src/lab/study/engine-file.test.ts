import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { PRESETS, presetNamed } from "../simulator/batching/config.ts";
import { withEngineFile } from "./engine-file.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-engine-"));
afterAll(() => rmSync(folder, { recursive: true }));

async function engine(text: string, name = "engine.yaml") {
  const file = join(folder, name);
  writeFileSync(file, text);
  const presets = await withEngineFile(file, PRESETS);
  expect(presets.slice(0, -1)).toEqual(PRESETS);
  expect(presets.at(-1)!.name).toBe(file);
  return presets.at(-1)!;
}

const WHOLE = {
  cost: { base: 10, prefill: 0.05, attention: 2e-6, context: 1e-4, sequence: 0.01 },
  maxModelLen: 32_768,
  kvBlocks: 1000,
};

describe("withEngineFile", () => {
  it("leaves the presets alone unless the value is a path", async () => {
    expect(await withEngineFile(undefined, PRESETS)).toBe(PRESETS);
    expect(await withEngineFile("qwen3-32b-2xh100", PRESETS)).toBe(PRESETS);
  });

  it("takes what a file says, and the rest from its preset", async () => {
    const { about, config } = await engine(
      "preset: llama-3-8b-h100\nabout: ours\napiMs: 3\ncost: {attention: 1e-6}\nmaxNumSeqs: 512\nprefixCache: false\n",
    );
    const base = presetNamed("llama-3-8b-h100")!.config;
    expect(about).toBe("ours");
    expect(config).toEqual({
      ...base,
      ...{ apiMs: 3, maxNumSeqs: 512, prefixCache: false, cost: { ...base.cost, attention: 1e-6 } },
    });
  });

  it("takes JSON, and the defaults of vLLM where the file has no preset", async () => {
    const { config } = await engine(JSON.stringify(WHOLE), "engine.json");
    expect(config).toMatchObject({ ...WHOLE, tokenBudget: 8192, maxNumSeqs: 256, blockSize: 16, prefixCache: true });
  });

  it.each([
    [
      "an unknown key",
      "preset: llama-3-8b-h100\ncost: {atention: 1}\n",
      "2:8: cost.atention: unknown key `atention`; did you mean `attention`?",
    ],
    ["a negative time", "preset: llama-3-8b-h100\napiMs: -1\n", "2:1: apiMs: must be at least 0, got -1"],
    ["a step without time", "preset: llama-3-8b-h100\ncost: {base: 0}\n", "cost.base: must be more than 0"],
    ["no cache", "preset: llama-3-8b-h100\nkvBlocks: 0\n", "kvBlocks: must be at least 1, got 0"],
    [
      "no figures",
      "cost: {base: 1, prefill: 1, context: 1, sequence: 1}\nkvBlocks: 9\n",
      "cost.attention: is missing (a number); give it, or a `preset` that has it",
    ],
    ["no length of the context", JSON.stringify({ ...WHOLE, maxModelLen: undefined }), "maxModelLen: is missing"],
    ["nothing", "", "expected a mapping"],
    ["a preset that does not exist", "preset: llama-3-8b\n", "preset of"],
  ])("refuses %s", async (_, text, told) => {
    await expect(engine(text)).rejects.toThrow(told);
  });

  it("refuses a file that does not exist", async () => {
    await expect(withEngineFile("./no-such-engine.yaml", PRESETS)).rejects.toMatchObject({ code: "DOCUMENT_MISSING" });
  });
});
