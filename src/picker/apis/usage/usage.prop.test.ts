import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { findUsage, SseUsageReader } from "./sse-usage.ts";

const count = fc.option(fc.nat({ max: 1_000_000 }));
const usage = fc.option(fc.record({ prompt_tokens: count, completion_tokens: count, total_tokens: count }));
const line = fc.oneof(
  fc.tuple(fc.string({ unit: "binary", maxLength: 30 }), usage).map(([content, u]) => {
    return `data: ${JSON.stringify({ choices: [{ delta: { content } }], usage: u })}`;
  }),
  usage.map((u) => `data: ${JSON.stringify({ response: { usage: u } })}`),
  fc.constantFrom("", "", "data: [DONE]", ": ping", "event: delta", 'data: {"usage":{"total', '"usage"', "data: ]"),
);
const ending = fc.constantFrom("\n", "\n\n", "\r\n", "\r\n\r\n");
const stream = fc
  .tuple(fc.array(fc.tuple(line, ending), { maxLength: 12 }), line)
  .map(([lines, last]) => Buffer.from(lines.map(([text, end]) => text + end).join("") + last));

describe("usage of a stream", () => {
  it("E-71: is the same for every way to cut the stream, at each line's end and at its own", () => {
    fc.assert(
      fc.property(stream, fc.array(fc.nat(), { maxLength: 20 }), (bytes, cuts) => {
        const whole = new SseUsageReader();
        whole.feed(bytes);
        const pieces = new SseUsageReader();
        const at = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
        for (let i = 1; i < at.length; i++) pieces.feed(bytes.subarray(at[i - 1], at[i]));
        const single = new SseUsageReader();
        for (let i = 0; i < bytes.length; i++) single.feed(bytes.subarray(i, i + 1));
        for (const reader of [pieces, single]) expect([reader.usage, reader.done]).toEqual([whole.usage, whole.done]);
        for (const reader of [whole, pieces, single]) reader.finish();
        for (const reader of [pieces, single]) expect([reader.usage, reader.done]).toEqual([whole.usage, whole.done]);
      }),
      { numRuns: 500 },
    );
  });

  it("is what decoding every data line gives", () => {
    const last = (values: unknown[]) => values.filter((value) => typeof value === "number").at(-1);
    fc.assert(
      fc.property(stream, (bytes) => {
        const reader = new SseUsageReader();
        reader.feed(bytes);
        reader.finish();
        const usages = bytes
          .toString()
          .split(/\r?\n/)
          .flatMap((text) => {
            try {
              const value = JSON.parse(text.replace(/^data: /, ""));
              return text.startsWith("data: ") ? [value.usage ?? value.response?.usage ?? {}] : [];
            } catch {
              return [];
            }
          });
        expect(reader.usage?.promptTokens || undefined).toBe(last(usages.map((u) => u.prompt_tokens)) || undefined);
        expect(reader.usage?.completionTokens || undefined).toBe(
          last(usages.map((u) => u.completion_tokens)) || undefined,
        );
        const sum = (reader.usage?.promptTokens ?? 0) + (reader.usage?.completionTokens ?? 0);
        const total = last(usages.map((u) => u.total_tokens)) ?? sum;
        expect(reader.usage?.totalTokens || undefined).toBe(total || undefined);
      }),
      { numRuns: 500 },
    );
  });

  it("never throws, whatever the bytes", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 30 })), (chunks) => {
        const reader = new SseUsageReader();
        for (const chunk of chunks) reader.feed(chunk);
        reader.finish();
        expect(reader.usage).toBeUndefined();
      }),
    );
  });

  it("finds the name where Buffer.indexOf does", () => {
    const text = fc.array(fc.constantFrom('"', "u", "us", '"usag', '"usage"', "usage", "e", ":"), { maxLength: 30 });
    fc.assert(
      fc.property(text, fc.nat({ max: 20 }), fc.nat({ max: 20 }), (parts, start, cut) => {
        const bytes = Buffer.from(parts.join(""));
        const end = Math.max(0, bytes.length - cut);
        expect(findUsage(bytes, start, end)).toBe(start > end ? -1 : bytes.subarray(0, end).indexOf('"usage"', start));
      }),
      { numRuns: 1000 },
    );
  });
});
