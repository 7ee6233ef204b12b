import { ApiError } from "../api-error.ts";
import type { JsonObject } from "../json-body.ts";
import { isAdapterName } from "../lora-module.ts";
import { type Handler, jsonBody, sendText } from "./route.ts";

/** `POST /v1/load_lora_adapter` with `lora_name` and `lora_path`. */
export const loadLora: Handler = async (exchange) => {
  const body = await jsonBody(exchange);
  if (!body) return;
  const name = word(body, "lora_name");
  const path = word(body, "lora_path");
  if (!isAdapterName(name)) {
    throw new ApiError(400, "lora_name must have 1 to 256 characters and no comma", "lora_name");
  }
  if (exchange.context.modelNames.includes(name)) {
    throw new ApiError(400, `\`${name}\` is the name of the base model`, "lora_name");
  }
  exchange.context.adapters.load({ name, path });
  sendText(exchange.response, 200, `Success: LoRA adapter '${name}' added successfully.`);
};

/** `POST /v1/unload_lora_adapter` with `lora_name`. */
export const unloadLora: Handler = async (exchange) => {
  const body = await jsonBody(exchange);
  if (!body) return;
  const name = word(body, "lora_name");
  exchange.context.adapters.unload(name);
  sendText(exchange.response, 200, `Success: LoRA adapter '${name}' removed successfully.`);
};

function word(body: JsonObject, name: string): string {
  const value = body[name];
  if (typeof value !== "string" || value === "") throw new ApiError(400, `${name} must be a string, not empty`, name);
  return value;
}
