import { Rejection } from "../../../src/base/inference/outcomes.ts";
import type { ParsedBody } from "../../../src/base/inference/request.ts";
import type { BodyParser } from "../../../src/base/plugin/kinds.ts";

/** What the parser says of a body it accepts. */
export function parsed(parser: BodyParser, body: string): ParsedBody {
  const result = parser.parse(Buffer.from(body), "");
  if (result instanceof Rejection) throw new Error(result.text);
  return result;
}

/** The refusal of a body, in one line. */
export function refused(parser: BodyParser, body: string): string {
  const result = parser.parse(Buffer.from(body), "");
  if (!(result instanceof Rejection)) throw new Error("was accepted");
  return `${result.status} ${result.reason} ${result.text}`;
}

/** The texts that prefix hashing will read. */
export function promptTexts(parser: BodyParser, body: string): string[][] {
  const bytes = Buffer.from(body);
  return parsed(parser, body).prompts.map((ranges) =>
    ranges.map(({ start, end }) => bytes.toString("utf8", start, end)),
  );
}
