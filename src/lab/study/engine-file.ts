import { z } from "zod";
import type { Document } from "../../base/document/document.ts";
import { readDocument } from "../../base/document/read.ts";
import { invalid, type Violation, validate } from "../../base/document/validate.ts";
import { type BatchingConfig, ENGINE_DEFAULTS, type EnginePreset } from "../simulator/batching/config.ts";
import { named } from "./flag-values.ts";

/** The largest file of an engine, bytes. */
const MAX_FILE = 1 << 20;
/** A path, and no name of a preset. */
const PATH = /[/\\]|\.(ya?ml|json)$/i;

const ms = (about: string) => z.number().min(0).max(1e6).optional().describe(about);
const whole = (least: number, about: string) => z.number().int().min(least).max(1e9).optional().describe(about);

/** Milliseconds, but for numbers of things; the formula is in docs/use/simulate.md. */
const SCHEMA = z.strictObject({
  preset: z.string().optional().describe("The preset that gives the keys that the file lacks."),
  about: z.string().max(500).optional().describe("A description for readers."),
  cost: z
    .strictObject({
      base: ms("Milliseconds of a step without tokens.").refine((base) => base !== 0, "must be more than 0"),
      prefill: ms("Milliseconds for each computed prompt token."),
      attention: ms("Milliseconds for each pair of a prompt token and an earlier token."),
      context: ms("Milliseconds for each token of context of a generating sequence."),
      sequence: ms("Milliseconds for each sequence of a step."),
    })
    .optional(),
  apiMs: ms("Milliseconds of the API process for each request; it takes one request after the other."),
  tokenBudget: whole(1, "The most tokens of a step."),
  maxNumSeqs: whole(1, "The most sequences of a step."),
  maxWaitingQueueLength: whole(0, "The most waiting sequences."),
  maxModelLen: whole(2, "The most tokens of a prompt together with its answer."),
  kvBlocks: whole(1, "Blocks of the KV cache."),
  blockSize: whole(1, "Tokens of a block."),
  prefixCache: z.boolean().optional().describe("Whether the engine caches prefixes."),
  maxLoras: whole(1, "The most loaded adapters."),
  loraLoadMs: ms("Milliseconds to load an adapter."),
});

/**
 * The presets, and with them the engine of a file when `--engine` names one. Its name is the path.
 * @param engine value of the flag; a value with a slash, or that ends with .yaml, .yml or .json, is a path
 * @throws SluiceError DOCUMENT_..., FLAG_VALUE for a `preset` in the file that does not exist
 */
export async function withEngineFile(
  engine: string | undefined,
  presets: readonly EnginePreset[],
): Promise<readonly EnginePreset[]> {
  if (engine === undefined || !PATH.test(engine)) return presets;
  return [...presets, engineIn(await readDocument(engine, { maxBytes: MAX_FILE }), engine, presets)];
}

/** @throws SluiceError DOCUMENT_INVALID with the place of each fault; FLAG_VALUE */
function engineIn(document: Document, name: string, presets: readonly EnginePreset[]): EnginePreset {
  const { preset, about, cost, ...figures } = validate(document, SCHEMA, { what: "engine file" });
  const base = preset === undefined ? undefined : named(preset, "engine preset", presets, `preset of ${name}:`);
  const costs = { ...base?.config.cost, ...given(cost ?? {}) };
  const config = { ...(base?.config ?? ENGINE_DEFAULTS), ...given(figures), cost: costs };
  const violations: Violation[] = [
    ...["base", "prefill", "attention", "context", "sequence"]
      .filter((key) => !(key in costs))
      .map((key) => ({ path: ["cost", key], problem: MISSING })),
    ...["maxModelLen", "kvBlocks"].filter((key) => !(key in config)).map((key) => ({ path: [key], problem: MISSING })),
  ];
  if (violations.length > 0) throw invalid(document, violations, "engine file");
  return { name, about: about ?? `the engine of ${name}`, config: config as BatchingConfig };
}

const MISSING = "is missing (a number); give it, or a `preset` that has it";

/** The entries with a value. */
function given<T extends object>(of: T): Partial<T> {
  return Object.fromEntries(Object.entries(of).filter(([, value]) => value !== undefined)) as Partial<T>;
}
