import { messageOf } from "../../../base/inference/errors.ts";
import { ApiError } from "../api-error.ts";
import { liveSettings, withLiveSettings } from "../options.ts";
import { type Handler, jsonBody, sendJson } from "./route.ts";

/** `GET /admin/config`: failure and latency settings by their option names, durations in milliseconds. */
export const showConfig: Handler = ({ context, response }) => sendJson(response, 200, liveSettings(context.settings));

/** `POST /admin/config` with any of them: all are taken, or none and a 400. */
export const changeConfig: Handler = async (exchange) => {
  const body = await jsonBody(exchange);
  if (!body) return;
  const { context } = exchange;
  try {
    context.settings = withLiveSettings(context.settings, body);
  } catch (error) {
    throw new ApiError(400, messageOf(error));
  }
  context.engine.setLatency(context.settings);
  if ("crash-after" in body && context.settings.crashAfter > 0) context.crashAfter(context.settings.crashAfter);
  showConfig(exchange);
};

/** `GET /admin/requests`: the last 1,000 requests, oldest first; `?id=X` only those with that id. */
export const listRequests: Handler = ({ context, response, query }) => {
  const id = query.get("id");
  const all = context.log.list();
  sendJson(response, 200, { requests: id === null ? all : all.filter((record) => record.id === id) });
};

/** `POST /admin/reset`: prefix cache, counters and request list as after a start; requests under way go on. */
export const reset: Handler = ({ context, response }) => {
  context.engine.reset();
  context.metrics.reset();
  context.log.clear();
  context.inferenceRequests = 0;
  sendJson(response, 200, {});
};
