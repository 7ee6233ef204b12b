import { ApiError } from "../api-error.ts";
import { chooseModel } from "../context.ts";
import { chatPrompt } from "../prompts.ts";
import { tokenize, tokenizePieces } from "../tokenizer.ts";
import { type Handler, jsonBody, sendJson } from "./route.ts";

/** `POST /tokenize` with `prompt` (a string) or `messages`; `return_token_strs` adds the tokens of a prompt as text. */
export const tokenizeText: Handler = async (exchange) => {
  const body = await jsonBody(exchange);
  if (!body) return;
  chooseModel(exchange.context, body.model);
  const { prompt } = body;
  if (typeof prompt !== "string" && body.messages === undefined) {
    throw new ApiError(400, "give prompt (a string) or messages", "prompt");
  }
  const tokens = typeof prompt === "string" ? tokenize(prompt) : chatPrompt(body).tokens;
  sendJson(exchange.response, 200, {
    count: tokens.length,
    max_model_len: exchange.context.settings.maxModelLen,
    tokens: Array.from(tokens),
    token_strs: body.return_token_strs === true && typeof prompt === "string" ? tokenizePieces(prompt) : null,
  });
};
