import { failIfDue } from "../faults.ts";
import { Generation } from "../generation.ts";
import { readGenerationRequest } from "../generation-request.ts";
import { type Exchange, type Handler, jsonBody } from "./route.ts";

/** `POST /v1/chat/completions`. */
export const chatCompletions: Handler = (exchange) => complete(exchange, true);

/** `POST /v1/completions`. */
export const completions: Handler = (exchange) => complete(exchange, false);

async function complete(exchange: Exchange, chat: boolean): Promise<void> {
  const { context, request, response, record, settings } = exchange;
  const body = await jsonBody(exchange);
  if (!body) return;
  if (typeof body.model === "string") record.model = body.model.slice(0, 256);
  failIfDue(context, settings, request.headers);
  const wanted = readGenerationRequest(context, chat, body);
  // The client may have left while its body was read.
  if (response.destroyed) return;
  new Generation(context, wanted, response, record, settings).start();
}
