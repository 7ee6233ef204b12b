import type { ContentFormat } from "./chat-messages.ts";

type Node = Readonly<Record<string, unknown>>;

/**
 * Returns how a chat template reads the content of messages, by the rule of vLLM: as a list of parts when a loop of the template
 * runs over the content of a message, else as one text.
 * @param program the parsed template of `@huggingface/jinja`
 */
export function contentFormatOf(program: unknown): ContentFormat {
  const nodes = [...nodesOf(program)];
  const lists = namesFor("messages", nodes);
  const items = nodes.filter((node) => node["type"] === "For" && lists.some((name) => reads(node["iterable"], name)));
  const messages = new Set(items.map(({ loopvar }) => nameOf(loopvar)).filter((name) => name !== undefined));
  const loops = nodes.some(
    (node) => node["type"] === "For" && [...messages].some((name) => reads(node["iterable"], name, "content")),
  );
  return loops ? "openai" : "string";
}

/** A name and all names that the template gives to its value or to a part of it. */
function namesFor(name: string, nodes: readonly Node[]): string[] {
  const names = [name];
  for (const known of names)
    for (const { type, assignee, value } of nodes) {
      const other = type === "Set" ? nameOf(assignee) : undefined;
      if (other !== undefined && !names.includes(other) && reads(value, known)) names.push(other);
    }
  return names;
}

/** Whether an expression is the variable, or its member `key`, perhaps filtered, tested or sliced. */
function reads(expression: unknown, name: string, key?: string): boolean {
  const { type, operand, object, property, computed } = (expression ?? {}) as Node;
  if (type === "FilterExpression" || type === "TestExpression") return reads(operand, name, key);
  if (type !== "MemberExpression") return key === undefined && nameOf(expression) === name;
  const { type: by, value } = property as Node;
  if (by === "SliceExpression") return reads(object, name, key);
  if (key === undefined || nameOf(object) !== name) return false;
  return value === key && by === (computed === true ? "StringLiteral" : "Identifier");
}

function nameOf(expression: unknown): string | undefined {
  const { type, value } = (expression ?? {}) as Node;
  return type === "Identifier" ? (value as string) : undefined;
}

function* nodesOf(value: unknown): Generator<Node> {
  if (typeof value !== "object" || value === null) return;
  if (Array.isArray(value)) {
    for (const item of value) yield* nodesOf(item);
  } else if (value instanceof Map) {
    for (const entry of value) yield* nodesOf(entry);
  } else {
    if (typeof (value as Node)["type"] === "string") yield value as Node;
    yield* nodesOf(Object.values(value));
  }
}
