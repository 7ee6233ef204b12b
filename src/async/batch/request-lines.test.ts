import { describe, expect, it } from "vitest";
import { type RequestDefaults, readRequestText } from "./request-lines.ts";

const DEFAULTS: RequestDefaults = {
  deadline: 2_000_000_000,
  now: 1_800_000_000,
  metadata: { tenant: "a" },
  headers: {},
  labels: { tier: "gold" },
  endpoint: "/v1/chat/completions",
  requestQueueName: "requests",
  resultQueueName: "results",
  newId: () => "new",
};
const read = (text: string, over: Partial<RequestDefaults> = {}) => readRequestText(text, { ...DEFAULTS, ...over });

describe("readRequestText", () => {
  it("takes an object without a payload in it for the payload, and leaves its text alone", () => {
    const text = '{"model":"m", "max_tokens":12345678901234567890, "id":"its own"}';
    expect(read(` ${text}\n`)).toEqual({
      id: "new",
      payload: text,
      deadline: 2_000_000_000,
      metadata: { tenant: "a" },
      headers: {},
      labels: { tier: "gold" },
      endpoint: "/v1/chat/completions",
      requestQueueName: "requests",
      resultQueueName: "results",
    });
    expect(read("{}", { endpoint: undefined })).not.toHaveProperty("endpoint");
  });

  it("what a request says itself counts, and its payload stays byte for byte", () => {
    const payload = '{"z":1.0, "a":"<&\\u00e9"}';
    expect(
      read(
        `{"id":"mine","deadline":1900000000,"payload":${payload},"metadata":{"user":"u"},"labels":{"tier":"spot"},
          "headers":{"x-a":"1"},"endpoint":"/v1/x","request_queue_name":"q","result_queue_name":"r","created":5}`,
      ),
    ).toEqual({
      id: "mine",
      deadline: 1_900_000_000,
      payload,
      metadata: { tenant: "a", user: "u" },
      headers: { "x-a": "1" },
      labels: { tier: "spot" },
      endpoint: "/v1/x",
      requestQueueName: "q",
      resultQueueName: "r",
    });
  });

  it("says what is wrong with it", () => {
    for (const [text, problem] of [
      ["{", /^not valid JSON: /],
      ["[]", /must be a JSON object/],
      ['{"payload":{},"deadlne":5}', /no member "deadlne"; the members are id, .*; did you mean `deadline`\?$/],
      ['{"id":"a","paylod":{}}', /no member "paylod"; did you mean `payload`\?/],
      ['{"id":"a","deadline":1900000000}', /^payload is missing/],
      ['{"payload":"{}"}', /^payload must be an object$/],
      ['{"payload":{},"deadline":"1900000000"}', /deadline must be a positive whole number of Unix seconds, not "19/],
      ['{"payload":{},"deadline":1900000000000}', /give seconds, not milliseconds/],
      ['{"payload":{},"deadline":1800000000}', /^deadline 1800000000 \(2027-01-15T08:00:00\.000Z\) has passed$/],
      ['{"payload":{},"metadata":{"n":1}}', /^metadata\.n must be a string$/],
      ['{"payload":{},"headers":[]}', /^headers must be an object of strings$/],
      ['{"payload":{},"id":7}', /^id must be a string$/],
    ] as const)
      expect(() => read(text), text).toThrow(
        expect.objectContaining({ code: "REQUEST_INVALID", message: expect.stringMatching(problem) }),
      );
  });
});
