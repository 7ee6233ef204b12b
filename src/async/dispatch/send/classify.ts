import type { ResultMessage } from "../../brokers/messages/message.ts";
import { errorResult } from "../../brokers/messages/result.ts";
import type { GatewayAnswer } from "./inference-client.ts";

/** The kind of a failure, for spans and texts; the names of async-processor 7.4. */
export type FailureCategory = "RATE_LIMIT" | "INVALID_REQ" | "SERVER_ERROR";

/** The counter of a terminal result. */
export type ResultCounter = "success" | "failed" | "exceeded";

/** The meaning of an answer for its message. */
export type Classified =
  /** The end of the message. */
  | {
      readonly kind: "result";
      readonly result: ResultMessage;
      readonly counter: ResultCounter;
      readonly category: FailureCategory | undefined;
      readonly shed: boolean;
      readonly latch: boolean;
      /** The problem, for logs; "" = none. */
      readonly problem: string;
    }
  /** To be sent again after a pause. */
  | {
      readonly kind: "retry";
      readonly category: FailureCategory;
      /** Counts as shed load: a 429. */
      readonly shed: boolean;
      /** The gateway is saturated: the capacities close until a newer figure says otherwise (async-processor 2.7). */
      readonly latch: boolean;
      /** The pause that the gateway asked for, milliseconds; undefined = none. */
      readonly retryAfterMs: number | undefined;
      /** The result when no time is left for a retry. */
      readonly lastAnswer: ResultMessage;
      /** For logs. */
      readonly message: string;
    }
  /** Sluice gave the attempt up: the message goes back into the queue, and nothing is counted. */
  | { readonly kind: "requeue" };

export interface ClassifyContext {
  /** Of the message. */
  readonly id: string;
  /** No time is left for a retry. */
  readonly deadlinePassed: boolean;
}

/** The one drop reason that says more than "later": the pool is full. */
const SATURATED = "rejected-saturated";
const FAILED_TO_SEND = "Failed to send request to inference: ";

/** The meaning of an attempt's answer for its message. Source: async-processor 7.4 with its changes, 4.5. */
export function classify(answer: GatewayAnswer, context: ClassifyContext): Classified {
  switch (answer.kind) {
    case "response":
      return ofResponse(answer, context);
    case "truncated":
      // An answer that is too long stays too long, unless it was the page of a failure that may pass.
      if (answer.tooLong && !isRetryable(answer.status)) return unreadable(answer, context);
      return again(context, {
        category: "SERVER_ERROR",
        shed: false,
        latch: false,
        retryAfterMs: answer.retryAfterMs,
        lastAnswer: deadlineResult(context.id, `status ${answer.status}: ${answer.message}`),
        message: `status ${answer.status}: ${answer.message}`,
      });
    case "no-answer":
    case "timeout":
      return again(context, {
        category: "SERVER_ERROR",
        shed: false,
        latch: false,
        retryAfterMs: undefined,
        lastAnswer: deadlineResult(context.id, answer.message),
        message: answer.message,
      });
    case "aborted":
      return { kind: "requeue" };
  }
}

/**
 * The result of a message whose deadline has passed (async-processor 4.4).
 * @param cause outcome of its last attempt, in one line; "" = no attempt
 */
export function deadlineResult(id: string, cause: string): ResultMessage {
  return errorResult(id, "DEADLINE_EXCEEDED", `deadline exceeded${cause === "" ? "" : `; the last attempt: ${cause}`}`);
}

function ofResponse(answer: GatewayAnswer & { kind: "response" }, context: ClassifyContext): Classified {
  const { status, dropReason } = answer;
  if (status < 300 || status >= 600) return ended(httpResult(answer, context.id, ""), "success", undefined);
  const message = `status ${status}${dropReason === "" ? "" : ` (dropped: ${dropReason})`}`;
  const result = httpResult(answer, context.id, dropReason === "" ? "" : `${FAILED_TO_SEND}${message}`);
  if (!isRetryable(status)) return ended(result, "failed", "INVALID_REQ");
  const overload =
    status === 429 ? dropReason === "" || dropReason === SATURATED : status === 503 && dropReason === SATURATED;
  return again(context, {
    category: status === 429 ? "RATE_LIMIT" : "SERVER_ERROR",
    shed: status === 429,
    latch: overload,
    retryAfterMs: status === 429 || status >= 500 ? answer.retryAfterMs : undefined,
    lastAnswer: result,
    message,
  });
}

/** 408, 425, 429 and 5xx: the same request may succeed later. */
function isRetryable(status: number): boolean {
  return status === 408 || status === 425 || status === 429 || (status >= 500 && status < 600);
}

function again(context: ClassifyContext, retry: Omit<Classified & { kind: "retry" }, "kind">): Classified {
  if (!context.deadlinePassed) return { kind: "retry", ...retry };
  const { lastAnswer: result, category, shed, latch, message: problem } = retry;
  return { kind: "result", result, counter: "exceeded", category, shed, latch, problem };
}

function ended(result: ResultMessage, counter: ResultCounter, category: FailureCategory | undefined): Classified {
  return { kind: "result", result, counter, category, shed: false, latch: false, problem: "" };
}

function httpResult(answer: GatewayAnswer & { kind: "response" }, id: string, errorMessage: string): ResultMessage {
  const { status, body, contentType } = answer;
  return { id, statusCode: status, payload: body, errorCode: "", errorMessage, contentType };
}

/** The one failure of the transport that another attempt cannot mend; its status shows that there was an answer. */
function unreadable(answer: GatewayAnswer & { kind: "truncated" }, { id }: ClassifyContext): Classified {
  const result = errorResult(id, "INFERENCE_ERROR", `${FAILED_TO_SEND}${answer.message}`);
  return ended({ ...result, statusCode: answer.status }, "failed", "SERVER_ERROR");
}
