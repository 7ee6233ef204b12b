import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SluiceError } from "../../../base/inference/errors.ts";
import { parseInstantVector } from "./prometheus-client.ts";

const bytes = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));
const word = fc.constantFrom("status", "success", "error", "data", "resultType", "vector", "result", "metric", "value");
const { json } = fc.letrec((tie) => ({
  json: fc.oneof(
    { depthSize: "small" },
    fc.constant(null),
    word,
    fc.double(),
    fc.array(tie("json"), { maxLength: 3 }),
    fc.dictionary(word, tie("json"), { maxKeys: 4 }),
  ),
}));

describe("answers of Prometheus", () => {
  it("gives back every sample", () => {
    const sample = fc.record({ labels: fc.dictionary(fc.string(), fc.string()), value: fc.double() });
    fc.assert(
      fc.property(fc.array(sample), fc.double({ min: 0, max: 4e9, noNaN: true }), (samples, time) => {
        const shown = (value: number) =>
          Math.abs(value) === Number.POSITIVE_INFINITY ? (value > 0 ? "+Inf" : "-Inf") : String(value);
        const result = samples.map(({ labels, value }) => ({ metric: labels, value: [time, shown(value)] }));
        const read = parseInstantVector(bytes({ status: "success", data: { resultType: "vector", result } }));
        expect(read.samples).toEqual(samples.map(({ labels, value }) => ({ labels: { ...labels }, value: value + 0 })));
        expect(read.evaluatedAt).toBe(samples.length === 0 ? undefined : time * 1000);
      }),
    );
  });

  it("answers anything else with its own error", () => {
    const text = fc.uint8Array({ maxLength: 64 });
    const any = fc.oneof(text, json.map(bytes));
    fc.assert(
      fc.property(any, (input) => {
        try {
          for (const { value } of parseInstantVector(input).samples) expect(typeof value).toBe("number");
        } catch (error) {
          expect(error).toBeInstanceOf(SluiceError);
          expect(error).toMatchObject({ code: "METRIC_SOURCE" });
        }
      }),
    );
  });
});
