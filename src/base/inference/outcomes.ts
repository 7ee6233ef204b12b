import { SluiceError } from "./errors.ts";
import { HEADER } from "./headers.ts";

/**
 * Every way in which an exchange can be refused or fail on the inference path. Each row has the HTTP status, the code for
 * people and for the label `error_code`, and whether the dropped-reason header is sent. Source: epp-protocol 9.1-9.4 and
 * docs/spec/decisions.md#immediate-response. `path_not_allowed` and the rows about keys and limits are of the gateway alone.
 */
export const OUTCOMES = {
  bad_request: { status: 400, code: "BadRequest" },
  model_missing: { status: 400, code: "BadRequest" },
  over_token_limit: { status: 400, code: "BadRequest" },
  no_parser: { status: 400, code: "BadRequest" },
  key_missing: { status: 401, code: "Unauthorized" },
  key_invalid: { status: 401, code: "Unauthorized" },
  key_expired: { status: 401, code: "Unauthorized" },
  key_revoked: { status: 401, code: "Unauthorized" },
  /** The keys of the tokens' issuer cannot be had. */
  token_unverifiable: { status: 503, code: "ServiceUnavailable" },
  path_not_allowed: { status: 403, code: "Forbidden" },
  unknown_model: { status: 404, code: "BadConfiguration" },
  model_not_found: { status: 404, code: "NotFound" },
  /** To the client the same as `model_not_found`: a key does not tell which further models there are. */
  model_not_allowed: { status: 404, code: "NotFound" },
  body_stalled: { status: 408, code: "RequestTimeout" },
  precondition_failed: { status: 412, code: "PreconditionFailed" },
  too_large: { status: 413, code: "PayloadTooLarge" },
  rate_limited_requests: { status: 429, code: "RateLimited" },
  rate_limited_tokens: { status: 429, code: "RateLimited" },
  rate_limited_in_flight: { status: 429, code: "RateLimited" },
  saturated: { status: 429, code: "ResourceExhausted", dropped: "rejected-saturated" },
  no_target: { status: 429, code: "ResourceExhausted", dropped: "rejected-saturated" },
  denied: { status: 429, code: "ResourceExhausted" },
  evicted: { status: 429, code: "ResourceExhausted", dropped: "evicted" },
  evicted_queue_pressure: { status: 429, code: "ResourceExhausted", dropped: "evicted-queue-pressure" },
  evicted_priority: { status: 429, code: "ResourceExhausted", dropped: "evicted-priority" },
  ttl_expired: { status: 429, code: "ResourceExhausted", dropped: "rejected-ttl-expired" },
  /** The same with `--parity v1.5`. */
  queue_timeout: { status: 503, code: "ServiceUnavailable", dropped: "rejected-ttl-expired" },
  internal: { status: 500, code: "Internal" },
  not_supported: { status: 501, code: "NotImplemented" },
  upstream_connect: { status: 503, code: "ServiceUnavailable" },
  upstream_reset: { status: 502, code: "BadGateway" },
  upstream_timeout: { status: 504, code: "GatewayTimeout" },
  no_endpoints: { status: 503, code: "ServiceUnavailable", dropped: "rejected-no-endpoints" },
  context_cancelled: { status: 503, code: "ServiceUnavailable", dropped: "rejected-context-cancelled" },
  shutting_down: { status: 503, code: "ServiceUnavailable", dropped: "rejected-shutting-down" },
} as const satisfies Record<string, OutcomeRow>;

interface OutcomeRow {
  readonly status: number;
  readonly code: string;
  /** Value of `x-llm-d-request-dropped-reason`. */
  readonly dropped?: string;
}

export type OutcomeReason = keyof typeof OUTCOMES;

const AT_DOOR: ReadonlySet<string> = new Set<OutcomeReason>([
  "key_missing",
  "key_invalid",
  "key_expired",
  "key_revoked",
  "token_unverifiable",
]);

/** Whether a request was refused before it was known who sends it. */
export function isRefusedAtDoor(reason: string): boolean {
  return AT_DOOR.has(reason);
}

/** A refusal: a row of the table and the sentence that explains this instance of it. */
export class Rejection {
  readonly reason: OutcomeReason;
  readonly detail: string;
  /** The sentence for clients of the gateway: the detail, unless the detail has the words of the reference's implementation. */
  readonly plain: string;
  /** Whole seconds after which another try makes sense, at least 1; undefined = unknown. */
  readonly retryAfter: number | undefined;

  /** @throws SluiceError OUTCOME_UNKNOWN: plugins make rejections, too, and some plugins have no type checks */
  constructor(reason: OutcomeReason, detail: string, plain = detail, retryAfter?: number) {
    if (!Object.hasOwn(OUTCOMES, reason) || typeof detail !== "string")
      throw new SluiceError(
        "OUTCOME_UNKNOWN",
        `a rejection takes a reason, one of ${Object.keys(OUTCOMES).join(", ")}, and a sentence for the client`,
      );
    this.reason = reason;
    this.detail = detail;
    this.plain = plain;
    this.retryAfter = retryAfter;
  }

  get status(): number {
    return OUTCOMES[this.reason].status;
  }

  get code(): string {
    return OUTCOMES[this.reason].code;
  }

  /** The text a client sees behind Envoy (epp-protocol 9.2). */
  get text(): string {
    return `inference error: ${this.code} - ${this.detail}`;
  }

  /** Name and value of the dropped-reason header, where the row has one. */
  get droppedHeader(): readonly [string, string] | undefined {
    const row: OutcomeRow = OUTCOMES[this.reason];
    return row.dropped === undefined ? undefined : [HEADER.droppedReason, row.dropped];
  }
}
