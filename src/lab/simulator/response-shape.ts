import type { FinishReason } from "./lengths.ts";

/** Token counts of one answer. `cachedTokens` is undefined when there is no prefix cache. */
export interface Usage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cachedTokens: number | undefined;
}

/** One finished answer. */
export interface FinishedChoice {
  readonly text: string;
  readonly finishReason: FinishReason;
}

/** The last event of every stream. */
export const DONE_EVENT = "data: [DONE]\n\n";

/**
 * The JSON of one response, chat or text, streamed or whole, in the field shapes of the OpenAI API. What is the same
 * for every token of a stream is put together once.
 */
export class ResponseShape {
  readonly #chat: boolean;
  readonly #id: string;
  readonly #created: number;
  readonly #model: string;
  readonly #chunkStart: string;
  /** Behind `choices`: OpenAI sends `usage: null` on every chunk but the last when usage was asked for. */
  readonly #chunkEnd: string;
  /** Behind the text of a token. */
  readonly tokenEnd: string;

  /**
   * @param parts.requestId id of the response, without its prefix
   * @param parts.created Unix seconds
   */
  constructor(parts: { chat: boolean; requestId: string; created: number; model: string; includeUsage: boolean }) {
    this.#chat = parts.chat;
    this.#id = `${parts.chat ? "chatcmpl" : "cmpl"}-${parts.requestId}`;
    this.#created = parts.created;
    this.#model = parts.model;
    const object = parts.chat ? "chat.completion.chunk" : "text_completion";
    this.#chunkStart = `data: {"id":${JSON.stringify(this.#id)},"object":"${object}","created":${this.#created},"model":${JSON.stringify(this.#model)},"choices":[`;
    this.#chunkEnd = parts.includeUsage ? '],"usage":null}\n\n' : "]}\n\n";
    this.tokenEnd = `${parts.chat ? "}" : ""},"logprobs":null,"finish_reason":null}${this.#chunkEnd}`;
  }

  /** What comes before the tokens of choice `index`: the role chunk of a chat, nothing for text. */
  opening(index: number): string {
    if (!this.#chat) return "";
    return `${this.#chunkStart}{"index":${index},"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}${this.#chunkEnd}`;
  }

  /** The event of one token is this, the token as a JSON string, and `tokenEnd`. */
  tokenStart(index: number): string {
    return `${this.#chunkStart}{"index":${index},${this.#chat ? '"delta":{"content":' : '"text":'}`;
  }

  /** The event that ends choice `index`. */
  closing(index: number, reason: FinishReason): string {
    const empty = this.#chat ? '"delta":{}' : '"text":""';
    return `${this.#chunkStart}{"index":${index},${empty},"logprobs":null,"finish_reason":"${reason}"}${this.#chunkEnd}`;
  }

  /** The event with the token counts: no choices. */
  usageEvent(usage: Usage): string {
    return `${this.#chunkStart}],"usage":${JSON.stringify(usageJson(usage))}}\n\n`;
  }

  /** The whole answer as one document. */
  document(choices: readonly FinishedChoice[], usage: Usage): string {
    return JSON.stringify({
      id: this.#id,
      object: this.#chat ? "chat.completion" : "text_completion",
      created: this.#created,
      model: this.#model,
      choices: choices.map(({ text, finishReason }, index) => ({
        index,
        ...(this.#chat ? { message: { role: "assistant", content: text, refusal: null } } : { text }),
        logprobs: null,
        finish_reason: finishReason,
      })),
      usage: usageJson(usage),
    });
  }
}

function usageJson({ promptTokens, completionTokens, cachedTokens }: Usage): object {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: cachedTokens === undefined ? null : { cached_tokens: cachedTokens },
  };
}
