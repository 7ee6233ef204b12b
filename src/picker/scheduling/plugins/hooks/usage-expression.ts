import { Environment, type ParseError, type ParseResult } from "@marcbachmann/cel-js";
import { messageOf, SluiceError } from "../../../../base/inference/errors.ts";

/**
 * A compiled CEL expression over the variable `usage`.
 * @throws SluiceError EXPRESSION_FAILED with line and column inside the expression
 */
export type UsageExpression = (usage: Readonly<Record<string, unknown>>) => unknown;

/** What a result may be; `dyn` = known at run time only. */
const RESULTS = {
  number: new Set(["int", "double", "dyn"]),
  boolean: new Set(["bool", "dyn"]),
} as const;

let environment: Environment | undefined;

/**
 * Compiles a CEL expression.
 * @param result what it must yield, as far as that can be told without running it
 * @throws SluiceError EXPRESSION_INVALID with line and column inside `text`
 */
export function compileUsageExpression(text: string, result: keyof typeof RESULTS): UsageExpression {
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

/** What is wrong, in one line with the place: the library's own message draws the expression over several. */
function problemOf(error: unknown, text: string): string {
  const { summary, range } = error as Partial<ParseError>;
  if (summary === undefined || range === undefined) return messageOf(error);
  const before = text.slice(0, range.start).split("\n");
  return `${summary} (line ${before.length}, column ${before.at(-1)!.length + 1} of the expression)`;
}

/**
 * Token counts are doubles, as they are in the reference, whose documentation nevertheless adds and multiplies them with
 * integer literals: plain CEL refuses that, so the mixed operators are added.
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
