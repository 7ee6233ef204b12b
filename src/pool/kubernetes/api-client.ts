/** One request to an API server. */
export interface ApiRequest {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Begins with a slash; see `resource-type.ts`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Default `application/json`; `application/apply-patch+yaml` for server-side apply. */
  readonly contentType?: string;
  /** Milliseconds for the whole answer; default 30,000. */
  readonly timeout?: number;
  readonly signal?: AbortSignal;
}

/** A connection to one API server, authenticated; knows none of our kinds. */
export interface ApiClient {
  /** `https://host:port`, for messages. */
  readonly server: string;
  /** The answer's JSON. @throws ApiError for any status from 400 up, and with status 0 when no answer came */
  request(request: ApiRequest): Promise<unknown>;
  /**
   * A GET whose answer is one JSON text per line, such as a watch; resolves when the server has ended it.
   * @param onOpen called when the status line has come, before the first line
   * @param onLine called for each line, in order; what it throws ends the stream and rejects
   * @throws ApiError as for `request`, and with status 0 when the connection breaks or `signal` fires
   */
  stream(request: ApiRequest, onOpen: () => void, onLine: (line: string) => void): Promise<void>;
  close(): Promise<void>;
}
