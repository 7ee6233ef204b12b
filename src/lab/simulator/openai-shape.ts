import type { AnswerParts, AnswerShape, AnswerUsage, FinishedChoice } from "./answer-shape.ts";
import type { SimApiError } from "./api-error.ts";
import type { FinishReason } from "./lengths.ts";

/** The last event of a stream. */
const DONE_EVENT = "data: [DONE]\n\n";

/** Chat and text completions of the OpenAI API. The constant parts of a stream are built once. */
export class OpenAiShape implements AnswerShape {
  readonly #chat: boolean;
  readonly #parts: AnswerParts;
  readonly #id: string;
  readonly #callId: string;
  readonly #chunkStart: string;
  /** The text after `choices`: OpenAI sends `usage: null` on every chunk but the last if the request asks for usage. */
  readonly #chunkEnd: string;
  readonly #tokenStarts: string[] = [];
  readonly #tokenEnd: string;

  constructor(chat: boolean, parts: AnswerParts) {
    this.#chat = chat;
    this.#parts = parts;
    this.#id = `${chat ? "chatcmpl" : "cmpl"}-${parts.requestId}`;
    this.#callId = `chatcmpl-tool-${parts.requestId}`;
    const object = chat ? "chat.completion.chunk" : "text_completion";
    this.#chunkStart = `data: {"id":${JSON.stringify(this.#id)},"object":"${object}","created":${parts.created},"model":${JSON.stringify(parts.model)},"choices":[`;
    this.#chunkEnd = parts.includeUsage ? '],"usage":null}\n\n' : "]}\n\n";
    const delta = parts.call === undefined ? (chat ? "}" : "") : "}}]}";
    this.#tokenEnd = `${delta},"logprobs":null,"finish_reason":null}${this.#chunkEnd}`;
  }

  /** The role chunk of a chat and the name of a called tool, nothing for text. */
  opening(index: number): string {
    if (!this.#chat) return "";
    const role = `${this.#chunkStart}{"index":${index},"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}${this.#chunkEnd}`;
    const { call } = this.#parts;
    if (call === undefined) return role;
    const named = {
      index: 0,
      id: this.#callIdOf(index),
      type: "function",
      function: { name: call.name, arguments: "" },
    };
    return `${role}${this.#chunkStart}{"index":${index},"delta":{"tool_calls":[${JSON.stringify(named)}]},"logprobs":null,"finish_reason":null}${this.#chunkEnd}`;
  }

  token(index: number, json: string): string {
    this.#tokenStarts[index] ??= this.#tokenStart(index);
    return this.#tokenStarts[index] + json + this.#tokenEnd;
  }

  closing(index: number, reason: FinishReason): string {
    const empty = this.#chat ? '"delta":{}' : '"text":""';
    return `${this.#chunkStart}{"index":${index},${empty},"logprobs":null,"finish_reason":"${this.#reason(reason)}"}${this.#chunkEnd}`;
  }

  /** The event with the token counts, without choices, where the request asks for it; then the last event. */
  ending(usage: AnswerUsage): string {
    if (!this.#parts.includeUsage) return DONE_EVENT;
    return `${this.#chunkStart}],"usage":${JSON.stringify(usageJson(usage))}}\n\n${DONE_EVENT}`;
  }

  failing(error: SimApiError): string {
    return `data: ${JSON.stringify(error)}\n\n${DONE_EVENT}`;
  }

  document(choices: readonly FinishedChoice[], usage: AnswerUsage): string {
    return JSON.stringify({
      id: this.#id,
      object: this.#chat ? "chat.completion" : "text_completion",
      created: this.#parts.created,
      model: this.#parts.model,
      choices: choices.map(({ text, finishReason }, index) => ({
        index,
        ...(this.#chat ? { message: this.#message(index, text) } : { text }),
        logprobs: null,
        finish_reason: this.#reason(finishReason),
      })),
      usage: usageJson(usage),
    });
  }

  #message(index: number, text: string): object {
    const { call } = this.#parts;
    if (call === undefined) return { role: "assistant", content: text, refusal: null };
    const made = { id: this.#callIdOf(index), type: "function", function: { name: call.name, arguments: text } };
    return { role: "assistant", content: null, refusal: null, tool_calls: [made] };
  }

  #tokenStart(index: number): string {
    const before = !this.#chat
      ? '"text":'
      : this.#parts.call === undefined
        ? '"delta":{"content":'
        : '"delta":{"tool_calls":[{"index":0,"function":{"arguments":';
    return `${this.#chunkStart}{"index":${index},${before}`;
  }

  #callIdOf(index: number): string {
    return index === 0 ? this.#callId : `${this.#callId}-${index}`;
  }

  #reason(reason: FinishReason): string {
    return this.#parts.call !== undefined && reason === "stop" ? "tool_calls" : reason;
  }
}

function usageJson({ promptTokens, completionTokens, cachedTokens }: AnswerUsage): object {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: cachedTokens === undefined ? null : { cached_tokens: cachedTokens },
  };
}
