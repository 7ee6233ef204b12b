import type { BytesPerToken } from "../../base/inference/bytes-per-token.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import { textToLearnFrom } from "../scheduling/tokens/learnable-text.ts";
import type { ResponseObserver } from "./response-observer.ts";

/** A request from whose answer the process learns the bytes per token of its model. */
export class TokenLesson {
  readonly #learner: BytesPerToken;
  readonly #model: string;
  /** Bytes of the prompt's text. */
  readonly #text: number;

  private constructor(learner: BytesPerToken, model: string, text: number) {
    this.#learner = learner;
    this.#model = model;
    this.#text = text;
  }

  /** @returns undefined = the answer to this request teaches nothing */
  static from(learner: BytesPerToken | undefined, request: InferenceRequest): TokenLesson | undefined {
    if (learner === undefined) return undefined;
    const text = textToLearnFrom(learner, request);
    return Number.isNaN(text) ? undefined : new TokenLesson(learner, request.targetModel, text);
  }

  /**
   * @param response complete
   * @param path of the request
   * @param now monotonic milliseconds
   */
  learn(response: ResponseObserver, path: string, now: number): void {
    const tokens = response.countedPromptTokens(path);
    if (tokens !== undefined) this.#learner.learn(this.#model, this.#text, tokens, now);
  }
}
