/** The statuses of refusals. */
type ErrorStatus = 400 | 401 | 403 | 404 | 405 | 413 | 429 | 500 | 503;

/** A refusal of the Batch API: the error object of OpenAI's APIs, with its status. */
export class ApiError extends Error {
  readonly status: ErrorStatus;
  /** A word for programs. */
  readonly code: string;
  /** The parameter that is wrong; null = none. */
  readonly param: string | null;

  constructor(status: ErrorStatus, code: string, message: string, param: string | null = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.param = param;
  }

  /** The body of the answer. */
  get body(): object {
    const { message, param, code, status } = this;
    const type = status === 429 ? "rate_limit_error" : status < 500 ? "invalid_request_error" : "server_error";
    return { error: { message, type, param, code } };
  }
}

/** A parameter that is wrong. */
export function invalidParameter(param: string, message: string): ApiError {
  return new ApiError(400, "invalid_parameter", message, param);
}

/** A file or batch that the caller does not have, whether or not another one has it. */
export function notFound(what: "file" | "batch", id: string): ApiError {
  const shown = JSON.stringify(id.slice(0, 100));
  return new ApiError(
    404,
    `${what}_not_found`,
    `there is no ${what} ${shown}`,
    what === "file" ? "file_id" : "batch_id",
  );
}
