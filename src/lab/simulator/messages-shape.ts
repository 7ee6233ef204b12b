import {
  type AnswerParts,
  type AnswerShape,
  type AnswerUsage,
  type FinishedChoice,
  namedEvent,
} from "./answer-shape.ts";
import type { SimApiError } from "./api-error.ts";
import type { FinishReason } from "./lengths.ts";

/** Messages of the Anthropic API: one answer with one block of content. */
export class MessagesShape implements AnswerShape {
  readonly #parts: AnswerParts;
  readonly #tokenStart: string;
  #reason: FinishReason = "stop";

  constructor(parts: AnswerParts) {
    this.#parts = parts;
    const delta =
      parts.call === undefined ? '"type":"text_delta","text":' : '"type":"input_json_delta","partial_json":';
    this.#tokenStart = `event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{${delta}`;
  }

  opening(_index: number, usage: AnswerUsage): string {
    const message = this.#message([], null, { ...usage, completionTokens: 0 });
    return (
      namedEvent("message_start", { message }) +
      namedEvent("content_block_start", { index: 0, content_block: this.#block("", {}) })
    );
  }

  token(_index: number, json: string): string {
    return `${this.#tokenStart}${json}}}\n\n`;
  }

  closing(_index: number, reason: FinishReason): string {
    this.#reason = reason;
    return namedEvent("content_block_stop", { index: 0 });
  }

  ending(usage: AnswerUsage): string {
    const delta = { stop_reason: this.#stopReason(this.#reason), stop_sequence: null };
    return namedEvent("message_delta", { delta, usage: usageJson(usage) }) + namedEvent("message_stop", {});
  }

  failing(error: SimApiError): string {
    return `event: error\ndata: ${JSON.stringify(messagesError(error))}\n\n`;
  }

  document([choice]: readonly FinishedChoice[], usage: AnswerUsage): string {
    const { text, finishReason } = choice!;
    const block = this.#block(text, this.#parts.call === undefined ? {} : inputOf(text));
    return JSON.stringify(this.#message([block], this.#stopReason(finishReason), usage));
  }

  #message(content: readonly object[], stopReason: string | null, usage: AnswerUsage): object {
    return {
      id: `msg_${this.#parts.requestId}`,
      type: "message",
      role: "assistant",
      content,
      model: this.#parts.model,
      stop_reason: stopReason,
      stop_sequence: null,
      usage: usageJson(usage),
    };
  }

  #block(text: string, input: unknown): object {
    const { call, requestId } = this.#parts;
    return call === undefined
      ? { type: "text", text }
      : { type: "tool_use", id: `toolu_${requestId}`, name: call.name, input };
  }

  #stopReason(reason: FinishReason): string {
    if (reason === "length") return "max_tokens";
    return this.#parts.call === undefined ? "end_turn" : "tool_use";
  }
}

/** The error answer on paths of that API: the shape is Anthropic's, the words are vLLM's. */
export function messagesError(error: SimApiError): object {
  const { type, message } = error.toJSON().error;
  return { type: "error", error: { type, message } };
}

/** The arguments of a call that its limit may have cut. */
function inputOf(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return {};
  }
}

function usageJson({ promptTokens, completionTokens, cachedTokens }: AnswerUsage): object {
  const cached = cachedTokens === undefined ? {} : { cache_read_input_tokens: cachedTokens };
  return { input_tokens: promptTokens, output_tokens: completionTokens, ...cached };
}
