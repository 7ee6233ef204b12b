import { z } from "zod";
import { SluiceError } from "../../../base/inference/errors.ts";
import { defineProducer, duration } from "../../../base/plugin/define.ts";
import { TOKENIZED_PROMPT, type TokenizedPrompt } from "../../../base/plugin/keys.ts";
import type { PluginContext, PluginLifecycle, ProduceContext, Producer } from "../../../base/plugin/kinds.ts";
import { TokenEstimate } from "../tokens/estimate.ts";
import { type LocalTokenizers, localTokenizers, tokenizerSettings } from "../tokens/local.ts";
import { estimateParameters } from "../tokens/media-tokens.ts";
import { RenderClient } from "../tokens/render.ts";

const address = z
  .string()
  .default("http://localhost:8000")
  .refine(isHttpAddress, "must be an http or https address without a name, a password, a query or a fragment")
  .transform((url) => url.replace(/\/+$/, ""));

const vllm = z.strictObject({
  url: address,
  timeout: duration({ moreThan: 0 }).prefault("5s"),
  mmTimeout: duration({ moreThan: 0 }).prefault("30s"),
});

const NO_UDS =
  'is no longer supported: Sluice does not use a sidecar. Give the files of the tokenizers, local: {modelTokenizerMap: {MODEL: /PATH}}, or start a render server ("vllm launch render MODEL") and name it, vllm: {url: "http://localhost:8000"}';

const parameters = z
  .strictObject({
    estimate: estimateParameters
      .optional()
      .describe(
        "Backend without a tokenizer, the default: text counts by the bytes per token that Sluice has learned for the model, 4 at first. `image`: `mode` `dynamic` (`dynamic.factor`, 1024 pixels a token, of `defaultResolution` 640 x 360 if the size of an image is unknown) or `static` (`static.staticToken`). `video`: `defaultDuration` (10 seconds), `defaultResolution`, `tokensPerFrame`, `frames`, `maxVideoTokens`.",
      ),
    vllm: vllm
      .optional()
      .describe(
        "Backend that asks a vLLM render server for real tokens: `url` (`http://localhost:8000`), `timeout` (`5s`) for text, `mmTimeout` (`30s`) for requests with images, videos or sounds.",
      ),
    local: localTokenizers
      .optional()
      .describe(
        "Backend in this process: tokenizers from files, in worker threads. `modelTokenizerMap`: by model, the path of its `tokenizer.json` or of the folder with it. `autoDiscoveryDir` (`/mnt/models`): a folder with further models, laid out as `org/name` or as a cache of Hugging Face. `autoDiscoveryTokenizerFileName` (`tokenizer.json`). `workersCount` (2): threads. `timeout` (`400ms`): longest wait of a decision for tokens. `prefixCacheMB` (64; 0 = none): memory for the beginnings of earlier prompts, for each model and thread. `chatTemplate`: path of a template that replaces the templates of the models. `chatTemplateContentFormat` (`auto`, `string`, `openai`) and `defaultChatTemplateKwargs`: as vLLM's flags of these names.",
      ),
    modelName: z
      .string()
      .min(1, "must not be empty")
      .optional()
      .describe(
        "For local: the model whose tokenizer serves every request, adapters included; absent = the tokenizer of the model in the request. For vllm: the model name for the render server; absent = the name that clients send. Without local, modelName selects vllm.",
      ),
    udsTokenizerConfig: z
      .strictObject({
        socketFile: z.string().optional(),
        useTCP: z.boolean().optional(),
        modelTokenizerMap: z.record(z.string(), z.string().min(1)).optional(),
      })
      .optional()
      .superRefine((uds, context) => {
        if (uds !== undefined && uds.modelTokenizerMap === undefined)
          context.addIssue({ code: "custom", message: NO_UDS });
      })
      .describe(
        "Deprecated: Sluice does not use a sidecar. With a `modelTokenizerMap`, it counts as the map of local; without one, it is an error.",
      ),
  })
  .superRefine(({ estimate, vllm, local, modelName, udsTokenizerConfig: uds }, context) => {
    const real = [local, vllm, uds].filter((backend) => backend !== undefined).length;
    if (estimate !== undefined && (real > 0 || modelName !== undefined))
      context.addIssue({
        ...{ code: "custom", path: ["estimate"] },
        message: "give only one of estimate, local and vllm (with modelName): each is a backend",
      });
    else if (real > 1)
      context.addIssue({
        ...{ code: "custom", path: [local === undefined ? "udsTokenizerConfig" : "local"] },
        message: "give only one of estimate, local, vllm and udsTokenizerConfig: each is a backend",
      });
  });

