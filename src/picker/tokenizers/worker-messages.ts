import type { ChatTemplateOptions } from "./chat-template.ts";
import type { TokenizedApi } from "./request-prompts.ts";

/** What a worker gets when it starts. */
export interface WorkerSettings extends ChatTemplateOptions {
  /** Bytes that the remembered pieces of one model may take in one worker. */
  readonly cacheBytes: number;
  /** Path of a chat template in place of that of the model; undefined = none. */
  readonly chatTemplate: string | undefined;
}

/** One request to tokenize. */
export interface Job {
  readonly id: number;
  /** Path of the model's `tokenizer.json`. */
  readonly path: string;
  readonly api: TokenizedApi;
  readonly body: Uint8Array<ArrayBuffer>;
  /** What stands in the prompt for each image, video and sound, in the order of the body. */
  readonly media: readonly { readonly token: number; readonly count: number }[];
}

/** Loads the tokenizer of a model before the first request needs it. */
export interface Load {
  readonly id: number;
  readonly path: string;
}

/** Counts of a worker since its start. */
export interface WorkerCounts {
  /** Pieces of text that were remembered, and that were not. */
  readonly hits: number;
  readonly misses: number;
  readonly cacheBytes: number;
}

/** Why a job has no tokens: the files of the model, or the request. */
export type Fault = "file" | "request";

/** The answer to a job or a load. */
export type Answer = { readonly id: number; readonly counts: WorkerCounts } & (
  | {
      readonly tokens: Uint8Array<ArrayBuffer>;
      readonly prompts: readonly { readonly start: number; readonly end: number }[];
      readonly count: number;
    }
  | { readonly nothing: true }
  | { readonly fault: Fault; readonly message: string }
);
