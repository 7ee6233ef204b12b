import { ApiError } from "./api-error.ts";
import type { JsonObject } from "./json-body.ts";
import { tokenize, tokenizePieces } from "./tokenizer.ts";

/** Prompts in one request. */
const MAX_PROMPTS = 128;

/** One prompt: its tokens, and what echo mode answers to it. */
export interface Prompt {
  readonly tokens: Uint32Array;
  /** At least one piece. */
  echo(): readonly string[];
}

/**
 * The prompt of a chat: tool definitions, then every message as `role: content`, then the cue for the answer, so that
 * a longer conversation starts with the tokens of the shorter one.
 * @throws ApiError 400 when `messages` is not a list of messages
 */
export function chatPrompt(body: JsonObject): Prompt {
  const { messages, tools } = body;
  if (!Array.isArray(messages) || messages.length === 0) {
    throw new ApiError(400, "messages must be a list with at least one message", "messages");
  }
  let text = Array.isArray(tools) && tools.length > 0 ? `${JSON.stringify(tools)}\n` : "";
  let last = "";
  for (const [at, message] of messages.entries()) {
    const { role, content } = (message ?? {}) as Record<string, unknown>;
    if (typeof role !== "string") throw new ApiError(400, `messages[${at}].role must be a string`, "messages");
    last = contentText(content, at);
    text += `${role}: ${last}\n`;
  }
  return textPrompt(`${text}assistant: `, last);
}

/**
 * The prompts of a text completion: a string, several strings, token ids, or several lists of token ids.
 * @throws ApiError 400 when `prompt` is none of these, empty, or holds more than 128 prompts
 */
export function completionPrompts(body: JsonObject): Prompt[] {
  const { prompt } = body;
  const items: readonly unknown[] = Array.isArray(prompt) && typeof prompt[0] !== "number" ? prompt : [prompt];
  if (items.length === 0) throw new ApiError(400, "prompt must not be empty", "prompt");
  if (items.length > MAX_PROMPTS) throw new ApiError(400, `at most ${MAX_PROMPTS} prompts in one request`, "prompt");
  return items.map((item) => {
    if (item === "" || (Array.isArray(item) && item.length === 0)) {
      throw new ApiError(400, "prompt must not be empty", "prompt");
    }
    if (typeof item === "string") return textPrompt(item, item);
    if (Array.isArray(item) && item.every(isTokenId)) return idPrompt(Uint32Array.from(item));
    throw new ApiError(400, "prompt must be a string, a list of strings, token ids or lists of token ids", "prompt");
  });
}

function textPrompt(text: string, answer: string): Prompt {
  return {
    tokens: tokenize(text),
    echo: () => (answer === "" ? [""] : tokenizePieces(answer)),
  };
}

function idPrompt(tokens: Uint32Array): Prompt {
  return { tokens, echo: () => Array.from(tokens, (id, at) => (at === 0 ? String(id) : ` ${id}`)) };
}

function isTokenId(value: unknown): boolean {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value < 2 ** 32;
}

/** Text of a message: a string, the parts of a list, or nothing. Media count with their address. */
function contentText(content: unknown, at: number): string {
  if (typeof content === "string") return content;
  if (content === null || content === undefined) return "";
  if (!Array.isArray(content)) {
    throw new ApiError(400, `messages[${at}].content must be a string or a list of parts`, "messages");
  }
  let text = "";
  for (const part of content as unknown[]) {
    const { text: own, image_url: image } = (part ?? {}) as { text?: unknown; image_url?: { url?: unknown } };
    if (typeof own === "string") text += own;
    else if (typeof image?.url === "string") text += image.url;
    else throw new ApiError(400, `messages[${at}].content holds a part that is neither text nor image_url`, "messages");
  }
  return text;
}
