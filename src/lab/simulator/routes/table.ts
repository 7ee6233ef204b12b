import { changeConfig, listRequests, reset, showConfig } from "./admin.ts";
import { chatCompletions, completions } from "./completions.ts";
import { health, metrics, ready } from "./health.ts";
import { loadLora, unloadLora } from "./lora.ts";
import { listModels } from "./models.ts";
import type { Handler } from "./route.ts";
import { tokenizeText } from "./tokenize.ts";

/** Handlers by path and method. */
export const ROUTES: ReadonlyMap<string, Readonly<Partial<Record<string, Handler>>>> = new Map([
  ["/v1/chat/completions", { POST: chatCompletions }],
  ["/v1/completions", { POST: completions }],
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

/** Whether requests for this path are shown by `/admin/requests`: not those that only watch or steer the server. */
export function isRecorded(path: string): boolean {
  return !isAdmin(path) && path !== "/metrics" && path !== "/health" && path !== "/health/ready";
}

/** Whether the path steers the server: then no fault applies to it. */
export function isAdmin(path: string): boolean {
  return path.startsWith("/admin/");
}
