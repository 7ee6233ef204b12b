import { SimApiError } from "./api-error.ts";
import { chooseModel, type ModelChoice, type SimContext } from "./context.ts";
import type { JsonObject } from "./json-body.ts";
import { tokenize, tokenizePieces } from "./tokenizer.ts";
import { demandedCall, type ToolCall } from "./tool-calls.ts";

/** The APIs that generate text. */
export type GenerationApi = "chat" | "completions" | "messages" | "responses";

/** The most answers to one prompt in one request. */
const MAX_N = 128;

/** The generation that a client asks for. */
export interface GenerationRequest {
  readonly api: GenerationApi;
  readonly model: ModelChoice;
  readonly prompts: readonly Prompt[];
  /** Answers to each prompt. */
  readonly n: number;
  readonly maxTokens: number | undefined;
  readonly ignoreEos: boolean;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly seed: number | undefined;
  readonly cacheSalt: string;
  readonly remotePrefill: boolean;
  /** The answer is a call of this tool. */
  readonly call: ToolCall | undefined;
}

/** The members that limit the answer; the first one that a request has counts. */
const LIMITS: Readonly<Record<GenerationApi, readonly string[]>> = {
  chat: ["max_completion_tokens", "max_tokens"],
  completions: ["max_completion_tokens", "max_tokens"],
  messages: ["max_tokens"],
  responses: ["max_output_tokens"],
};

const PROMPTS: Readonly<Record<GenerationApi, (body: JsonObject) => readonly Prompt[]>> = {
  chat: (body) => [chatPrompt(body)],
  completions: completionPrompts,
  messages: (body) => [messagesPrompt(body)],
  responses: (body) => [responsesPrompt(body)],
};

/**
 * Reads the body of a request for text; ignores members without effect in the simulator (temperature, stop, ...).
 * @throws SimApiError 400 or 404
 */
export function readGenerationRequest(context: SimContext, api: GenerationApi, body: JsonObject): GenerationRequest {
  const model = chooseModel(context, body.model);
  const prompts = PROMPTS[api](body);
  const maxTokens = LIMITS[api]
    .map((name) => wholeNumber(body, name, 1, Number.MAX_SAFE_INTEGER))
    .find((limit) => limit !== undefined);
  if (api === "messages" && maxTokens === undefined)
    throw new SimApiError(400, "max_tokens must be a whole number", "max_tokens");
  const ignoreEos = flag(body, "ignore_eos");
  if (ignoreEos && maxTokens === undefined) {
    throw new SimApiError(400, "ignore_eos needs max_tokens", "ignore_eos");
  }
  const transfer = member(body, "kv_transfer_params");
  if (transfer.do_remote_decode === true) {
    throw new SimApiError(400, "do_remote_decode is not supported by this simulator", "kv_transfer_params");
  }
  const salt = body.cache_salt;
  if (salt !== undefined && salt !== null && typeof salt !== "string") {
    throw new SimApiError(400, "cache_salt must be a string", "cache_salt");
  }
  const one = api === "messages" || api === "responses";
  return {
    api,
    model,
    prompts,
    n: one ? 1 : (wholeNumber(body, "n", 1, MAX_N) ?? 1),
    maxTokens,
    ignoreEos,
    stream: flag(body, "stream"),
    includeUsage: flag(member(body, "stream_options"), "include_usage"),
    seed: wholeNumber(body, "seed", Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER),
    cacheSalt: salt ?? "",
    remotePrefill: transfer.do_remote_prefill === true,
    call: api === "completions" ? undefined : demandedCall(body),
  };
}

function wholeNumber(body: JsonObject, name: string, min: number, max: number): number | undefined {
  const value = body[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "number" || !Number.isInteger(value) || value < min || value > max) {
    throw new SimApiError(400, `${name} must be a whole number from ${min} to ${max}`, name);
  }
  return value;
}

function flag(body: JsonObject, name: string): boolean {
  const value = body[name];
  if (value === undefined || value === null) return false;
  if (typeof value !== "boolean") throw new SimApiError(400, `${name} must be true or false`, name);
  return value;
}

function member(body: JsonObject, name: string): JsonObject {
  const value = body[name];
  if (value === undefined || value === null) return {};
  if (typeof value !== "object" || Array.isArray(value)) throw new SimApiError(400, `${name} must be an object`, name);
  return value as JsonObject;
}

/** The most prompts in one request. */
const MAX_PROMPTS = 128;

