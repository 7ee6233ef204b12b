import { isObject } from "../../base/document/json-object.ts";
import type { Json } from "./chat-messages.ts";
import { RequestUnusable } from "./unusable.ts";

/** A chat in OpenAI's form. */
export interface Chat {
  readonly messages: readonly Json[];
  readonly tools: readonly Json[] | undefined;
}

/** The beginning of a system text with a hash of its own for each request, which engines leave out. */
const BILLING = "x-anthropic-billing-header";

/**
 * Returns the chat that vLLM makes of a request to `/v1/messages`.
 * @throws RequestUnusable for a request of another form
 */
export function chatOfMessages(request: Json): Chat {
  const given = request["messages"];
  if (!Array.isArray(given) || !given.every(isObject)) throw new RequestUnusable("messages are not a list of objects");
  const system = [request["system"], ...given.filter(({ role }) => role === "system").map(({ content }) => content)];
  const text = system.flatMap(systemTexts).join("");
  const messages: Json[] = text === "" ? [] : [{ role: "system", content: text }];
  for (const message of given) if (message["role"] !== "system") addMessage(message, messages);
  return { messages, tools: toolsOf(request["tools"]) };
}

function systemTexts(content: unknown): string[] {
  if (typeof content === "string") return [content];
  if (!Array.isArray(content)) return [];
  return content
    .filter((block) => isObject(block) && block["type"] === "text" && typeof block["text"] === "string")
    .map((block) => (block as { readonly text: string }).text)
    .filter((text) => !text.startsWith(BILLING));
}

/** Adds a message, and before it those that its tool results become. */
function addMessage(message: Json, to: Json[]): void {
  const { role, content } = message;
  if (typeof content === "string") {
    to.push({ role, content });
    return;
  }
  if (!Array.isArray(content)) throw new RequestUnusable("the content of a message is neither a text nor a list");
  const parts: Json[] = [];
  const calls: Json[] = [];
  let reasoning: string | undefined;
  for (const block of content) {
    if (!isObject(block)) throw new RequestUnusable("a block of a message is not an object");
    if (block["type"] === "text" && block["text"] !== "") parts.push({ type: "text", text: block["text"] });
    else if (block["type"] === "image" && isObject(block["source"])) parts.push(IMAGE);
    else if (block["type"] === "thinking" && typeof block["thinking"] === "string")
      reasoning = (reasoning ?? "") + block["thinking"];
    else if (block["type"] === "tool_use") calls.push(toolCall(block));
    else if (block["type"] === "tool_result" && role === "user") addToolResult(block, to);
    else if (block["type"] === "tool_result") parts.push({ type: "text", text: `Tool result: ${resultText(block)}` });
  }
  const made: Record<string, unknown> = { role };
  if (reasoning !== undefined) made["reasoning"] = reasoning;
  if (calls.length > 0) made["tool_calls"] = calls;
  if (parts.length === 1 && parts[0]!["type"] === "text") made["content"] = parts[0]!["text"];
  else if (parts.length > 0) made["content"] = parts;
  if (role !== "user" || parts.length > 0) to.push(made);
}

const IMAGE: Json = { type: "image_url" };

function toolCall({ id, name, input }: Json): Json {
  // Without an id, vLLM makes one of the time: no tokenization can equal it.
  if (typeof id !== "string" || id === "") throw new RequestUnusable("a tool_use block has no id");
  return { id, type: "function", function: { name: name ?? "", arguments: isObject(input) ? input : {} } };
}

function addToolResult(block: Json, to: Json[]): void {
  const { tool_use_id: id = "", content } = block;
  to.push({ role: "tool", tool_call_id: id, content: resultText(block) });
  const blocks = Array.isArray(content) ? content.filter(isObject) : [];
  const images = blocks.filter(({ type }) => type === "image");
  if (images.length > 0) to.push({ role: "user", content: images.map(() => IMAGE) });
}

function resultText({ content }: Json): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  const texts = content.filter((item) => isObject(item) && item["type"] === "text");
  return texts.map((item) => (item as { readonly text?: string }).text ?? "").join("\n");
}

function toolsOf(tools: unknown): Json[] | undefined {
  if (tools === undefined || tools === null) return undefined;
  if (!Array.isArray(tools)) throw new RequestUnusable("tools are not a list");
  return tools.map((tool) => {
    if (!isObject(tool)) throw new RequestUnusable("a tool is not an object");
    const { name, description = null, input_schema: schema, defer_loading: defer } = tool;
    const parameters = isObject(schema)
      ? "type" in schema
        ? schema
        : { ...schema, type: "object" }
      : { type: "object" };
    const made = {
      name,
      description,
      parameters,
      ...(defer === undefined || defer === null ? {} : { defer_loading: defer }),
    };
    return { type: "function", function: made };
  });
}
