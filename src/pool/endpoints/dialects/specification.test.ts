import { describe, expect, it } from "vitest";
import type { SluiceError } from "../../../base/inference/errors.ts";
import { parseSpecification } from "./specification.ts";

function labelsOf(text: string): Record<string, string> {
  return Object.fromEntries(parseSpecification(text)!.labels.map(({ name, value }) => [name, value]));
}

function failureOf(text: string): string {
  try {
    parseSpecification(text);
  } catch (error) {
    return `${(error as SluiceError).code}: ${(error as SluiceError).message}`;
  }
  throw new Error(`accepted ${text}`);
}

describe("parseSpecification (S-10)", () => {
  it("reads a name, and pairs of labels with or without quotes", () => {
    expect(parseSpecification("vllm:num_requests_waiting")).toEqual({ name: "vllm:num_requests_waiting", labels: [] });
    expect(parseSpecification("m{}")).toEqual({ name: "m", labels: [] });
    expect(parseSpecification("m{a=b}")).toEqual({ name: "m", labels: [{ name: "a", value: "b" }] });
    expect(labelsOf('m{a=b,c="d e"}')).toEqual({ a: "b", c: "d e" });
    expect(labelsOf('nv_trt_llm_request_metrics{request_type="waiting"}')).toEqual({ request_type: "waiting" });
  });

  it("trims blanks around tokens, not inside quotes", () => {
    expect(parseSpecification(' m { a = b c , d = " e " } ')).toEqual({
      name: "m",
      labels: [
        { name: "a", value: "b c" },
        { name: "d", value: " e " },
      ],
    });
  });

  it("takes in quotes what would end a value outside, and the escapes of the text format", () => {
    expect(labelsOf('m{a="x,y=z}",b="{"}')).toEqual({ a: "x,y=z}", b: "{" });
    expect(labelsOf(String.raw`m{a="q\"b\\s\nn"}`)).toEqual({ a: 'q"b\\s\nn' });
  });

  it("means by an empty text that the value is not collected", () => {
    expect(parseSpecification("")).toBeUndefined();
    expect(parseSpecification("  ")).toBeUndefined();
  });

  it.each(["9m", "m{a=b", "m}", "a b", "{a=b}", "m{a=b}x", "-"])("refuses %s", (text) => {
    expect(failureOf(text)).toBe(
      `METRIC_SPECIFICATION: ${JSON.stringify(text)} is not a valid metric specification; write NAME or NAME{label=value,...}`,
    );
  });

  it.each([
    ["m{a}", "a"],
    ["m{a=b,}", ""],
    ["m{,a=b}", ""],
    ["m{a=b,c}", "c"],
    ["m{9=b}", "9=b"],
    ["m{a=b=c}", "a=b=c"],
    ['m{a="b}', 'a="b'],
    ['m{a="b"c}', 'a="b"c'],
    ["m{a=b}}", "a=b}"],
    ["m{a=1,a=2}", "a=2"],
  ])("refuses %s for one of its pairs", (text, pair) => {
    expect(failureOf(text)).toContain(
      `METRIC_SPECIFICATION: invalid label pair ${JSON.stringify(pair)} in specification ${JSON.stringify(text)}`,
    );
  });

  it("stays short when the text is long", () => {
    expect(failureOf("9".repeat(100_000)).length).toBeLessThan(400);
    expect(failureOf(`m{${"a".repeat(100_000)}}`).length).toBeLessThan(600);
  });
});