/** The backend `local` of parameters, also where they give it in its older form; undefined = another backend. */
function localOf({ local, udsTokenizerConfig: uds }: Settings): LocalTokenizers | undefined {
  if (uds === undefined) return local;
  return localTokenizers.parse({ modelTokenizerMap: uds.modelTokenizerMap });
}

type Settings = z.output<typeof parameters>;

/**
 * scheduling 3.11. Plugins that hash or count prompts read its values. Without a value, they use the bytes of the prompt, four
 * to a token. The backend `estimate` writes a value only for prompts with images or videos: for other prompts it costs only the
 * search for such parts.
 */
export const tokenProducer = defineProducer({
  type: "token-producer",
  describe:
    "Publishes the prompt as tokens: estimated, or real tokens from tokenizers in this process or from a vLLM render server. Without tokens, the bytes of a prompt count.",
  parameters,
  produces: [TOKENIZED_PROMPT],
  create,
});

/** The older name of `token-producer` (scheduling 3.11). */
export const tokenizer = defineProducer({
  type: "tokenizer",
  describe: "Deprecated name of token-producer.",
  deprecated: "write token-producer, with the same parameters",
  parameters,
  produces: [TOKENIZED_PROMPT],
  create,
});

function create(settings: Settings, context: PluginContext): Producer & PluginLifecycle {
  const local = localOf(settings);
  if (local !== undefined) return localProducer(local, settings.modelName, context);
  const { clock, random } = context;
  if (settings.vllm === undefined && settings.modelName === undefined) {
    const estimate = estimateOf(settings.estimate, random);
    return {
      produce(context) {
        const tokens = estimate.of(context.request);
        if (tokens !== undefined) context.setAttribute(TOKENIZED_PROMPT, tokens);
      },
    };
  }
  const options = settings.vllm ?? vllm.parse({});
  const client = new RenderClient({ ...options, modelName: settings.modelName }, clock);
  return {
    prepare: (request, signal) => client.tokens(request, signal),
    // Which of the two timeouts applies depends on the request, so the budget is the larger one.
    prepareBudget: Math.max(options.timeout, options.mmTimeout),
    produce: attachPrepared,
    debugState: () => ({ url: options.url, bytesUnderWay: client.bytesUnderWay }),
  };
}

/** Asks threads for tokens. In a process without them, such as a simulation, each request goes on without tokens. */
function localProducer(
  local: LocalTokenizers,
  modelName: string | undefined,
  { clock, random, log, startTokenizers }: PluginContext,
): Producer & PluginLifecycle {
  if (startTokenizers === undefined) {
    const none = new SluiceError("TOKENIZER_FAILED", "this process has no threads for tokenizers");
    return { prepare: () => Promise.reject(none), produce: attachPrepared };
  }
  const media = estimateOf(undefined, random);
  const tokenizers = startTokenizers(tokenizerSettings(local, modelName), { clock, log });
  return {
    prepare: (request, signal) => tokenizers.tokens(request, media.media(request), signal),
    prepareBudget: local.timeout,
    produce: attachPrepared,
    ready: () => tokenizers.ready(),
    close: () => tokenizers.close(),
    debugState: () => tokenizers.state(),
  };
}

function attachPrepared(context: ProduceContext): void {
  const { prepared } = context;
  if (prepared !== undefined) context.setAttribute(TOKENIZED_PROMPT, prepared as TokenizedPrompt);
}

function estimateOf(estimate: Settings["estimate"], random: PluginContext["random"]): TokenEstimate {
  return new TokenEstimate(estimate ?? estimateParameters.parse({}), random.below(2 ** 32), random.below(2 ** 32));
}

function isHttpAddress(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password, search, hash } = new URL(text);
  return (protocol === "http:" || protocol === "https:") && username + password + search + hash === "";
}
