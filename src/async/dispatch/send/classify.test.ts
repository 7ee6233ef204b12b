import { describe, expect, it } from "vitest";
import { type Classified, classify } from "./classify.ts";
import type { GatewayAnswer } from "./inference-client.ts";

const IN_TIME = { id: "a", deadlinePassed: false };
const TOO_LATE = { id: "a", deadlinePassed: true };

function response(status: number, more: Partial<GatewayAnswer & { kind: "response" }> = {}): GatewayAnswer {
  const body = Buffer.from(`body of ${status}`);
  return { kind: "response", status, body, contentType: "text/plain", retryAfterMs: 7000, dropReason: "", ...more };
}

function truncated(status: number, tooLong = false): GatewayAnswer {
  return { kind: "truncated", status, retryAfterMs: 5000, message: "the answer broke off", tooLong };
}

function ended(classified: Classified): Classified & { kind: "result" } {
  if (classified.kind !== "result") throw new Error(classified.kind);
  return classified;
}

const body = (status: number): Buffer => Buffer.from(`body of ${status}`);

describe("A-77: what a status means", () => {
  it.each([200, 201, 204, 299, 600, 999])("%d is the result", (status) => {
    for (const context of [IN_TIME, TOO_LATE])
      expect(classify(response(status), context)).toEqual({
        kind: "result",
        counter: "success",
        category: undefined,
        shed: false,
        latch: false,
        problem: "",
        result: {
          id: "a",
          statusCode: status,
          payload: body(status),
          errorCode: "",
          errorMessage: "",
          contentType: "text/plain",
        },
      });
  });

  it.each([301, 302, 304, 307, 400, 401, 403, 404, 409, 413, 422, 499])("%d is fatal, and the result", (status) => {
    expect(classify(response(status), IN_TIME)).toMatchObject({
      kind: "result",
      counter: "failed",
      category: "INVALID_REQ",
      shed: false,
      latch: false,
      result: { statusCode: status, payload: body(status), errorCode: "", errorMessage: "" },
    });
  });

  it.each<[number, string, boolean, number | undefined]>([
    [429, "RATE_LIMIT", true, 7000],
    [500, "SERVER_ERROR", false, 7000],
    [502, "SERVER_ERROR", false, 7000],
    [503, "SERVER_ERROR", false, 7000],
    [504, "SERVER_ERROR", false, 7000],
    [599, "SERVER_ERROR", false, 7000],
    [408, "SERVER_ERROR", false, undefined],
    [425, "SERVER_ERROR", false, undefined],
  ])("%d is retried as %s; shed: %s; Retry-After %s ms", (status, category, shed, retryAfterMs) => {
    expect(classify(response(status), IN_TIME)).toMatchObject({
      kind: "retry",
      category,
      shed,
      retryAfterMs,
      message: `status ${status}`,
    });
  });
});

describe("A-6: what closes the gates at once", () => {
  it.each<[number, string, boolean]>([
    [429, "", true],
    [429, "rejected-saturated", true],
    [503, "rejected-saturated", true],
    [429, "rejected-ttl-expired", false],
    [429, "evicted-for-priority", false],
    [503, "", false],
    [503, "rejected-ttl-expired", false],
    [500, "rejected-saturated", false],
    [408, "rejected-saturated", false],
  ])("%d with reason %j: %s", (status, dropReason, latch) => {
    for (const context of [IN_TIME, TOO_LATE])
      expect(classify(response(status, { dropReason }), context)).toMatchObject({ latch });
  });

  it("a bad request with a reason does not", () => {
    expect(classify(response(400, { dropReason: "rejected-saturated" }), IN_TIME)).toMatchObject({ latch: false });
  });
});

describe("no whole answer", () => {
  it("A-79: one that broke off is retried when the server asks for it", () => {
    for (const status of [200, 400, 429, 500])
      expect(classify(truncated(status), IN_TIME)).toMatchObject({
        kind: "retry",
        category: "SERVER_ERROR",
        shed: false,
        latch: false,
        retryAfterMs: 5000,
      });
  });

  it("one that is too long will be so again: INFERENCE_ERROR", () => {
    for (const status of [200, 404])
      expect(classify(truncated(status, true), IN_TIME)).toMatchObject({
        kind: "result",
        counter: "failed",
        result: {
          statusCode: status,
          errorCode: "INFERENCE_ERROR",
          errorMessage: "Failed to send request to inference: the answer broke off",
          payload: Buffer.from('{"error":"Failed to send request to inference: the answer broke off"}'),
        },
      });
    for (const status of [429, 503]) expect(classify(truncated(status, true), IN_TIME).kind).toBe("retry");
  });

  it.each(["no-answer", "timeout"] as const)("H-2, A-80: %s is retried while there is time", (kind) => {
    expect(classify({ kind, message: "refused" }, IN_TIME)).toMatchObject({
      kind: "retry",
      category: "SERVER_ERROR",
      shed: false,
      latch: false,
      retryAfterMs: undefined,
      message: "refused",
    });
  });

  it("aborted by us: back into the queue", () => {
    for (const context of [IN_TIME, TOO_LATE])
      expect(classify({ kind: "aborted" }, context)).toEqual({ kind: "requeue" });
  });
});

describe("no time for a retry", () => {
  it.each([408, 425, 429, 500, 503])("A-83: %d: the last status and body, no error code", (status) => {
    const { result, counter } = ended(classify(response(status), TOO_LATE));
    expect(counter).toBe("exceeded");
    expect(result).toMatchObject({ statusCode: status, payload: body(status), errorCode: "", errorMessage: "" });
    // What the dispatcher falls back to when it is itself who finds that the time is over.
    const retry = classify(response(status), IN_TIME);
    expect(retry.kind === "retry" && retry.lastAnswer).toEqual(result);
  });

  it("the reason of a rejection is told", () => {
    const rejected = response(429, { dropReason: "rejected-ttl-expired" });
    const { result } = ended(classify(rejected, TOO_LATE));
    expect(result).toMatchObject({
      errorCode: "",
      errorMessage: "Failed to send request to inference: status 429 (dropped: rejected-ttl-expired)",
    });
    const fatal = ended(classify(response(403, { dropReason: "policy" }), IN_TIME));
    expect(fatal.result.errorMessage).toContain("(dropped: policy)");
  });

  it("a 429 still counts as shed", () => {
    expect(classify(response(429), TOO_LATE)).toMatchObject({ kind: "result", shed: true, category: "RATE_LIMIT" });
  });

  it.each<GatewayAnswer>([
    { kind: "timeout", message: "x" },
    { kind: "no-answer", message: "x" },
    { kind: "truncated", status: 200, retryAfterMs: undefined, message: "x", tooLong: false },
  ])("H-40, A-80: $kind: DEADLINE_EXCEEDED and its counter, no failure", (answer) => {
    const { result, counter } = ended(classify(answer, TOO_LATE));
    expect(counter).toBe("exceeded");
    expect(result).toMatchObject({ statusCode: 0, errorCode: "DEADLINE_EXCEEDED" });
    const cause = answer.kind === "truncated" ? "status 200: x" : "x";
    expect(result.errorMessage).toBe(`deadline exceeded; the last attempt: ${cause}`);
    const retry = classify(answer, IN_TIME);
    expect(retry.kind === "retry" && retry.lastAnswer).toEqual(result);
  });
});
