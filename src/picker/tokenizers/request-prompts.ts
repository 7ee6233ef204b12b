import { isObject } from "../../base/document/json-object.ts";
import { chatOfMessages } from "./anthropic.ts";
import type { Json } from "./chat-messages.ts";
import type { ModelTokenizer } from "./model-tokenizer.ts";
import { RequestUnusable } from "./unusable.ts";

/** The APIs whose prompts have tokens here. */
export type TokenizedApi = "chat" | "completions" | "messages";

/** The most prompts of one request, as in the parsers. */
const MAX_PROMPTS = 256;
const MAX_TOKEN = 2 ** 32 - 1;

/**
 * Returns the tokens of each prompt of a request, as an engine's `/tokenize` returns them.
 * @param body of a request to that API, decoded
 * @throws RequestUnusable
 */
export function promptsOf(api: TokenizedApi, body: unknown, tokenizer: ModelTokenizer): (readonly number[])[] {
  if (!isObject(body)) throw new RequestUnusable("the body is not an object");
  if (body["truncate_prompt_tokens"] !== undefined && body["truncate_prompt_tokens"] !== null)
    throw new RequestUnusable("the request lets the engine truncate the prompt");
  if (api === "completions") return completionPrompts(body, tokenizer);
  if (api === "chat") return [tokenizer.chat(body)];
  const { chat_template_kwargs, output_config: output } = body;
  const effort = isObject(output) ? output["effort"] : undefined;
  return [tokenizer.chat({ ...chatOfMessages(body), chat_template_kwargs, reasoning_effort: effort })];
}

function completionPrompts(body: Json, tokenizer: ModelTokenizer): (readonly number[])[] {
  const { prompt, add_special_tokens: special = true } = body;
  if (typeof prompt === "string") return [tokenizer.text(prompt, special === true)];
  if (!Array.isArray(prompt) || prompt.length === 0)
    throw new RequestUnusable("the prompt is neither a text nor a list");
  if (typeof prompt[0] === "number") return [tokenList(prompt)];
  if (prompt.length > MAX_PROMPTS) throw new RequestUnusable(`the request has more than ${MAX_PROMPTS} prompts`);
  return prompt.map((one: unknown) =>
    typeof one === "string" ? tokenizer.text(one, special === true) : tokenList(one),
  );
}

function tokenList(list: unknown): readonly number[] {
  if (!Array.isArray(list) || !list.every((token) => Number.isInteger(token) && token >= 0 && token <= MAX_TOKEN))
    throw new RequestUnusable("a prompt is neither a text nor a list of tokens");
  return list as number[];
}
