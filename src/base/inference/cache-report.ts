/** The part of a prompt that a model server found in its prefix cache, by its own answer. */
export interface CacheReport {
  /** Tokens of the whole prompt, above 0. */
  readonly promptTokens: number;
  /** Those that the server did not have to compute, from 0 to `promptTokens`. */
  readonly cachedTokens: number;
}

/** Hears of the answer to a routed request. */
export interface AnswerListener {
  /** The first byte has come. Not called when there is no answer. */
  answered?(): void;
  /**
   * The exchange is over; called once.
   * @param report undefined = the answer does not say it, or is not complete, or the server has never reported any cached token
   */
  ended?(report: CacheReport | undefined): void;
}
