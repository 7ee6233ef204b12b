import type { IncomingMessage, ServerResponse } from "node:http";
import { messageOf } from "../../base/inference/errors.ts";
import { EXPOSITION_CONTENT_TYPE } from "../../base/telemetry/exposition.ts";
import { isAdapterName } from "./adapters.ts";
import { SimApiError } from "./api-error.ts";
import { chooseModel, type SimContext } from "./context.ts";
import { embed } from "./embeddings.ts";
import { failIfDue } from "./faults.ts";
import { Generation } from "./generation.ts";
import { chatPrompt, type GenerationApi, messagesPrompt, readGenerationRequest } from "./generation-request.ts";
import { type JsonObject, parseJsonBody, readBody } from "./json-body.ts";
import { foreignPage } from "./metrics.ts";
import { liveSettings, type SimOptions, withLiveSettings } from "./options.ts";
import type { RequestRecord } from "./request-log.ts";
import { tokenize, tokenizePieces } from "./tokenizer.ts";

/** One request with its response, for a route. */
interface Exchange {
  readonly context: SimContext;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly record: RequestRecord;
  /** The settings of the server with those of this request. */
  readonly settings: SimOptions;
  /** Query string. */
  readonly query: URLSearchParams;
}

/** Answers a request or throws an SimApiError. */
type Handler = (exchange: Exchange) => void | Promise<void>;

/**
 * The JSON object of a client; undefined when the client left first.
 * @throws SimApiError 413, or 400 when the body is not one JSON object
 */
async function jsonBody({ context, request, record }: Exchange): Promise<JsonObject | undefined> {
  const limit = context.settings.maxRequestBodySizeMb * 1024 * 1024;
  const bytes = await readBody(request, limit, record);
  return bytes && parseJsonBody(bytes, record);
}

