import { Environment, type ParseError, type ParseResult } from "@marcbachmann/cel-js";
import { z } from "zod";
import { messageOf, SluiceError } from "../../../base/inference/errors.ts";
import { defineRequestHook } from "../../../base/plugin/define.ts";
import type { RequestHook, ResponseCompleteContext, TokenUsage } from "../../../base/plugin/kinds.ts";

const DEFAULT_NAMESPACE = "envoy.lb";
/** The most characters of an expression. */
const MAX_EXPRESSION = 4096;

/** Returns the schema of an attribute. The page of operators leaves it out, and with it the library for CEL (dashboard/vite.config.ts). */
function attribute() {
  return z.strictObject({
    key: z.strictObject({
      namespace: z.string().default(""),
      name: z.string().min(1, { error: "must not be empty" }),
    }),
    expression: z.string().min(1, { error: "must not be empty" }).max(MAX_EXPRESSION).superRefine(compilesTo("number")),
    condition: z.string().max(MAX_EXPRESSION).superRefine(compilesTo("boolean")).optional(),
  });
}

type Attribute = z.output<ReturnType<typeof attribute>>;

/** epp-protocol 4.5 */
export const requestAttributeReporter = defineRequestHook({
  type: "request-attribute-reporter",
  describe:
    "Computes a number from the token usage of a complete response, by a CEL expression over `usage`, and hands it to the proxy as dynamic metadata.",
  parameters: z.strictObject({
    attributes: z
      .array(attribute())
      .length(1, { error: "must contain exactly one entry" })
      .describe(
        "exactly one `{key: {namespace (envoy.lb), name}, expression, condition}`: writes the number of the expression, unless the number is 0 or the condition does not hold",
      ),
  }),
  create: ({ attributes }) => new AttributeReporter(attributes[0]!),
});

/**
 * Reports a bad expression as an error of the configuration. The parameters keep the text of the expression, because two
 * configurations are compared by their text: compiled functions cannot be compared.
 */
function compilesTo(result: "number" | "boolean") {
  return (text: string, context: z.RefinementCtx): void => {
    // Already reported, or allowed.
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

  /** @throws SluiceError EXPRESSION_FAILED; then no metadata is written */
  responseComplete(context: ResponseCompleteContext): void {
    if (context.usage === undefined || context.cause !== "natural") return;
    const key = this.#key;
    const usage = variableOf(context.usage);
    if (this.#condition !== undefined && this.#condition(usage) !== true) return;
    const result = this.#expression(usage);
    const value = typeof result === "bigint" ? Number(result) : result;
    if (typeof value !== "number" || !Number.isFinite(value))
      throw new SluiceError("EXPRESSION_FAILED", `the expression of ${key.name} yields ${kindOf(value)}, not a number`);
    // A cost is a whole number in the reference, which cuts off fractions.
    const whole = Math.trunc(value);
    if (whole !== 0) context.setMetadata(key.namespace || DEFAULT_NAMESPACE, key.name, whole);
  }
}

/**
 * Returns the variable `usage`. It always has the three counts, 0 where the answer has none. It has the cached tokens where the
 * answer has them, also under the name that v1.5 misspelt.
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

/**
 * A compiled CEL expression over the variable `usage`.
 * @throws SluiceError EXPRESSION_FAILED with line and column inside the expression
 */
type UsageExpression = (usage: Readonly<Record<string, unknown>>) => unknown;

/** The types of a result; `dyn` = known only at run time. */
const RESULTS = {
  number: new Set(["int", "double", "dyn"]),
  boolean: new Set(["bool", "dyn"]),
} as const;

let environment: Environment | undefined;

/**
 * Compiles a CEL expression.
 * @param result the type that it must return, as far as the compiler can check
 * @throws SluiceError EXPRESSION_INVALID with line and column inside `text`
 */
function compileUsageExpression(text: string, result: keyof typeof RESULTS): UsageExpression {
  environment ??= createEnvironment();
  let program: ParseResult;
  try {
    program = environment.parse(text);
  } catch (error) {
    throw new SluiceError("EXPRESSION_INVALID", problemOf(error, text));
  }
  const { valid, type, error } = program.check();
  if (!valid) throw new SluiceError("EXPRESSION_INVALID", problemOf(error, text));
  if (!RESULTS[result].has(type!))
    throw new SluiceError("EXPRESSION_INVALID", `must yield a ${result}, but yields a ${type}`);
  return (usage) => {
    try {
      return program({ usage });
    } catch (error) {
      throw new SluiceError("EXPRESSION_FAILED", problemOf(error, text));
    }
  };
}

/** Returns the problem and its place in one line: the library's own message draws the expression over several lines. */
function problemOf(error: unknown, text: string): string {
  const { summary, range } = error as Partial<ParseError>;
  if (summary === undefined || range === undefined) return messageOf(error);
  const before = text.slice(0, range.start).split("\n");
  return `${summary} (line ${before.length}, column ${before.at(-1)!.length + 1} of the expression)`;
}

/**
 * Token counts are doubles, as in the reference. The reference's documentation adds and multiplies them with integer literals,
 * which plain CEL refuses. So this environment adds the mixed operators.
 */
function createEnvironment(): Environment {
  const created = new Environment({ limits: { maxAstNodes: 1000, maxDepth: 50 } }).registerVariable("usage", "map");
  const operators: Readonly<Record<string, (a: number, b: number) => number>> = {
    "+": (a, b) => a + b,
    "-": (a, b) => a - b,
    "*": (a, b) => a * b,
    "/": (a, b) => a / b,
  };
  for (const [sign, compute] of Object.entries(operators)) {
    created.registerOperator(`double ${sign} int: double`, (a: number, b: bigint) => compute(a, Number(b)));
    created.registerOperator(`int ${sign} double: double`, (a: bigint, b: number) => compute(Number(a), b));
  }
  return created;
}
