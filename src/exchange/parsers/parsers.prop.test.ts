import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Rejection } from "../../inference/outcomes.ts";
import { chatCompletions } from "./chat-completions.ts";
import { completions } from "./completions.ts";
import { PARSERS } from "./index.ts";

const text = fc.string({ unit: "binary", maxLength: 200 });
const extra = fc.dictionary(fc.string({ unit: "binary", maxLength: 8 }), fc.jsonValue({ maxDepth: 3 }), { maxKeys: 4 });
const shuffled = (members: Record<string, unknown>) =>
  fc.shuffledSubarray(Object.entries(members), { minLength: Object.keys(members).length }).map(Object.fromEntries);

describe("parsers against JSON.parse", () => {
  it("never throw, whatever the bytes, and keep every range inside the body", () => {
    const body = fc.oneof(
      fc.uint8Array({ maxLength: 60 }),
      fc
        .record({
          model: fc.jsonValue({ maxDepth: 1 }),
          prompt: fc.jsonValue({ maxDepth: 3 }),
          messages: fc.jsonValue({ maxDepth: 3 }),
          tools: fc.jsonValue({ maxDepth: 2 }),
          max_tokens: fc.jsonValue({ maxDepth: 1 }),
        })
        .map((value) => new Uint8Array(Buffer.from(JSON.stringify(value)))),
    );
    fc.assert(
      fc.property(body, (bytes) => {
        for (const parser of PARSERS) {
          const result = parser.parse(bytes, "");
          if (result instanceof Rejection) {
            expect(result.status).toBe(400);
            continue;
          }
          expect(result.model).not.toBe("");
          for (const { start, end } of result.prompts.flat()) {
            expect(start).toBeGreaterThanOrEqual(0);
            expect(end).toBeGreaterThanOrEqual(start);
            expect(end).toBeLessThanOrEqual(bytes.length);
          }
        }
      }),
      { numRuns: 1000 },
    );
  });

  it("read the members of any completions body", () => {
    const request = fc.tuple(text, fc.oneof(text, fc.array(text, { minLength: 1 })), fc.boolean(), extra);
    const body = request.chain(([model, prompt, stream, rest]) =>
      shuffled({ ...rest, model: `m${model}`, prompt, stream }),
    );
    fc.assert(
      fc.property(body, (value) => {
        const json = JSON.stringify(value);
        const bytes = Buffer.from(json);
        const oracle = JSON.parse(json) as { model: string; prompt: string | string[]; stream: boolean };
        const result = completions.parse(bytes, "");
        if (result instanceof Rejection) throw new Error(result.text);
        expect(result.model).toBe(oracle.model);
        expect(result.streaming).toBe(oracle.stream);
        const prompts = result.prompts.map(([range]) =>
          JSON.parse(`"${bytes.toString("utf8", range!.start, range!.end)}"`),
        );
        expect(prompts).toEqual(typeof oracle.prompt === "string" ? [oracle.prompt] : oracle.prompt);
      }),
    );
  });

  it("read the members of any chat body", () => {
    const message = fc.record({ role: fc.constantFrom("user", "system"), content: text });
    const request = fc.tuple(
      text,
      fc.array(message, { minLength: 1, maxLength: 4 }),
      fc.option(fc.array(extra)),
      extra,
    );
    const body = request.chain(([model, messages, tools, rest]) =>
      shuffled({ ...rest, model: `m${model}`, messages, tools }),
    );
    fc.assert(
      fc.property(body, (value) => {
        const json = JSON.stringify(value);
        const bytes = Buffer.from(json);
        const oracle = JSON.parse(json) as { messages: unknown; tools: unknown };
        const result = chatCompletions.parse(bytes, "");
        if (result instanceof Rejection) throw new Error(result.text);
        const seen = result.prompts[0]!.map(({ start, end }) => JSON.parse(bytes.toString("utf8", start, end)));
        expect(seen).toEqual(oracle.tools === null ? [oracle.messages] : [oracle.tools, oracle.messages]);
      }),
    );
  });
});
