import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { checkJsonParser } from "../../../test/support/parser-oracle.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { BodyParser } from "../../base/plugin/kinds.ts";
import { countTokens, messages } from "./anthropic.ts";
import { anyJson } from "./fallbacks.ts";
import { chatCompletions, completions, conversations, embeddings, images, responses } from "./openai.ts";
import { sglangGenerate, vllmGenerate } from "./token-generate.ts";

type Body = Record<string, unknown>;

const isId = (value: unknown) => typeof value === "number" && Number.isInteger(value) && value >= 0 && value < 1e21;
const isIds = (value: unknown): value is number[] => Array.isArray(value) && value.every(isId);
const filled = (value: unknown): value is unknown[] => Array.isArray(value) && value.length > 0;
const present = (...values: unknown[]) => values.filter((value) => value !== undefined && value !== null);

/** The prompts in a string, list of strings, list of ids or list of those; undefined for any other shape. */
function promptsIn(value: unknown): unknown[][] | undefined {
  if (typeof value === "string") return [[value]];
  if (!Array.isArray(value)) return undefined;
  if (value.length === 0) return [];
  if (isIds(value)) return [[value]];
  return value.every((one) => typeof one === "string") || value.every(isIds) ? value.map((one) => [one]) : undefined;
}

/** What each API's body means, slow and obvious: its prompts by value, or undefined when it is to be refused. */
const MEANING: readonly (readonly [BodyParser, (body: Body) => unknown[][] | undefined])[] = [
  [completions, ({ prompt }) => promptsIn(prompt)],
  [chatCompletions, ({ messages: m, tools }) => (filled(m) ? [present(tools, m)] : undefined)],
  [
    responses,
    ({ input, instructions, tools }) =>
      present(input).length === 0 ? undefined : [present(instructions, tools, input)],
  ],
  [conversations, ({ items }) => (filled(items) ? [[items]] : undefined)],
  [embeddings, ({ input }) => (present(input).length === 0 ? undefined : (promptsIn(input) ?? [[input]]))],
  [images, ({ prompt }) => (typeof prompt === "string" && prompt !== "" ? [[prompt]] : undefined)],
  [messages, ({ messages: m, system, tools }) => (filled(m) ? [present(tools, system, m)] : undefined)],
  [
    vllmGenerate,
    ({ token_ids: ids, features }) => {
      const hashes = (features as { mm_hashes?: unknown } | null | undefined)?.mm_hashes;
      const readable = typeof features === "object" && !Array.isArray(features);
      return filled(ids) && isIds(ids) ? [present(ids, readable ? hashes : undefined)] : undefined;
    },
  ],
  [
    sglangGenerate,
    ({ input_ids: ids, extra_key: key }) =>
      filled(ids) && isIds(ids) && (present(key).length === 0 || typeof key === "string") ? [[ids]] : undefined,
  ],
];

const text = fc.string({ unit: "binary", maxLength: 100 });
const ids = fc.array(fc.nat(), { maxLength: 5 });
/** A value of a shape that some API takes in that place, or any other. */
const value = fc.oneof(
  text,
  fc.array(text, { maxLength: 4 }),
  ids,
  fc.array(ids, { maxLength: 3 }),
  fc.array(fc.dictionary(text, fc.jsonValue({ maxDepth: 2 }), { maxKeys: 2 }), { maxLength: 3 }),
  fc.record({ mm_hashes: fc.jsonValue({ maxDepth: 2 }) }),
  fc.jsonValue({ maxDepth: 3 }),
);
const NAMES = [
  ...["prompt", "messages", "tools", "input", "instructions", "items", "system", "token_ids", "input_ids"],
  ...["features", "extra_key", "sampling_params", "stream", "cache_salt"],
];
const members = fc.dictionary(fc.constantFrom(...NAMES), value, { maxKeys: 8 });
const extra = fc.dictionary(text, fc.jsonValue({ maxDepth: 2 }), { maxKeys: 3 });
const model = fc.oneof({ weight: 4, arbitrary: text }, fc.constant(null), fc.jsonValue({ maxDepth: 1 }));
const body = fc
  .tuple(extra, members, fc.option(model, { nil: undefined }), fc.option(fc.boolean(), { nil: undefined }))
  .chain(([some, known, name, stream]) => {
    const all: Body = { ...some, ...known };
    if (name !== undefined) all["model"] = name;
    if (stream !== undefined) all["stream"] = stream;
    return fc.shuffledSubarray(Object.entries(all), { minLength: Object.keys(all).length });
  })
  .map((entries) => Object.fromEntries(entries) as Body);
const indent = fc.constantFrom("", " ", "\t");

describe("parsers against JSON.parse", () => {
  it.each(MEANING.map(([parser, meaning]) => [parser.name, parser, meaning] as const))(
    "%s reads any body as its API means it (E-83, E-109)",
    (_name, parser, meaning) => {
      fc.assert(
        fc.property(body, indent, (value, space) => {
          const json = JSON.stringify(value, null, space);
          const bytes = Buffer.from(json);
          const oracle = JSON.parse(json) as Body;
          checkJsonParser(parser, bytes);
          const result = parser.parse(bytes, "");
          const wanted = meaning(oracle);
          const named = parser === sglangGenerate || oracle["model"] === undefined || oracle["model"] === null;
          if (wanted === undefined || !(named || typeof oracle["model"] === "string")) {
            expect(result).toBeInstanceOf(Rejection);
            return;
          }
          if (result instanceof Rejection) throw new Error(result.text);
          const seen = result.prompts.map((ranges) =>
            ranges.map(({ start, end }) => {
              const part = bytes.toString("utf8", start, end);
              // Where a text alone is the prompt, its quotes are left out.
              return JSON.parse(start > 0 && json[0] === "{" && bytes[start - 1] === 0x22 ? `"${part}"` : part);
            }),
          );
          expect(seen).toEqual(wanted);
        }),
        { numRuns: 400 },
      );
    },
  );

  it("never throw, and agree on any bytes", () => {
    const parsers = [...MEANING.map(([parser]) => parser), anyJson, countTokens];
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 60 }),
      fc.tuple(body, fc.nat(), fc.nat(255)).map(([value, at, byte]) => {
        const changed = Buffer.from(JSON.stringify(value));
        changed[at % changed.length] = byte;
        return new Uint8Array(changed);
      }),
    );
    fc.assert(
      fc.property(bytes, (any) => {
        for (const parser of parsers) checkJsonParser(parser, any);
      }),
      { numRuns: 1000 },
    );
  });

  it("E-101: on unknown paths a body has its model, if it names one at all", () => {
    fc.assert(
      fc.property(body, (value) => {
        const result = anyJson.parse(Buffer.from(JSON.stringify(value)), "");
        if (result instanceof Rejection) throw new Error(result.text);
        expect(result.model).toBe(typeof value["model"] === "string" ? value["model"] : "");
        expect(result.answerFormat).toBe(result.model === "" ? "opaque" : "http");
      }),
    );
  });
});
