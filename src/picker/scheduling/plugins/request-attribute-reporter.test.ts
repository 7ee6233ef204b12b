import { describe, expect, it } from "vitest";
import { instanceOf } from "../../../../test/support/scheduling/fakes.cases.ts";
import { SluiceError } from "../../../base/inference/errors.ts";
import type { ResponseCompleteContext, TokenUsage } from "../../../base/plugin/kinds.ts";
import { requestAttributeReporter } from "./request-attribute-reporter.ts";

const NAME = "x-gateway-inference-request-cost";
const USAGE: TokenUsage = { promptTokens: 7, completionTokens: 10, totalTokens: 17, cachedTokens: Number.NaN };

const parametersOf = (expression: string, condition?: string, namespace?: string) => ({
  attributes: [
    {
      key: { name: NAME, ...(namespace === undefined ? {} : { namespace }) },
      expression,
      ...(condition === undefined ? {} : { condition }),
    },
  ],
});

/** What one complete response makes the hook write. */
function written(parameters: object, complete: Partial<ResponseCompleteContext> = {}): unknown[][] {
  const set: unknown[][] = [];
  instanceOf(requestAttributeReporter, parameters).responseComplete!({
    request: undefined,
    endpoint: undefined,
    status: 200,
    usage: USAGE,
    cause: "natural",
    setMetadata: (...entry) => set.push(entry),
    ...complete,
  });
  return set;
}

/** The sentences of what the configuration is told. */
function problems(parameters: object): string[] {
  const result = requestAttributeReporter.parameters.safeParse(parameters);
  return result.success ? [] : result.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`);
}

describe("request-attribute-reporter", () => {
  it("epp-protocol appendix B, E-73: writes the completion tokens as a number into envoy.lb", () => {
    const parameters = parametersOf("usage.completion_tokens\n", "has(usage.completion_tokens)", "envoy.lb");
    expect(written(parameters)).toEqual([["envoy.lb", NAME, 10]]);
  });

  it.each([
    ["usage.prompt_tokens + usage.completion_tokens", 17],
    ["(has(usage.prompt_tokens) ? usage.prompt_tokens : 0) + (has(usage.nope) ? usage.nope : 0)", 7],
    ["2 * usage.prompt_tokens - 3", 11],
    ["usage.completion_tokens / 4", 2],
    ["0 - usage.total_tokens * 1.9", -32],
    ["usage.prompt_tokens > 5 ? 3 : usage.prompt_tokens", 3],
    ["41 + 1", 42],
  ])("computes %s", (expression, value) => {
    expect(written(parametersOf(expression))).toEqual([["envoy.lb", NAME, value]]);
  });

  it("takes a namespace, and envoy.lb for an empty one", () => {
    expect(written(parametersOf("usage.total_tokens", undefined, "acme"))).toEqual([["acme", NAME, 17]]);
    expect(written(parametersOf("usage.total_tokens", "", ""))).toEqual([["envoy.lb", NAME, 17]]);
  });

  it("reads cached tokens under both names, and only if the answer has them", () => {
    const usage = { ...USAGE, cachedTokens: 4 };
    const fresh = "usage.prompt_tokens - usage.prompt_tokens_details.cached_tokens";
    expect(written(parametersOf(fresh), { usage })).toEqual([["envoy.lb", NAME, 3]]);
    expect(written(parametersOf("usage.prompt_token_details.cached_tokens"), { usage })).toEqual([
      ["envoy.lb", NAME, 4],
    ]);
    expect(written(parametersOf(fresh, "has(usage.prompt_tokens_details)"))).toEqual([]);
  });

  it("writes nothing for 0, where the condition does not hold, without usage, and for a response that broke off", () => {
    expect(written(parametersOf("usage.prompt_tokens - 7"))).toEqual([]);
    expect(written(parametersOf("usage.prompt_tokens / 10"))).toEqual([]);
    expect(written(parametersOf("usage.total_tokens", "usage.total_tokens > 17"))).toEqual([]);
    expect(written(parametersOf("1"), { usage: undefined })).toEqual([]);
    expect(written(parametersOf("1"), { cause: "client-disconnect" })).toEqual([]);
  });

  it("counts what the answer leaves out as 0", () => {
    const usage = { ...USAGE, completionTokens: Number.NaN, totalTokens: Number.NaN };
    expect(written(parametersOf("usage.prompt_tokens + usage.completion_tokens"), { usage })).toEqual([
      ["envoy.lb", NAME, 7],
    ]);
  });

  it.each([
    ["usage.nope", "No such key: nope (line 1, column 7 of the expression)"],
    ["usage.prompt_tokens +\n  usage.nope.more", "No such key: nope (line 2, column 9 of the expression)"],
    ["1 / 0", "division by zero (line 1, column 1 of the expression)"],
    ["usage.total_tokens / 0", `the expression of ${NAME} yields Infinity, not a number`],
    ["dyn('x')", `the expression of ${NAME} yields a string, not a number`],
  ])("reports the failure of %j and writes nothing", (expression, problem) => {
    let thrown: unknown;
    let set: unknown;
    try {
      set = written(parametersOf(expression));
    } catch (error) {
      thrown = error;
    }
    expect(set).toBeUndefined();
    expect(thrown).toBeInstanceOf(SluiceError);
    expect(thrown).toMatchObject({ code: "EXPRESSION_FAILED", message: problem });
  });

  it.each([
    [parametersOf("usage.prompt_tokens +"), "expression: Unexpected token: EOF (line 1, column 22 of the expression)"],
    [parametersOf("1 +\n  used"), "expression: Unknown variable: used (line 2, column 3 of the expression)"],
    [parametersOf("'seven'"), "expression: must yield a number, but yields a string"],
    [parametersOf("usage.prompt_tokens > 1"), "expression: must yield a number, but yields a bool"],
    [parametersOf("1", "usage.prompt_tokens + 1.5"), "condition: must yield a boolean, but yields a double"],
    [parametersOf("1", "has("), "condition: Unexpected token: EOF (line 1, column 5 of the expression)"],
    [parametersOf(`1${" + 1".repeat(1023)}`), expect.stringContaining("expression: Exceeded max")],
    [parametersOf(""), "expression: must not be empty"],
  ])("refuses %j at start, with the place", (parameters, problem) => {
    const [first, ...more] = problems(parameters);
    expect(more).toEqual([]);
    expect(first!.replace(/^attributes\.0\./, "")).toEqual(problem);
  });

  it("takes exactly one attribute, with a name", () => {
    const [entry] = parametersOf("1").attributes;
    expect(problems({ attributes: [] })).toEqual(["attributes: must contain exactly one entry"]);
    expect(problems({ attributes: [entry, entry] })).toEqual(["attributes: must contain exactly one entry"]);
    expect(problems({ attributes: [{ ...entry, key: { name: "" } }] })).toEqual([
      "attributes.0.key.name: must not be empty",
    ]);
    expect(problems({ attributes: [{ ...entry, expr: "1" }] })).toEqual([expect.stringContaining("Unrecognized key")]);
  });
});
