import type { RequestParser } from "../../base/plugin/kinds.ts";
import { anyJson } from "./any-json.ts";
import { chatCompletions } from "./chat-completions.ts";
import { completions } from "./completions.ts";
import { conversations } from "./conversations.ts";
import { embeddings } from "./embeddings.ts";
import { images } from "./images.ts";
import { countTokens, messages } from "./messages.ts";
import { passthrough } from "./raw.ts";
import { responses } from "./responses.ts";
import { sglangGenerate, vllmGenerate } from "./token-generate.ts";
import { vertexChat, vertexPredict } from "./vertex-ai.ts";
import { unsupportedGrpcPath, vllmGrpcEmbed, vllmGrpcGenerate } from "./vllm-grpc.ts";

/** Alone, as in v1.5, it takes every other path for completions (epp-protocol 10.1, scheduling 3.17). */
export const openai: RequestParser = {
  parsers: [chatCompletions, completions, responses, conversations, embeddings, images],
  aloneFallback: completions,
};

export const anthropic: RequestParser = { parsers: [messages, countTokens] };

export const vllmHttp: RequestParser = { parsers: [vllmGenerate] };

export const passthroughFamily: RequestParser = { parsers: [], fallback: passthrough };

/** Alone, as in v1.5, it refuses every other path. */
export const vllmGrpc: RequestParser = {
  protocols: ["kubernetes.io/h2c"],
  parsers: [vllmGrpcGenerate, vllmGrpcEmbed],
  aloneFallback: unsupportedGrpcPath,
};

export const sglangHttp: RequestParser = { parsers: [sglangGenerate] };

export const vertexAi: RequestParser = {
  protocols: ["kubernetes.io/h2c"],
  parsers: [vertexChat, vertexPredict],
};

/**
 * What is in force where nothing is configured: on an unknown path a JSON object with a model is read like a completion,
 * everything else passes untouched (epp-protocol 10.1).
 */
export const DEFAULT_FAMILIES: readonly RequestParser[] = [
  openai,
  anthropic,
  vllmHttp,
  { parsers: [], fallback: anyJson },
  passthroughFamily,
];
