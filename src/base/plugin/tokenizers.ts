import type { Clock } from "../clock/clock.ts";
import type { InferenceRequest } from "../inference/request.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { TokenizedPrompt } from "./keys.ts";

/** Where tokenizers come from, and how many threads run them. */
export interface TokenizerSettings {
  /** The model whose tokenizer serves every request; undefined = that of the model in the request. */
  readonly modelName: string | undefined;
  /** By model: the path of its `tokenizer.json`, or of the folder with it. Wins over what the folders hold. */
  readonly modelTokenizerMap: ReadonlyMap<string, string>;
  /** Folders that are searched for the tokenizers of further models. */
  readonly directories: readonly string[];
  /** The name of the searched files. */
  readonly fileName: string;
  /** Threads, from 1 up. */
  readonly workers: number;
  /** Bytes that the remembered beginnings of prompts may take, for each model and thread; 0 = none are remembered. */
  readonly cacheBytes: number;
  /** Path of a chat template in place of those of the models; undefined = none. */
  readonly chatTemplate: string | undefined;
  readonly chatTemplateContentFormat: "auto" | "string" | "openai";
  readonly chatTemplateKwargs: Readonly<Record<string, unknown>>;
}

/** What stands in a prompt for an image, a video or a sound: a number `count` times, and its place in the body. */
export interface MediaTokens {
  readonly token: number;
  readonly count: number;
  readonly start: number;
  readonly end: number;
}

/** Tokenizers of models, in threads of their own. */
export interface Tokenizers {
  /**
   * @returns undefined for an API without a tokenization and for a prompt without tokens
   * @throws SluiceError TOKENIZER_MODEL, TOKENIZER_FILE, TOKENIZER_REQUEST, TOKENIZER_LIMIT, TOKENIZER_FAILED; the signal's reason
   */
  tokens(
    request: InferenceRequest,
    media: readonly MediaTokens[],
    signal: AbortSignal,
  ): Promise<TokenizedPrompt | undefined>;
  /** Whether the tokenizer of `modelName` is in memory, or cannot get there. */
  ready(): boolean;
  close(): void;
  /** JSON, bounded, without prompt text. */
  state(): unknown;
}

/** Starts tokenizers. A process that has no threads, such as a page, has no such function. */
export type StartTokenizers = (
  settings: TokenizerSettings,
  parts: { readonly clock: Clock; readonly log: Logger },
) => Tokenizers;
