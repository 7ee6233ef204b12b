import { EXPOSITION_CONTENT_TYPE } from "../../../base/telemetry/exposition.ts";
import { ApiError } from "../api-error.ts";
import { foreignPage } from "../foreign-page.ts";
import { type Handler, sendText } from "./route.ts";

/** `GET /health`: the process answers. */
export const health: Handler = ({ response }) => sendText(response, 200, "");

/** `GET /health/ready`: 503 until `startup-duration` has passed. */
export const ready: Handler = ({ context, response }) => {
  const left = context.startedAt + context.settings.startupDuration - context.clock.now();
  if (left > 0) throw new ApiError(503, `The model is loading, ${Math.ceil(left)} ms left`);
  sendText(response, 200, "");
};

/** `GET /metrics`. */
export const metrics: Handler = ({ context, response }) => {
  const { settings, engine, modelNames } = context;
  const type = settings.engine;
  const page = type === "vllm" ? context.metrics.render(engine) : foreignPage(type, modelNames[0]!, engine);
  sendText(response, 200, page, EXPOSITION_CONTENT_TYPE);
};
