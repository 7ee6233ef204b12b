import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SluiceError } from "../../../base/inference/errors.ts";
import { formatSpecification, parseSpecification } from "./specification.ts";

const value = fc.string({
  unit: fc.constantFrom("a", "9", " ", ",", "=", "{", "}", '"', "\\", "\n", "n", "é", "\u0001"),
});
const specification = fc.record({
  name: fc.constantFrom("m", "vllm:x", "_a9"),
  labels: fc.uniqueArray(fc.record({ name: fc.constantFrom("a", "b_1", "_c", "engine"), value }), {
    selector: ({ name }) => name,
  }),
});

describe("parseSpecification", () => {
  it("reads back what formatSpecification writes (S-10)", () => {
    fc.assert(
      fc.property(specification, (written) => {
        expect(parseSpecification(formatSpecification(written))).toEqual(written);
      }),
    );
  });

  it("reads any text or says what is wrong with it", () => {
    const piece = fc.constantFrom("m", "{", "}", "a", "=", ",", '"', "\\", " ", "9", "\n", "b");
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 14 }), (pieces) => {
        try {
          const read = parseSpecification(pieces.join(""));
          if (read !== undefined) expect(parseSpecification(formatSpecification(read))).toEqual(read);
        } catch (error) {
          expect(error).toBeInstanceOf(SluiceError);
          expect((error as SluiceError).code).toBe("METRIC_SPECIFICATION");
        }
      }),
      { numRuns: 2000 },
    );
  });
});
