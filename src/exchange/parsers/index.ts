import type { Rejection } from "../../inference/outcomes.ts";
import type { BodyParser } from "../../plugin/kinds.ts";
import { ParserTable } from "./parser-table.ts";

const DEFAULT_TABLE = new ParserTable();

/** The parser for a request path where nothing is configured, as `ParserTable.select` chooses it. */
export function selectParser(path: string): BodyParser | Rejection {
  const chosen = DEFAULT_TABLE.select(path);
  return "parser" in chosen ? chosen.parser : chosen;
}
