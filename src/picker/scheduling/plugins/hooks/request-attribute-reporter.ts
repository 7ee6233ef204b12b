import { z } from "zod";
import { messageOf, SluiceError } from "../../../../base/inference/errors.ts";
import { defineRequestHook } from "../../../../base/plugin/define.ts";
import type { RequestHook, ResponseCompleteContext, TokenUsage } from "../../../../base/plugin/kinds.ts";
import { compileUsageExpression, type UsageExpression } from "./usage-expression.ts";

const DEFAULT_NAMESPACE = "envoy.lb";
/** Characters of an expression. */
const MAX_EXPRESSION = 4096;

const attribute = z.strictObject({
  key: z.strictObject({
    namespace: z.string().default(""),
    name: z.string().min(1, { error: "must not be empty" }),
  }),
  expression: z.string().min(1, { error: "must not be empty" }).max(MAX_EXPRESSION).superRefine(compilesTo("number")),
  condition: z.string().max(MAX_EXPRESSION).superRefine(compilesTo("boolean")).optional(),
});

type Attribute = z.output<typeof attribute>;

/** epp-protocol 4.5 */
export const requestAttributeReporter = defineRequestHook({
  type: "request-attribute-reporter",
  describe:
    "Computes a number from the token usage of a complete response, by a CEL expression over `usage`, and hands it to the proxy as dynamic metadata.",
  parameters: z.strictObject({
    attributes: z
      .array(attribute)
      .length(1, { error: "must contain exactly one entry" })
      .describe(
        "exactly one `{key: {namespace (envoy.lb), name}, expression, condition}`; the expression yields a number, 0 is not written; the condition, where there is one, must hold",
      ),
  }),
  create: ({ attributes }) => new AttributeReporter(attributes[0]!),
});

/**
 * Makes a bad expression a mistake of the configuration. The parameters keep its text all the same: by what they say two
 * configurations are told apart, and of functions nobody can say whether they do the same.
 */
function compilesTo(result: "number" | "boolean") {
  return (text: string, context: z.RefinementCtx): void => {
    // Told already, or allowed.
    if (text === "" || text.length > MAX_EXPRESSION) return;
    try {
      compileUsageExpression(text, result);
    } catch (error) {
      context.addIssue({ code: "custom", message: messageOf(error) });
    }
  };
}

class AttributeReporter implements RequestHook {
  readonly #key: Attribute["key"];
  readonly #expression: UsageExpression;
  readonly #condition: UsageExpression | undefined;

  constructor({ key, expression, condition = "" }: Attribute) {
    this.#key = key;
    this.#expression = compileUsageExpression(expression, "number");
    this.#condition = condition === "" ? undefined : compileUsageExpression(condition, "boolean");
  }

  /** @throws SluiceError EXPRESSION_FAILED; nothing is written then */
  responseComplete(context: ResponseCompleteContext): void {
    if (context.usage === undefined || context.cause !== "natural") return;
    const key = this.#key;
    const usage = variableOf(context.usage);
    if (this.#condition !== undefined && this.#condition(usage) !== true) return;
    const result = this.#expression(usage);
    const value = typeof result === "bigint" ? Number(result) : result;
    if (typeof value !== "number" || !Number.isFinite(value))
      throw new SluiceError("EXPRESSION_FAILED", `the expression of ${key.name} yields ${kindOf(value)}, not a number`);
    // Costs are whole numbers in the reference, which cuts fractions off.
    const whole = Math.trunc(value);
    if (whole !== 0) context.setMetadata(key.namespace || DEFAULT_NAMESPACE, key.name, whole);
  }
}

/**
 * The variable `usage`: the three counts always, 0 where the answer doesn't say, and the cached tokens where it does,
 * also under the name that v1.5 misspelt.
 */
function variableOf(usage: TokenUsage): Readonly<Record<string, unknown>> {
  const counts = {
    prompt_tokens: usage.promptTokens || 0,
    completion_tokens: usage.completionTokens || 0,
    total_tokens: usage.totalTokens || 0,
  };
  if (Number.isNaN(usage.cachedTokens)) return counts;
  const details = { cached_tokens: usage.cachedTokens };
  return { ...counts, prompt_tokens_details: details, prompt_token_details: details };
}

function kindOf(value: unknown): string {
  return typeof value === "number" ? String(value) : value === null ? "null" : `a ${typeof value}`;
}
