import { SluiceError } from "../../base/inference/errors.ts";

/** Why an API server said no, as its `Status` object tells it (api-resources 1.10). */
export interface StatusDetails {
  /** HTTP status; 0 = no answer came. */
  readonly status: number;
  /** `Conflict`, `NotFound`, `Expired`, `Invalid` and so on; "" where it gives none. */
  readonly reason: string;
  /** Milliseconds after which it may be asked again (`Retry-After`); undefined = not said. */
  readonly retryAfter?: number | undefined;
  /** Of `Invalid` and `Conflict`: one entry per field. */
  readonly causes?: readonly { readonly field: string; readonly message: string }[];
}

/** The API server refused a request or could not be reached; the code is `KUBERNETES_API`. */
export class ApiError extends SluiceError {
  readonly status: number;
  readonly reason: string;
  readonly retryAfter: number | undefined;
  readonly causes: readonly { readonly field: string; readonly message: string }[];

  constructor(message: string, details: StatusDetails, options?: { readonly cause?: unknown }) {
    super("KUBERNETES_API", message, options);
    this.status = details.status;
    this.reason = details.reason;
    this.retryAfter = details.retryAfter;
    this.causes = details.causes ?? [];
  }

  /** The resource version that was asked for is no longer kept: list anew. */
  get expired(): boolean {
    return this.status === 410 || this.reason === "Expired";
  }

  /** The kind or object does not exist, or we may not see it: for optional kinds neither is an error. */
  get absent(): boolean {
    return this.status === 404 || this.status === 403;
  }
}
