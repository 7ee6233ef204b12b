import { isObject } from "../../base/document/json-object.ts";
import { SimApiError } from "./api-error.ts";
import type { JsonObject } from "./json-body.ts";

/** The call that an answer makes in place of text. */
export interface ToolCall {
  readonly name: string;
  /** JSON of the arguments. */
  readonly arguments: string;
}

/** A tool as a request of any API defines it. */
interface Tool {
  readonly name: string;
  readonly schema: unknown;
}

/** The depth and the number of members of a schema that arguments are made for. */
const DEEPEST = 8;
const MOST_MEMBERS = 64;

/**
 * The call that a request demands by its `tool_choice`: the named tool, or the first one where any will do. With `auto` the
 * simulator answers with text, so that the same request always gets the same kind of answer.
 * @throws SimApiError 400 for a demand without a tool to call
 */
export function demandedCall(body: JsonObject): ToolCall | undefined {
  const choice = body.tool_choice;
  const demand = typeof choice === "string" ? choice : isObject(choice) ? String(choice.type) : "auto";
  if (demand === "auto" || demand === "none") return undefined;
  const tools = Array.isArray(body.tools) ? body.tools.map(readTool) : [];
  const name = isObject(choice) ? nameIn(choice) : undefined;
  const tool = name === undefined ? tools[0] : tools.find((one) => one?.name === name);
  if (tool === undefined)
    throw new SimApiError(400, `tool_choice demands ${name ?? "a tool"}, which tools does not define`, "tool_choice");
  return { name: tool.name, arguments: JSON.stringify(example(tool.schema, 0) ?? {}) };
}

/** The name may be beside the type (Responses, Messages) or inside `function` (chat). */
function nameIn(object: JsonObject): string | undefined {
  const inner = isObject(object.function) ? object.function : object;
  return typeof inner.name === "string" ? inner.name : undefined;
}

function readTool(value: unknown): Tool | undefined {
  if (!isObject(value)) return undefined;
  const name = nameIn(value);
  const inner = isObject(value.function) ? value.function : value;
  return name === undefined ? undefined : { name, schema: inner.parameters ?? inner.input_schema };
}

/** A value that fits a JSON schema of the usual kind: objects with all members, first values of enums. */
function example(schema: unknown, depth: number): unknown {
  if (!isObject(schema) || depth > DEEPEST) return null;
  if (Array.isArray(schema.enum)) return schema.enum[0];
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  switch (type) {
    case "object": {
      const members = isObject(schema.properties) ? Object.entries(schema.properties).slice(0, MOST_MEMBERS) : [];
      return Object.fromEntries(members.map(([name, inner]) => [name, example(inner, depth + 1)]));
    }
    case "array":
      return [example(schema.items, depth + 1)];
    case "integer":
    case "number":
      return 1;
    case "boolean":
      return true;
    case "string":
      return "harbour";
    default:
      return null;
  }
}