/** Sends a JSON document. */
export function sendJson(response: ServerResponse, status: number, value: unknown): void {
  const body = JSON.stringify(value);
  response.writeHead(status, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
  response.end(body);
}

/** Sends a text. */
function sendText(response: ServerResponse, status: number, body: string, type = "text/plain"): void {
  response.writeHead(status, { "content-type": type, "content-length": Buffer.byteLength(body) });
  response.end(body);
}

/** `POST` to an API that generates text. */
const generate =
  (api: GenerationApi): Handler =>
  (exchange) =>
    complete(exchange, api);

async function complete(exchange: Exchange, api: GenerationApi): Promise<void> {
  const { context, request, response, record, settings } = exchange;
  const body = await jsonBody(exchange);
  if (!body) return;
  if (typeof body.model === "string") record.model = body.model.slice(0, 256);
  failIfDue(context, settings, request.headers);
  const wanted = readGenerationRequest(context, api, body);
  // The client may have left while the server read its body.
  if (response.destroyed) return;
  new Generation(context, wanted, response, record, settings).start();
}

/** `POST /v1/embeddings`. */
const embeddings: Handler = async (exchange) => {
  const { context, request, response, record, settings } = exchange;
  const body = await jsonBody(exchange);
  if (!body) return;
  if (typeof body.model === "string") record.model = body.model.slice(0, 256);
  failIfDue(context, settings, request.headers);
  sendJson(response, 200, embed(context, body));
};

/** `POST /v1/messages/count_tokens`. */
const countTokens: Handler = async (exchange) => {
  const body = await jsonBody(exchange);
  if (!body) return;
  chooseModel(exchange.context, body.model);
  sendJson(exchange.response, 200, { input_tokens: messagesPrompt(body).tokens.length });
};

/** `GET /v1/models`: the base model under each of its names, then the adapters. */
const listModels: Handler = ({ context, response }) => {
  const base = context.modelNames[0]!;
  const created = Math.floor(context.startedWall / 1000);
  const common = { object: "model", created, owned_by: "vllm" };
  sendJson(response, 200, {
    object: "list",
    data: [
      ...context.modelNames.map((id) => ({
        id,
        ...common,
        root: context.settings.model,
        parent: null,
        max_model_len: context.settings.maxModelLen,
      })),
      ...context.adapters.list().map(({ name, path }) => ({ id: name, ...common, root: path, parent: base })),
    ],
  });
};

/** `POST /v1/load_lora_adapter` with `lora_name` and `lora_path`. */
const loadLora: Handler = async (exchange) => {
  const body = await jsonBody(exchange);
  if (!body) return;
  const name = word(body, "lora_name");
  const path = word(body, "lora_path");
  if (!isAdapterName(name)) {
    throw new SimApiError(400, "lora_name must have 1 to 256 characters and no comma", "lora_name");
  }
  if (exchange.context.modelNames.includes(name)) {
    throw new SimApiError(400, `\`${name}\` is the name of the base model`, "lora_name");
  }
  exchange.context.adapters.load({ name, path });
  sendText(exchange.response, 200, `Success: LoRA adapter '${name}' added successfully.`);
};

/** `POST /v1/unload_lora_adapter` with `lora_name`. */
const unloadLora: Handler = async (exchange) => {
  const body = await jsonBody(exchange);
  if (!body) return;
  const name = word(body, "lora_name");
  exchange.context.adapters.unload(name);
  sendText(exchange.response, 200, `Success: LoRA adapter '${name}' removed successfully.`);
};

function word(body: JsonObject, name: string): string {
  const value = body[name];
  if (typeof value !== "string" || value === "")
    throw new SimApiError(400, `${name} must be a string, not empty`, name);
  return value;
}

/** `POST /tokenize` with `prompt` (a string) or `messages`; `return_token_strs` adds the tokens of a prompt as text. */
const tokenizeText: Handler = async (exchange) => {
  const body = await jsonBody(exchange);
  if (!body) return;
  chooseModel(exchange.context, body.model);
  const { prompt } = body;
  if (typeof prompt !== "string" && body.messages === undefined) {
    throw new SimApiError(400, "give prompt (a string) or messages", "prompt");
  }
  const tokens = typeof prompt === "string" ? tokenize(prompt) : chatPrompt(body).tokens;
  sendJson(exchange.response, 200, {
    count: tokens.length,
    max_model_len: exchange.context.settings.maxModelLen,
    tokens: Array.from(tokens),
    token_strs: body.return_token_strs === true && typeof prompt === "string" ? tokenizePieces(prompt) : null,
  });
};

/** `POST` to the renderer of an API: the tokens of its prompts, as vLLM's render server answers. */
const render =
  (api: "chat" | "completions"): Handler =>
  async (exchange) => {
    const body = await jsonBody(exchange);
    if (!body) return;
    const { prompts } = readGenerationRequest(exchange.context, api, body);
    const rendered = prompts.map(({ tokens }) => ({
      request_id: exchange.record.id,
      token_ids: Array.from(tokens),
      features: null,
    }));
    sendJson(exchange.response, 200, api === "chat" ? rendered[0] : rendered);
  };

/** `GET /health`: the process answers. */
const health: Handler = ({ response }) => sendText(response, 200, "");

/** `GET /health/ready`: 503 until `startup-duration` has passed. */
const ready: Handler = ({ context, response }) => {
  const left = context.startedAt + context.settings.startupDuration - context.clock.now();
  if (left > 0) throw new SimApiError(503, `The model is loading, ${Math.ceil(left)} ms left`);
  sendText(response, 200, "");
};

/** `GET /metrics`. */
const metrics: Handler = ({ context, response }) => {
  const { settings, engine, modelNames } = context;
  const type = settings.engine;
  const page = type === "vllm" ? context.metrics.render(engine) : foreignPage(type, modelNames[0]!, engine);
  sendText(response, 200, page, EXPOSITION_CONTENT_TYPE);
};

/** `GET /admin/config`: failure and latency settings by their option names, durations in milliseconds. */
const showConfig: Handler = ({ context, response }) => sendJson(response, 200, liveSettings(context.settings));

/** `POST /admin/config` with any of them: sets all of them, or none and answers 400. */
const changeConfig: Handler = async (exchange) => {
  const body = await jsonBody(exchange);
  if (!body) return;
  const { context } = exchange;
  try {
    context.settings = withLiveSettings(context.settings, body);
  } catch (error) {
    throw new SimApiError(400, messageOf(error));
  }
  context.engine.setLatency(context.settings);
  if ("crash-after" in body && context.settings.crashAfter > 0) context.crashAfter(context.settings.crashAfter);
  showConfig(exchange);
};

/** `GET /admin/requests`: the last 1,000 requests, oldest first; `?id=X` only those with that id. */
const listRequests: Handler = ({ context, response, query }) => {
  const id = query.get("id");
  const all = context.log.list();
  sendJson(response, 200, { requests: id === null ? all : all.filter((record) => record.id === id) });
};

/** `POST /admin/reset`: prefix cache, counters and request list as after a start; running requests continue. */
const reset: Handler = ({ context, response }) => {
  context.engine.reset();
  context.metrics.reset();
  context.log.clear();
  context.inferenceRequests = 0;
  sendJson(response, 200, {});
};

/** Handlers by path and method. */
export const ROUTES: ReadonlyMap<string, Readonly<Partial<Record<string, Handler>>>> = new Map([
  ["/v1/chat/completions", { POST: generate("chat") }],
  ["/v1/completions", { POST: generate("completions") }],
  ["/v1/chat/completions/render", { POST: render("chat") }],
  ["/v1/completions/render", { POST: render("completions") }],
  ["/v1/messages", { POST: generate("messages") }],
  ["/v1/messages/count_tokens", { POST: countTokens }],
  ["/v1/responses", { POST: generate("responses") }],
  ["/v1/embeddings", { POST: embeddings }],
  ["/v1/models", { GET: listModels }],
  ["/v1/load_lora_adapter", { POST: loadLora }],
  ["/v1/unload_lora_adapter", { POST: unloadLora }],
  ["/tokenize", { POST: tokenizeText }],
  ["/metrics", { GET: metrics }],
  ["/health", { GET: health }],
  ["/health/ready", { GET: ready }],
  ["/admin/config", { GET: showConfig, POST: changeConfig }],
  ["/admin/requests", { GET: listRequests }],
  ["/admin/reset", { POST: reset }],
]);

/** Whether `/admin/requests` shows requests for this path: not for paths that only monitor or control the server. */
export function isRecorded(path: string): boolean {
  return !isAdmin(path) && path !== "/metrics" && path !== "/health" && path !== "/health/ready";
}

/** Whether the path controls the server: no fault applies to such a path. */
export function isAdmin(path: string): boolean {
  return path.startsWith("/admin/");
}
