import { SluiceError } from "../../base/inference/errors.ts";

/** The failures that can be injected, by their reference names. */
export const FAILURE_TYPES = [
  "rate_limit",
  "invalid_api_key",
  "context_length",
  "server_error",
  "invalid_request",
  "model_not_found",
] as const;

type FailureType = (typeof FAILURE_TYPES)[number];

/** An error answer in the shape of the OpenAI API (envoy-data-plane 5.3, "Errors"). */
export class SimApiError extends SluiceError {
  /** HTTP status, 400..599. */
  readonly status: number;
  /** The faulty member of the request. */
  readonly param: string | null;

  constructor(status: number, message: string, param: string | null = null) {
    super("SIM_API", message);
    this.status = status;
    this.param = param;
  }

  /** The body of the answer. */
  toJSON(): { error: { message: string; type: string; param: string | null; code: number } } {
    return {
      error: { message: this.message, type: errorType(this.status), param: this.param, code: this.status },
    };
  }
}

/** The `type` that vLLM gives an error of this status. */
function errorType(status: number): string {
  if (status >= 500) return "InternalServerError";
  switch (status) {
    case 401:
      return "AuthenticationError";
    case 403:
      return "PermissionDeniedError";
    case 404:
      return "NotFoundError";
    case 422:
      return "UnprocessableEntityError";
    case 429:
      return "RateLimitError";
    default:
      return "BadRequestError";
  }
}

/** The error of an injected failure. */
export function injectedFailure(type: FailureType, model: string): SimApiError {
  switch (type) {
    case "rate_limit":
      return new SimApiError(429, "Injected failure: rate limit reached");
    case "invalid_api_key":
      return new SimApiError(401, "Injected failure: incorrect API key");
    case "context_length":
      return new SimApiError(400, "Injected failure: the request is longer than the context of the model", "messages");
    case "server_error":
      return new SimApiError(503, "Injected failure: the server cannot serve the request now");
    case "invalid_request":
      return new SimApiError(400, "Injected failure: invalid request");
    case "model_not_found":
      return new SimApiError(404, `Injected failure: the model \`${model}\` does not exist`, "model");
  }
}
