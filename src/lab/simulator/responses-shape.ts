import {
  type AnswerParts,
  type AnswerShape,
  type AnswerUsage,
  type FinishedChoice,
  namedEvent,
} from "./answer-shape.ts";
import type { SimApiError } from "./api-error.ts";
import type { FinishReason } from "./lengths.ts";

type Status = "in_progress" | "completed" | "incomplete";

/** OpenAI's Responses API: one answer with one item. */
export class ResponsesShape implements AnswerShape {
  readonly #parts: AnswerParts;
  readonly #itemId: string;
  #sequence = 0;
  #finished: FinishedChoice | undefined;

  constructor(parts: AnswerParts) {
    this.#parts = parts;
    this.#itemId = `${parts.call === undefined ? "msg" : "fc"}_${parts.requestId}`;
  }

  opening(): string {
    const response = this.#response("in_progress", [], null);
    const start =
      this.#event("response.created", { response }) +
      this.#event("response.in_progress", { response }) +
      this.#event("response.output_item.added", { output_index: 0, item: this.#item("in_progress", undefined) });
    if (this.#parts.call !== undefined) return start;
    return start + this.#event("response.content_part.added", { ...this.#place(), part: textPart("") });
  }

  token(_index: number, json: string): string {
    const name =
      this.#parts.call === undefined ? "response.output_text.delta" : "response.function_call_arguments.delta";
    const { item_id, ...place } = this.#place();
    const before = JSON.stringify({ type: name, sequence_number: this.#sequence++, item_id, ...place }).slice(0, -1);
    return `event: ${name}\ndata: ${before},"delta":${json}}\n\n`;
  }

  closing(_index: number, finishReason: FinishReason, text: () => string): string {
    this.#finished = { text: text(), finishReason };
    const { call } = this.#parts;
    const place = this.#place();
    const whole = this.#finished.text;
    // The numbers of events follow the order of the calls.
    const events =
      call === undefined
        ? [
            this.#event("response.output_text.done", { ...place, text: whole, logprobs: [] }),
            this.#event("response.content_part.done", { ...place, part: textPart(whole) }),
          ]
        : [this.#event("response.function_call_arguments.done", { ...place, name: call.name, arguments: whole })];
    const item = this.#item(statusOf(finishReason), whole);
    return events.join("") + this.#event("response.output_item.done", { output_index: 0, item });
  }

  ending(usage: AnswerUsage): string {
    const { text, finishReason } = this.#finished!;
    const status = statusOf(finishReason);
    return this.#event(`response.${status}`, { response: this.#response(status, [this.#item(status, text)], usage) });
  }

  failing(error: SimApiError): string {
    const { message, param, code } = error.toJSON().error;
    return this.#event("error", { message, param, code: String(code) });
  }

  document([choice]: readonly FinishedChoice[], usage: AnswerUsage): string {
    const status = statusOf(choice!.finishReason);
    return JSON.stringify(this.#response(status, [this.#item(status, choice!.text)], usage));
  }

  #event(name: string, data: object): string {
    return namedEvent(name, { sequence_number: this.#sequence++, ...data });
  }

  #place(): { item_id: string; output_index: number; content_index?: number } {
    const place = { item_id: this.#itemId, output_index: 0 };
    return this.#parts.call === undefined ? { ...place, content_index: 0 } : place;
  }

  /** @param text undefined: nothing yet */
  #item(status: Status, text: string | undefined): object {
    const { call, requestId } = this.#parts;
    const common = { id: this.#itemId, status };
    if (call !== undefined)
      return { ...common, type: "function_call", call_id: `call_${requestId}`, name: call.name, arguments: text ?? "" };
    return { ...common, type: "message", role: "assistant", content: text === undefined ? [] : [textPart(text)] };
  }

  #response(status: Status, output: readonly object[], usage: AnswerUsage | null): object {
    return {
      id: `resp_${this.#parts.requestId}`,
      object: "response",
      created_at: this.#parts.created,
      status,
      error: null,
      incomplete_details: status === "incomplete" ? { reason: "max_output_tokens" } : null,
      instructions: null,
      metadata: {},
      model: this.#parts.model,
      output,
      parallel_tool_calls: true,
      temperature: 1,
      tool_choice: "auto",
      tools: [],
      top_p: 1,
      usage: usage === null ? null : usageJson(usage),
    };
  }
}

function statusOf(reason: FinishReason): Status {
  return reason === "length" ? "incomplete" : "completed";
}

function textPart(text: string): object {
  return { type: "output_text", text, annotations: [], logprobs: [] };
}

function usageJson({ promptTokens, completionTokens, cachedTokens }: AnswerUsage): object {
  return {
    input_tokens: promptTokens,
    input_tokens_details: { cached_tokens: cachedTokens ?? 0 },
    output_tokens: completionTokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: promptTokens + completionTokens,
  };
}
