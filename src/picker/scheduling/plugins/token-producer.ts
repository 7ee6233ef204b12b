import { z } from "zod";
import { defineProducer, duration } from "../../../base/plugin/define.ts";
import { TOKENIZED_PROMPT, type TokenizedPrompt } from "../../../base/plugin/keys.ts";
import type { PluginContext, Producer } from "../../../base/plugin/kinds.ts";
import { TokenEstimate } from "../tokens/estimate.ts";
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

const parameters = z
  .strictObject({
    estimate: estimateParameters
      .optional()
      .describe(
        "Backend without a tokenizer, the default: text counts by the bytes per token that Sluice has learned for the model, 4 at first. `image`: `mode` `dynamic` (`dynamic.factor`, 1024 pixels a token, of `defaultResolution` 640 x 360 where an image does not show its own) or `static` (`static.staticToken`). `video`: `defaultDuration` (10 seconds), `defaultResolution`, `tokensPerFrame`, `frames`, `maxVideoTokens`.",
      ),
    vllm: vllm
      .optional()
      .describe(
        "Backend that asks a vLLM render server for real tokens: `url` (`http://localhost:8000`), `timeout` (`5s`) for text, `mmTimeout` (`30s`) for requests with images, films or sounds.",
      ),
    modelName: z
      .string()
      .min(1, "must not be empty")
      .optional()
      .describe(
        "For vllm, which it implies: the model name for the render server; absent = the name that clients send.",
      ),
    udsTokenizerConfig: z
      .never({
        error:
          'is no longer supported: start a render server ("vllm launch render MODEL") and name it in its place, vllm: {url: "http://localhost:8000"}',
      })
      .optional()
      .describe("No longer supported: use vllm."),
  })
  .refine(({ estimate, vllm, modelName }) => estimate === undefined || (vllm ?? modelName) === undefined, {
    path: ["estimate"],
    message: "give only one of estimate and vllm (with modelName): each is a backend",
  });

type Settings = z.output<typeof parameters>;

/**
 * scheduling 3.11. Plugins that hash or count prompts read its values. Without a value, they use the bytes of the prompt, four
 * to a token. The backend `estimate` writes a value only for prompts with images or films: for other prompts it costs only the
 * search for such parts.
 */
export const tokenProducer = defineProducer({
  type: "token-producer",
  describe:
    "Publishes the prompt as tokens: estimated, or real ones from a vLLM render server. Without them the bytes of a prompt count.",
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

function create(settings: Settings, { clock, random }: PluginContext): Producer {
  if (settings.vllm === undefined && settings.modelName === undefined) {
    const estimate = new TokenEstimate(
      settings.estimate ?? estimateParameters.parse({}),
      random.below(2 ** 32),
      random.below(2 ** 32),
    );
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
    produce(context) {
      const { prepared } = context;
      if (prepared !== undefined) context.setAttribute(TOKENIZED_PROMPT, prepared as TokenizedPrompt);
    },
    debugState: () => ({ url: options.url, bytesUnderWay: client.bytesUnderWay }),
  };
}

function isHttpAddress(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password, search, hash } = new URL(text);
  return (protocol === "http:" || protocol === "https:") && username + password + search + hash === "";
}
