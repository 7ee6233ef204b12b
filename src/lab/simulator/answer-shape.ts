import type { SimApiError } from "./api-error.ts";
import type { FinishReason } from "./lengths.ts";
import type { ToolCall } from "./tool-calls.ts";

/** Token counts of one answer. `cachedTokens` is undefined when there is no prefix cache. */
export interface AnswerUsage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cachedTokens: number | undefined;
}

/** One finished answer. */
export interface FinishedChoice {
  /** With a call, the JSON of its arguments. */
  readonly text: string;
  readonly finishReason: FinishReason;
}

/** The facts about a response that are known before its first token. */
export interface AnswerParts {
  /** Id of the response, without its prefix. */
  readonly requestId: string;
  /** Unix seconds. */
  readonly created: number;
  readonly model: string;
  readonly includeUsage: boolean;
  /** The answers are calls of this tool. */
  readonly call: ToolCall | undefined;
}

/** The bytes of one response, streamed or whole, in the field shapes of one API. */
export interface AnswerShape {
  /** The text before the tokens of choice `index`. */
  opening(index: number, usage: AnswerUsage): string;
  /** The event with one token. @param json the token as a JSON string, quotes included */
  token(index: number, json: string): string;
  /** The end of choice `index`. @param text makes the whole text of the choice, which few APIs repeat */
  closing(index: number, reason: FinishReason, text: () => string): string;
  /** The end of the stream. */
  ending(usage: AnswerUsage): string;
  /** The end of a stream that breaks off. */
  failing(error: SimApiError): string;
  /** The whole answer as one document. */
  document(choices: readonly FinishedChoice[], usage: AnswerUsage): string;
}

/** A named server-sent event. */
export function namedEvent(name: string, data: object): string {
  return `event: ${name}\ndata: ${JSON.stringify({ type: name, ...data })}\n\n`;
}
