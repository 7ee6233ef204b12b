import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { slowRead } from "../../../test/support/slow-exposition.ts";
import { ExpositionReader } from "./exposition-reader.ts";

/** Long enough for the search that skips; some are a part of another. */
const LONG = ["vllm:num_requests", "vllm:num_requests_waiting", "vllm:lora_requests_info", "xvllm:num_requests"];
/** One short name makes the reader walk from line to line. */
const SHORT = ["up", "a", "u", "vllm:num_requests"];
const OTHERS = ["unwanted_metric_name", "vllm:num_requests_waiting_total", "upper", "b"];

const blanks = fc.constantFrom("", " ", "  ", "\t", " \t ");
const gap = fc.constantFrom(" ", "\t", "  ");
const name = fc.constantFrom(...LONG, ...SHORT, ...OTHERS);
const number = fc.oneof(
  fc.constantFrom("0", "1.0", "+Inf", "-Inf", "NaN", "Infinity", "1e5", "1.7637120005e+09", ".5", "5.", "-0", "1e400"),
  fc.constantFrom("1e-7", "0x10", "1_0", "", "-", ".", "e5", "1e", "+1", "12345678901234567890", "3#", "@RUNN@"),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map(String),
  fc.integer().map(String),
);
const labelText = fc.string({
  unit: fc.constantFrom(
    "a",
    "Z",
    "7",
    " ",
    ",",
    "=",
    "{",
    "}",
    "#",
    "\\\\",
    '\\"',
    "\\n",
    "\\x",
    "é",
    "😀",
    "up",
    "\t",
  ),
  maxLength: 8,
});
const label = fc
  .tuple(fc.constantFrom("engine", "model_name", "_x", "le"), blanks, blanks, labelText)
  .map(([key, before, after, value]) => `${key}${before}=${after}"${value}"`);
const block = fc
  .tuple(fc.array(label, { maxLength: 4 }), blanks, blanks, fc.constantFrom("", ","))
  .map(([all, open, close, comma]) => `{${open}${all.join(`${open},${close}`)}${all.length > 0 ? comma : ""}${close}}`);
const sampleLine = fc
  .tuple(name, fc.option(block, { nil: "" }), gap, number, fc.option(fc.tuple(gap, number), { nil: undefined }), blanks)
  .map(([n, b, g, v, timestamp, end]) => `${n}${b}${g}${v}${timestamp === undefined ? "" : timestamp.join("")}${end}`);
const comment = fc.oneof(
  fc
    .tuple(
      gap,
      gap,
      name,
      gap,
      fc.constantFrom("counter", "gauge", "histogram", "summary", "untyped", "info", "bogus", ""),
    )
    .map(([a, b, n, c, type]) => `#${a}TYPE${b}${n}${c}${type}`),
  fc.tuple(name, name).map(([a, b]) => `# HELP ${a} ${b} 5 # TYPE ${b} gauge`),
  fc.constantFrom("# EOF", "#", "", "# TYPE", "#TYPE up gauge", "# TYPE up", " up 3", "# TYPES up gauge"),
  fc.tuple(name, labelText).map(([n, text]) => `${n} 1 # {trace_id="${text}"} 0.5`),
);
const noise = fc.string({
  unit: fc.constantFrom("u", "p", "a", "#", " ", '"', "\\", "{", "}", "\r", "5", "T"),
  maxLength: 12,
});
const damaged = fc
  .tuple(fc.oneof(sampleLine, comment), fc.nat(), fc.constantFrom("", " ", '"', "}", "\\", "\u0000", "\n", "é"))
  .map(([line, at, inserted]) => {
    const cut = line.length === 0 ? 0 : at % line.length;
    return line.slice(0, cut) + inserted + line.slice(cut + 1);
  });
/** Bytes that would continue whatever the page ends with. */
const stale = fc.string({
  unit: fc.constantFrom("+", "-", "7", "e", '"', "}", " ", "\n", "g", "_", "up 1"),
  maxLength: 6,
});
const page = fc
  .tuple(
    fc.array(fc.oneof(sampleLine, sampleLine, comment, damaged, noise), { maxLength: 12 }),
    fc.constantFrom("\n", "\r\n"),
    fc.boolean(),
  )
  .map(([lines, newline, last]) => Buffer.from(lines.join(newline) + (last ? newline : "")));

describe("ExpositionReader against a slow reader", () => {
  for (const [search, wanted] of [
    ["skipping", LONG],
    ["walking", SHORT],
  ] as const) {
    it(`finds the same samples, types and malformed lines (${search})`, () => {
      const reader = new ExpositionReader(wanted);
      fc.assert(
        fc.property(page, stale, (bytes, after) => {
          const lines = slowRead(bytes).filter((line) => line.name !== undefined && wanted.includes(line.name));
          const seen: unknown[] = [];
          // What an earlier, longer page left in the buffer must not be read.
          const buffer = Buffer.concat([bytes, Buffer.from(after)]);
          const count = reader.read(buffer, bytes.length, (sample) => {
            seen.push({
              name: wanted[sample.index],
              labels: Object.fromEntries(sample.labels.toMap()),
              value: sample.value,
              timestamp: sample.timestamp,
              type: sample.type,
            });
          });
          const samples = lines.flatMap((line) => (line.sample === undefined ? [] : [line.sample]));
          expect(seen).toEqual(samples.map((sample) => ({ ...sample, labels: { ...sample.labels } })));
          expect(count).toBe(samples.length);
          expect(reader.malformed).toBe(lines.filter((line) => line.malformed).length);
        }),
        { numRuns: 1500 },
      );
    });
  }

  it("throws nothing for any bytes", () => {
    const readers = [new ExpositionReader(LONG), new ExpositionReader(SHORT)];
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), fc.nat(400), (bytes, length) => {
        for (const reader of readers) {
          reader.read(bytes, length, (sample) => sample.labels.toMap());
          expect(reader.malformed).toBeLessThanOrEqual(bytes.length);
        }
      }),
    );
  });
});
