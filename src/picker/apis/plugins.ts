import { defineParser } from "../../base/plugin/define.ts";
import type { PluginDefinition } from "../../base/plugin/kinds.ts";
import { anthropic, openai, passthroughFamily, sglangHttp, vertexAi, vllmGrpc, vllmHttp } from "./families.ts";

/** Every parser type (epp-protocol 10.1, scheduling 3.17). */
export const PARSER_PLUGINS: readonly PluginDefinition<"parser">[] = [
  defineParser({
    type: "openai-parser",
    describe:
      "Reads OpenAI's APIs: chat, completions, responses, conversations, embeddings, images; as the only parser it takes every other path for completions.",
    create: () => openai,
  }),
  defineParser({
    type: "anthropic-parser",
    describe: "Reads Anthropic's messages; its token count passes untouched.",
    create: () => anthropic,
  }),
  defineParser({
    type: "vllmhttp-parser",
    describe: "Reads vLLM's token API, /inference/v1/generate.",
    create: () => vllmHttp,
  }),
  defineParser({
    type: "passthrough-parser",
    describe: "Takes every path that no other parser claims, untouched: no model, no prefix, no usage.",
    create: () => passthroughFamily,
  }),
  defineParser({
    type: "vllmgrpc-parser",
    describe: "Reads vLLM's gRPC API, Generate and Embed; as the only parser it refuses every other path.",
    create: () => vllmGrpc,
  }),
  defineParser({
    type: "sglanghttp-parser",
    describe: "Reads SGLang's own /generate where token ids are given.",
    create: () => sglangHttp,
  }),
  defineParser({
    type: "vertexai-parser",
    describe: "Reads the bodies that Vertex AI's gRPC prediction service wraps; their model names stay.",
    create: () => vertexAi,
  }),
];
