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
const HEADERS_TIMEOUT = new BadRequest(408, "request-timeout", "the request headers were not complete in time");
export const BODY_TIMEOUT = new BadRequest(408, "request-timeout", "no byte of the request body arrived in time");
export const EXPECTATION_UNKNOWN = new BadRequest(
  417,
  "bad-request",
  "the gateway supports no expectation but 100-continue; remove the header Expect",
);

/**
 * The answer after node's parser gave up on a connection (envoy-data-plane 4.5). Undefined: the client is gone.
 * @param code `code` of the error of node's `clientError` event
 * @param reason its `reason`, a few words of the parser
 */
export function parserVerdict(code: string | undefined, reason: string | undefined): BadRequest | undefined {
  switch (code) {
    case "HPE_HEADER_OVERFLOW":
      return new BadRequest(431, "headers-too-large", "the request headers are too large");
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return HEADERS_TIMEOUT;
    case "HPE_INVALID_EOF_STATE":
      return undefined;
  }
  if (code?.startsWith("HPE_")) return malformed(`the request is not valid HTTP/1.1: ${reason || code}`);
  return undefined;
}
