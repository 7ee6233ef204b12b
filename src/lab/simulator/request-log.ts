/** The record of one request (envoy-data-plane 5.3, "Introspection"). Times are wall-clock milliseconds. */
export interface RequestRecord {
  /** `x-request-id`, or a generated id. */
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
  /** Received bytes of the body. */
  bodyLength: number;
  /** Bytes other than white space followed the JSON document. */
  trailingBytes: boolean;
  /** The bytes after the document repeat it: a retry that replays a body wrongly sends this. */
  repeatedDocument: boolean;
  /** The declared length differs from the number of received bytes. */
  lengthMismatch: boolean;
  readonly receivedAt: number;
  firstTokenAt: number | null;
  endedAt: number | null;
  /** The client left before the answer was complete. */
  aborted: boolean;
  abortedAt: number | null;
  /** The sent status; null when none was sent. */
  status: number | null;
  /** The fault that cut the connection, if any. */
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
