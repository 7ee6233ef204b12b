import { describe, expect, it } from "vitest";
import { type OutcomeReason, Rejection } from "../../base/inference/outcomes.ts";
import { apiShapeOf, forAnthropic, isAnthropic } from "./api-shapes.ts";
import { jsonAnswer, type LocalAnswer, lastEvent, rejectionAnswer } from "./local-answer.ts";

describe("the API of a request", () => {
  it.each([
    ["/v1/messages", "anthropic"],
    ["/v1/messages?beta=true", "anthropic"],
    ["/anthropic/v1/messages/count_tokens", "anthropic"],
    ["/v1/responses", "responses"],
    ["/v1/responses/r1", "openai"],
    ["/v1/chat/completions", "openai"],
    ["/v1/chat/completions?next=/messages", "openai"],
    ["/v1/messages-of-mine", "openai"],
    ["", "openai"],
  ])("of %s is %s", (target, shape) => {
    expect(apiShapeOf(target)).toBe(shape);
  });

  it("is Anthropic's where the client names its version, at any path", () => {
    expect(isAnthropic("/v1/models", ["Host", "a", "Anthropic-Version", "2023-06-01"])).toBe(true);
    expect(isAnthropic("/v1/models", ["host", "anthropic-version"])).toBe(false);
    expect(isAnthropic(undefined, [])).toBe(false);
  });
});

describe("an answer for a client of Anthropic's API", () => {
  const shaped = (reason: OutcomeReason): LocalAnswer & { json: Record<string, unknown> } => {
    const answer = forAnthropic(rejectionAnswer(new Rejection(reason, "no – non"), "r1"));
    return { ...answer, json: JSON.parse(answer.body.toString()) };
  };
  const header = ({ headers }: LocalAnswer, name: string) => headers[headers.indexOf(name) + 1];

  it.each([
    ["bad_request", "invalid_request_error"],
    ["path_not_allowed", "permission_error"],
    ["model_not_found", "not_found_error"],
    ["too_large", "request_too_large"],
    ["denied", "rate_limit_error"],
    ["saturated", "overloaded_error"],
    ["ttl_expired", "overloaded_error"],
    ["evicted", "overloaded_error"],
    ["rate_limited_requests", "rate_limit_error"],
    ["internal", "api_error"],
    ["upstream_connect", "api_error"],
    ["no_endpoints", "overloaded_error"],
    ["body_stalled", "invalid_request_error"],
  ] as const)("%s has the type %s", (reason, type) => {
    const answer = shaped(reason);
    expect(answer.json).toEqual({
      type: "error",
      error: { type, message: "no – non", help: expect.stringContaining(`#${reason}`) },
      request_id: "r1",
    });
    expect(header(answer, "content-length")).toBe(String(answer.body.length));
    expect([header(answer, "request-id"), header(answer, "x-request-id")]).toEqual(["r1", "r1"]);
  });

  it("that is no error keeps its body", () => {
    const list = jsonAnswer({ data: [] }, "r1");
    const answer = forAnthropic(list);
    expect(answer.body).toBe(list.body);
    expect(header(answer, "request-id")).toBe("r1");
  });
});

describe("the last event of a stream that breaks off", () => {
  const read = (event: string) => JSON.parse(event.slice(event.indexOf("data: ") + 6));

  it("has no name in OpenAI's older APIs", () => {
    const event = lastEvent(Buffer.alloc(0), "gone").toString();
    expect(event).toMatch(/^data: .*\n\n$/);
    expect(read(event).error).toMatchObject({ type: "upstream_error", code: 502 });
  });

  it("has the members of OpenAI's own event, and an error object, in the Responses API", () => {
    const event = lastEvent(Buffer.from("data: {"), "gone", "responses").toString();
    expect(event).toMatch(/^\n\nevent: error\ndata: .*\n\n$/);
    expect(read(event)).toMatchObject({ type: "error", code: "502", param: null, error: { type: "upstream_error" } });
  });

  it("has a name and a type in Anthropic's API", () => {
    const event = lastEvent(Buffer.from("}\n\n"), "gone", "anthropic").toString();
    expect(event).toMatch(/^event: error\ndata: .*\n\n$/);
    expect(read(event)).toMatchObject({ type: "error", error: { type: "api_error" } });
  });
});
