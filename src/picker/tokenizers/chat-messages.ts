import { isObject } from "../../base/document/json-object.ts";
import { RequestUnusable } from "./unusable.ts";

export type Json = Readonly<Record<string, unknown>>;

/** How a chat template reads the content of a message: as one text, or as a list of parts. */
export type ContentFormat = "string" | "openai";

/** A message as chat templates get it. */
export type TemplateMessage = Record<string, unknown>;

/**
 * Returns the messages of a chat as vLLM passes them to a chat template: each content as one text or as a list of parts, media as
 * parts without their address, arguments of tool calls as objects.
 * @throws RequestUnusable for messages that vLLM refuses, too
 */
export function templateMessages(messages: unknown, format: ContentFormat): TemplateMessage[] {
  if (!Array.isArray(messages)) throw new RequestUnusable("messages are not a list");
  return messages.map((message) => {
    if (!isObject(message) || typeof message["role"] !== "string") throw new RequestUnusable("a message has no role");
    return templateMessage(message, message["role"], format);
  });
}

function templateMessage(message: Json, role: string, format: ContentFormat): TemplateMessage {
  const made: TemplateMessage = { role, content: contentOf(message["content"], format) };
  if (role === "assistant") {
    const calls = toolCalls(message["tool_calls"]);
    if (calls.length > 0) made["tool_calls"] = calls;
    const reasoning = message["reasoning"] ?? message["reasoning_content"];
    if (reasoning !== undefined && reasoning !== null) {
      made["reasoning"] = reasoning;
      made["reasoning_content"] = reasoning;
    }
  } else if (role === "tool") {
    if ("tool_call_id" in message) made["tool_call_id"] = message["tool_call_id"];
    const { content } = made;
    if (Array.isArray(content) && content.every(isText)) made["content"] = content.map(({ text }) => text).join("\n");
  } else if (role === "developer") {
    made["tools"] = message["tools"] ?? null;
  }
  if (typeof message["name"] === "string") made["name"] = message["name"];
  return made;
}

function isText(part: unknown): part is { readonly text: string } {
  return isObject(part) && part["type"] === "text";
}

function contentOf(content: unknown, format: ContentFormat): string | Json[] {
  const parts = typeof content === "string" ? [content] : (content ?? []);
  if (!Array.isArray(parts)) throw new RequestUnusable("the content of a message is neither a text nor a list");
  const made = parts.map(partOf).filter((part) => part !== undefined);
  if (format === "openai") return made;
  // Where a template takes texts only, the model's own code in the engine decides where the placeholder of an image goes.
  if (!made.every(isText)) throw new RequestUnusable("the chat template does not support images, videos and sounds");
  return made.map(({ text }) => text).join("\n");
}

const TEXTS: readonly string[] = ["text", "input_text", "output_text", "refusal", "thinking"];
/** The modality of each kind of part, which is what templates test. */
const MEDIA: ReadonlyMap<string, string> = new Map([
  ["image_url", "image"],
  ["input_image", "image"],
  ["image_pil", "image"],
  ["audio_url", "audio"],
  ["input_audio", "audio"],
  ["video_url", "video"],
]);

/** Returns undefined for a text part without a text. @throws RequestUnusable for parts of unknown kinds */
function partOf(part: unknown): Json | undefined {
  if (typeof part === "string") return { type: "text", text: part };
  if (!isObject(part)) throw new RequestUnusable("a part of a message is neither a text nor an object");
  const type = typeof part["type"] === "string" ? part["type"] : [...MEDIA.keys()].find((kind) => kind in part);
  if (type === undefined) throw new RequestUnusable("a part of a message has no type");
  if (TEXTS.includes(type)) {
    const text = part[type === "refusal" || type === "thinking" ? type : "text"];
    return typeof text === "string" ? { type: "text", text } : undefined;
  }
  const modality = MEDIA.get(type);
  if (modality === undefined) throw new RequestUnusable("Sluice cannot tokenize the type of a message part");
  return { type: modality };
}

/** Returns the tool calls with their arguments as objects; `{}` where they are no JSON, as in vLLM. */
function toolCalls(calls: unknown): Json[] {
  if (calls === undefined || calls === null) return [];
  if (!Array.isArray(calls)) throw new RequestUnusable("tool_calls is not a list");
  return calls.map((call) => {
    const made = isObject(call) ? call["function"] : undefined;
    if (!isObject(made)) throw new RequestUnusable("a tool call has no function");
    return { ...(call as Json), function: { ...made, arguments: argumentsOf(made["arguments"]) } };
  });
}

function argumentsOf(given: unknown): unknown {
  if (typeof given === "object" && given !== null) return given;
  if (typeof given !== "string") return {};
  try {
    return JSON.parse(given);
  } catch {
    return {};
  }
}

/**
 * Returns tools as vLLM passes them to a chat template: with the members of its own schema first and in its order, and null for
 * those that are absent. Undefined = no tools.
 */
export function templateTools(tools: unknown): Json[] | undefined {
  if (tools === undefined || tools === null) return undefined;
  if (!Array.isArray(tools)) throw new RequestUnusable("tools are not a list");
  return tools.map((tool) => {
    if (!isObject(tool) || !isObject(tool["function"])) throw new RequestUnusable("a tool has no function");
    const { type = "function", function: made, ...others } = tool;
    const { name, description = null, parameters = null, ...more } = made as Json;
    return { type, function: { name, description, parameters, ...more }, ...others };
  });
}