/** One prompt: its tokens, and its text for echo mode. */
export interface Prompt {
  readonly tokens: Uint32Array;
  /** At least one piece. */
  echo(): readonly string[];
}

/**
 * The prompt of a chat: tool definitions, then every message as `role: content`, then the cue for the answer. So a longer
 * conversation starts with the tokens of the shorter one.
 * @throws SimApiError 400 when `messages` is not a list of messages
 */
export function chatPrompt(body: JsonObject): Prompt {
  return conversation(body.messages, toolText(body));
}

/** The prompt of Anthropic's messages: the same, with the text of `system` as the first message. */
export function messagesPrompt(body: JsonObject): Prompt {
  const { system } = body;
  const before = system === undefined ? "" : `system: ${contentText(system, 0)}\n`;
  return conversation(body.messages, toolText(body) + before);
}

/** The prompt of a response: `input` is a string or a list of messages and items, which follow the `instructions`. */
function responsesPrompt(body: JsonObject): Prompt {
  const { input, instructions } = body;
  const before = typeof instructions === "string" ? `system: ${instructions}\n` : "";
  if (typeof input === "string") return conversation([{ role: "user", content: input }], before + toolText(body));
  if (!Array.isArray(input) || input.length === 0)
    throw new SimApiError(400, "input must be a string or a list with at least one item", "input");
  // Items without a role, such as results of tools, count with all their bytes.
  const messages = input.map((item) =>
    typeof item?.role === "string" ? item : { role: "item", content: JSON.stringify(item) },
  );
  return conversation(messages, before + toolText(body));
}

function toolText({ tools }: JsonObject): string {
  return Array.isArray(tools) && tools.length > 0 ? `${JSON.stringify(tools)}\n` : "";
}

function conversation(messages: unknown, before: string): Prompt {
  if (!Array.isArray(messages) || messages.length === 0) {
    throw new SimApiError(400, "messages must be a list with at least one message", "messages");
  }
  let text = before;
  let last = "";
  for (const [at, message] of messages.entries()) {
    const { role, content } = (message ?? {}) as Record<string, unknown>;
    if (typeof role !== "string") throw new SimApiError(400, `messages[${at}].role must be a string`, "messages");
    last = contentText(content, at);
    text += `${role}: ${last}\n`;
  }
  return textPrompt(`${text}assistant: `, last);
}

/**
 * The prompts of a text completion: a string, several strings, token ids, or several lists of token ids.
 * @throws SimApiError 400 when `prompt` is none of these, empty, or holds more than 128 prompts
 */
function completionPrompts(body: JsonObject): Prompt[] {
  const { prompt } = body;
  const items: readonly unknown[] = Array.isArray(prompt) && typeof prompt[0] !== "number" ? prompt : [prompt];
  if (items.length === 0) throw new SimApiError(400, "prompt must not be empty", "prompt");
  if (items.length > MAX_PROMPTS) throw new SimApiError(400, `at most ${MAX_PROMPTS} prompts in one request`, "prompt");
  return items.map((item) => {
    if (item === "" || (Array.isArray(item) && item.length === 0)) {
      throw new SimApiError(400, "prompt must not be empty", "prompt");
    }
    if (typeof item === "string") return textPrompt(item, item);
    if (Array.isArray(item) && item.every(isTokenId)) return idPrompt(Uint32Array.from(item));
    throw new SimApiError(400, "prompt must be a string, a list of strings, token ids or lists of token ids", "prompt");
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

/** Text of a message: a string, the parts of a list, or nothing. For media, the text is their address. */
function contentText(content: unknown, at: number): string {
  if (typeof content === "string") return content;
  if (content === null || content === undefined) return "";
  if (!Array.isArray(content)) {
    throw new SimApiError(400, `messages[${at}].content must be a string or a list of parts`, "messages");
  }
  let text = "";
  for (const part of content as unknown[]) {
    const {
      type,
      text: own,
      image_url: image,
    } = (part ?? {}) as {
      type?: unknown;
      text?: unknown;
      image_url?: { url?: unknown };
    };
    if (typeof own === "string") text += own;
    // Blocks of Anthropic's messages.
    else if (type === "tool_use" || type === "tool_result" || type === "image") text += JSON.stringify(part);
    else if (typeof image?.url === "string") text += image.url;
    else
      throw new SimApiError(400, `messages[${at}].content holds a part that is neither text nor image_url`, "messages");
  }
  return text;
}
