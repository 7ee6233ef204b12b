import type { AnswerParts, AnswerShape } from "./answer-shape.ts";
import type { SimApiError } from "./api-error.ts";
import type { GenerationApi } from "./generation-request.ts";
import { MessagesShape, messagesError } from "./messages-shape.ts";
import { OpenAiShape } from "./openai-shape.ts";
import { ResponsesShape } from "./responses-shape.ts";

/** The shape of an answer in an API. */
export function shapeOf(api: GenerationApi, parts: AnswerParts): AnswerShape {
  switch (api) {
    case "messages":
      return new MessagesShape(parts);
    case "responses":
      return new ResponsesShape(parts);
    default:
      return new OpenAiShape(api === "chat", parts);
  }
}

/** The body of an error answer at a path. */
export function errorBody(error: SimApiError, path: string): object {
  return path.startsWith("/v1/messages") ? messagesError(error) : error.toJSON();
}
