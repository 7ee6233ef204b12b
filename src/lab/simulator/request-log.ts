/** What is remembered of one request (envoy-data-plane 5.3, "Introspection"). Times are wall-clock milliseconds. */
export interface RequestRecord {
  /** `x-request-id`, or one made up here. */
  readonly id: string;
  readonly method: string;
  readonly path: string;
  /** As received, lower-case names; repeated ones joined with ", ". */
  readonly headers: Readonly<Record<string, string>>;
  /** The `content-length` header; null when there was none. */
  readonly declaredContentLength: number | null;
  model: string | null;
  /** Hex digest of the body; null until it was read to its end. */
  bodySha256: string | null;
  /** Bytes of body that arrived. */
  bodyLength: number;
  /** More than white space followed the JSON document ... */
  trailingBytes: boolean;
  /** ... namely the same document again: what a retry that replays a body wrongly sends. */
  repeatedDocument: boolean;
  /** The declared length and the bytes that came differ, more or fewer. */
  lengthMismatch: boolean;
  readonly receivedAt: number;
  firstTokenAt: number | null;
  endedAt: number | null;
  /** The client went away before the answer was complete. */
  aborted: boolean;
  abortedAt: number | null;
  /** Status sent; null when none was. */
  status: number | null;
  /** The fault that cut the connection, if one did. */
  fault: "fail-connect" | "drop-after-tokens" | null;
}

/** The most recent requests, a bounded ring. */
export class RequestLog {
  readonly #capacity: number;
  readonly #ring: RequestRecord[] = [];
  #next = 0;

  /** @param capacity records kept, >= 1 */
  constructor(capacity = 1000) {
    this.#capacity = capacity;
  }

  add(record: RequestRecord): void {
    this.#ring[this.#next] = record;
    this.#next = (this.#next + 1) % this.#capacity;
  }

  /** Oldest first. */
  list(): RequestRecord[] {
    return this.#ring.length < this.#capacity
      ? [...this.#ring]
      : [...this.#ring.slice(this.#next), ...this.#ring.slice(0, this.#next)];
  }

  clear(): void {
    this.#ring.length = 0;
    this.#next = 0;
  }
}
