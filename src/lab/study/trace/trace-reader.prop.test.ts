import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { SluiceError } from "../../../base/inference/errors.ts";
import { readTrace, type Trace } from "./trace-reader.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-trace-"));
afterAll(() => rmSync(folder, { recursive: true }));

const HEADERS = {
  mooncake: "",
  azure: "TIMESTAMP,ContextTokens,GeneratedTokens\n",
  burst: "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n",
};

/** A good row of the format. */
function rowOf(format: keyof typeof HEADERS, at: number, prompt: number, answer: number): string {
  if (format === "azure") return `${new Date(at).toISOString().replace("T", " ").slice(0, -1)},${prompt},${answer}`;
  if (format === "burst") return `${at / 1000},GPT-4,${prompt},${answer},${prompt + answer},API log`;
  const hash_ids = Array.from({ length: Math.ceil(prompt / 512) }, (_, i) => (at + i) % 5);
  return JSON.stringify({ timestamp: at, input_length: prompt, output_length: answer, hash_ids });
}

const rows = fc.array(
  fc.record({ step: fc.integer({ min: -50, max: 2000 }), prompt: fc.nat(3000), answer: fc.nat(100) }),
  { minLength: 1, maxLength: 30 },
);
const CONTEXT = 2000;

describe("readTrace of mangled input", () => {
  it("accounts for each row, and plays only what fits", async () => {
    const file = join(folder, "mangled");
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom("mooncake", "azure", "burst"),
        rows,
        fc.array(fc.record({ at: fc.nat(), bytes: fc.uint8Array({ maxLength: 8 }), cut: fc.nat(12) }), {
          maxLength: 6,
        }),
        fc.record({
          from: fc.nat(5000),
          length: fc.integer({ min: 1, max: 40_000 }),
          speed: fc.constantFrom(0.5, 1, 3),
        }),
        async (format, given, mangles, { from, length, speed }) => {
          let at = 100_000;
          const lines = given.map(({ step, prompt, answer }) => {
            at += step;
            return rowOf(format, at, prompt, answer);
          });
          let bytes = Buffer.from(`${HEADERS[format]}${lines.join("\n")}\n`);
          for (const mangle of mangles) {
            const place = mangle.at % (bytes.length + 1);
            bytes = Buffer.concat([bytes.subarray(0, place), mangle.bytes, bytes.subarray(place + mangle.cut)]);
          }
          writeFileSync(file, bytes);
          let trace: Trace;
          try {
            trace = await readTrace(file, { window: { from, to: from + length }, speed, contextLength: CONTEXT });
          } catch (error) {
            expect(error).toBeInstanceOf(SluiceError);
            expect((error as SluiceError).code).toBe("TRACE_INPUT");
            return;
          }
          const { requests, summary } = trace;
          const faulty = summary.unusable.reduce((sum, { count }) => sum + count, 0);
          expect(summary.rows).toBe(requests.length + summary.before + faulty);
          expect(summary.requests).toBe(requests.length);
          let before = 0;
          for (const { at, promptTokens, outputTokens, blocks } of requests) {
            expect(at).toBeGreaterThanOrEqual(before);
            expect(at).toBeLessThan(length / speed);
            before = at;
            expect(Math.min(promptTokens, outputTokens)).toBeGreaterThan(0);
            expect(promptTokens + outputTokens).toBeLessThanOrEqual(CONTEXT);
            if (blocks !== undefined) expect(blocks.length).toBe(Math.ceil(promptTokens / 512));
          }
          if (mangles.length > 0) return;
          // Unmangled, what is not played has one of the reasons that the rows were made with.
          for (const { why } of summary.unusable)
            expect(["timeBack", "noPrompt", "noAnswer", "contextLength"]).toContain(why);
        },
      ),
    );
  });
});
