/** A request that opens no exchange, because it breaks HTTP or a limit. The proxy closes its connection after the answer. */
export class BadRequest {
  readonly status: number;
  /** Value of `x-gateway-error`. */
  readonly slug: string;
  /** One sentence for the client; names the necessary change. */
  readonly message: string;

  constructor(status: number, slug: string, message: string) {
    this.status = status;
    this.slug = slug;
    this.message = message;
  }

  /** The slug as the log of requests spells reasons. */
  get reason(): string {
    return this.slug.replaceAll("-", "_");
  }
}

/** A 400 with the slug of every violation of HTTP. */
export function malformed(message: string): BadRequest {
  return new BadRequest(400, "bad-request", message);
}

export const UPGRADE_REFUSED = new BadRequest(
  501,
  "not-supported",
  "the gateway supports neither Upgrade nor CONNECT; send a plain HTTP/1.1 request",
);
export const HEAD_TOO_LARGE = new BadRequest(431, "headers-too-large", "the request headers are too large");
export const HEADERS_TIMEOUT = new BadRequest(408, "request-timeout", "the request headers were not complete in time");
export const BODY_TIMEOUT = new BadRequest(408, "request-timeout", "no byte of the request body arrived in time");
export const EXPECTATION_UNKNOWN = new BadRequest(
  417,
  "bad-request",
  "the gateway supports only the expectation 100-continue; remove the header Expect",
);
