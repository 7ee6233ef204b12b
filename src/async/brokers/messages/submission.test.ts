import { describe, expect, it } from "vitest";
import { parseEnvelope } from "./envelope.ts";
import { submission } from "./submission.ts";

const DEFAULTS = { requestQueueName: "requests", resultQueueName: "results", now: 1000.7, token: "f".repeat(32) };
const REQUEST = { id: "a", deadline: 2000, payload: { model: "m" } };

function refusal(request: unknown): string {
  try {
    submission(request as typeof REQUEST, DEFAULTS);
  } catch (error) {
    expect(error).toMatchObject({ name: "SluiceError", code: "REQUEST_INVALID" });
    return (error as Error).message;
  }
  throw new Error("it was taken");
}

describe("A-37: what a producer refuses", () => {
  const cyclic: Record<string, unknown> = {};
  cyclic["self"] = cyclic;

  it.each<[string, unknown, string]>([
    ["nothing", undefined, "request is required"],
    ["null", null, "request is required"],
    ["no id", { ...REQUEST, id: "" }, "request ID is required"],
    ["an id that is not a text", { ...REQUEST, id: 5 }, "request ID is required"],
    ["no deadline", { ...REQUEST, deadline: undefined }, "deadline is required and must be a positive Unix timestamp"],
    ["deadline 0", { ...REQUEST, deadline: 0 }, "deadline is required and must be a positive Unix timestamp"],
    ["a fraction", { ...REQUEST, deadline: 2000.5 }, "deadline is required and must be a positive Unix timestamp"],
    ["a deadline in the past", { ...REQUEST, deadline: 1000 }, "deadline has already expired"],
    ["no payload", { ...REQUEST, payload: undefined }, "payload is required and must be an object"],
    ["a list as payload", { ...REQUEST, payload: [] }, "payload is required and must be an object"],
    ["a payload that is not JSON", { ...REQUEST, payload: "{" }, "payload is a string, but not valid JSON"],
    ["a payload text of another kind", { ...REQUEST, payload: "[1]" }, "payload must be a JSON object"],
    ["a date as payload", { ...REQUEST, payload: new Date(0) }, "payload must be a JSON object"],
    ["metadata of another kind", { ...REQUEST, metadata: { a: 1 } }, "metadata.a must be a string"],
    ["headers of another kind", { ...REQUEST, headers: { a: null } }, "headers.a must be a string"],
    ["a text as headers", { ...REQUEST, headers: "a: b" }, "headers must be an object of strings"],
    ["labels of another kind", { ...REQUEST, labels: { tier: 1 } }, "labels.tier must be a string"],
    ["an endpoint of another kind", { ...REQUEST, endpoint: 1 }, "endpoint must be a string"],
    ["a queue of another kind", { ...REQUEST, requestQueueName: {} }, "requestQueueName must be a string"],
    ["a result queue of another kind", { ...REQUEST, resultQueueName: 1 }, "resultQueueName must be a string"],
  ])("%s", (_name, request, message) => {
    expect(refusal(request)).toBe(message);
  });

  it("what cannot be written as JSON", () => {
    expect(refusal({ ...REQUEST, payload: cyclic })).toMatch(/^payload cannot be written as JSON: .*circular/);
    expect(refusal({ ...REQUEST, payload: { n: 1n } })).toMatch(/^payload cannot be written as JSON: .*BigInt/);
  });
});

describe("what a producer writes", () => {
  it("A-31: the envelope as other producers write it", () => {
    const { envelope, ...rest } = submission(REQUEST, DEFAULTS);
    expect(rest).toEqual({ id: "a", deadline: 2000, token: "f".repeat(32), requestQueueName: "requests" });
    expect(envelope).toBe(
      `{"internal":{"request_token":"${"f".repeat(32)}","request_queue_name":"requests","result_queue_name":"results"},` +
        '"request_kind":"redis","data":{"id":"a","created":1000,"deadline":2000,"payload":{"model":"m"},' +
        '"request_queue_name":"requests","result_queue_name":"results"}}',
    );
  });

  it("A-32: a payload given as text stands in it unchanged", () => {
    const payload = '{ "seed": 12345678901234567890, "b": "<\\/\\u00e9>",\n "a": 1.0 }';
    const message = parseEnvelope(submission({ ...REQUEST, payload }, DEFAULTS).envelope);
    expect(Buffer.from(message.request.payload!).toString()).toBe(payload);
  });

  it("everything a request can carry comes back out", () => {
    const request = {
      ...REQUEST,
      id: 'quotes " and \u2028',
      metadata: { userid: "u" },
      headers: { "X-A": "1" },
      endpoint: "/v1/embeddings",
      requestQueueName: "other",
      resultQueueName: "mine",
      labels: { tier: "batch" },
    };
    const made = submission(request, DEFAULTS);
    expect(made.requestQueueName).toBe("other");
    expect(parseEnvelope(made.envelope)).toMatchObject({
      kind: "redis",
      routing: { requestQueueName: "other", resultQueueName: "mine", labels: { tier: "batch" } },
      request: { id: request.id, metadata: { userid: "u" }, headers: { "X-A": "1" }, endpoint: "/v1/embeddings" },
    });
  });

  it("null and empty members are left out", () => {
    const request = {
      ...REQUEST,
      metadata: {},
      headers: null,
      endpoint: "",
      labels: null,
    } as unknown as typeof REQUEST;
    expect(submission(request, DEFAULTS).envelope).toBe(submission(REQUEST, DEFAULTS).envelope);
  });
});
