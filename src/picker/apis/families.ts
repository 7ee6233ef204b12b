import { defineParser } from "../../base/plugin/define.ts";
import type { PluginDefinition, RequestParser } from "../../base/plugin/kinds.ts";
import { countTokens, messages } from "./anthropic.ts";
import { anyJson, passthrough } from "./fallbacks.ts";
import { unsupportedGrpcPath, vertexChat, vertexPredict, vllmGrpcEmbed, vllmGrpcGenerate } from "./grpc.ts";
import { chatCompletions, completions, conversations, embeddings, images, responses } from "./openai.ts";
import { sglangGenerate, vllmGenerate } from "./token-generate.ts";

/** As the only family, it reads every other path as a completion, as v1.5 does (epp-protocol 10.1, scheduling 3.17). */
const openai: RequestParser = {
  parsers: [chatCompletions, completions, responses, conversations, embeddings, images],
  aloneFallback: completions,
};

const anthropic: RequestParser = { parsers: [messages, countTokens] };

const vllmHttp: RequestParser = { parsers: [vllmGenerate] };

const passthroughFamily: RequestParser = { parsers: [], fallback: passthrough };

/** As the only family, it refuses every other path, as v1.5 does. */
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
 * The default families. On an unknown path a JSON object with a model is read like a completion, and all other bodies pass
 * unchanged (epp-protocol 10.1).
 */
export const DEFAULT_FAMILIES: readonly RequestParser[] = [
  openai,
  anthropic,
  vllmHttp,
  { parsers: [], fallback: anyJson },
  passthroughFamily,
];

/** Every parser type (epp-protocol 10.1, scheduling 3.17). */
export const PARSER_PLUGINS: readonly PluginDefinition<"parser">[] = [
  defineParser({
    type: "openai-parser",
    describe:
      "Reads OpenAI's APIs: chat, completions, responses, conversations, embeddings, images. If it is the only parser, it treats every other path as completions.",
    create: () => openai,
  }),
  defineParser({
    type: "anthropic-parser",
    describe: "Reads Anthropic's Messages API, and the model of token count requests.",
    create: () => anthropic,
  }),
  defineParser({
    type: "vllmhttp-parser",
    describe: "Reads vLLM's token API, /inference/v1/generate.",
    create: () => vllmHttp,
  }),
  defineParser({
    type: "passthrough-parser",
    describe: "Passes on every path that no other parser claims: no model, no prefix, no usage.",
    create: () => passthroughFamily,
  }),
  defineParser({
    type: "vllmgrpc-parser",
    describe: "Reads vLLM's gRPC API, Generate and Embed. If it is the only parser, it refuses every other path.",
    create: () => vllmGrpc,
  }),
  defineParser({
    type: "sglanghttp-parser",
    describe: "Reads SGLang's own /generate in requests with token ids.",
    create: () => sglangHttp,
  }),
  defineParser({
    type: "vertexai-parser",
    describe: "Reads the bodies that Vertex AI's gRPC prediction service wraps; the model names do not change.",
    create: () => vertexAi,
  }),
];
