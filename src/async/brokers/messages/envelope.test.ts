import { describe, expect, it } from "vitest";
import { encodeEnvelope, NO_ROUTING, parseBareRequest, parseEnvelope } from "./envelope.ts";
import type { EnvelopeKind, Routing } from "./message.ts";
import { UnreadableMessage } from "./request.ts";

const ROUTING: Routing = {
  retryCount: 3,
  queueId: "q1",
  requestToken: "0123456789abcdef0123456789abcdef",
  requestQueueName: "requests",
  resultQueueName: "results",
  correlationId: "7",
  labels: { tier: "batch", classification: "reserved" },
  lostLeases: 2,
};

function failure(text: string): UnreadableMessage {
  try {
    parseEnvelope(text);
  } catch (error) {
    expect(error).toBeInstanceOf(UnreadableMessage);
    return error as UnreadableMessage;
  }
  throw new Error("it was read");
}

/** Envelopes as the reference's producer module writes them: struct order, empty members left out, `<` escaped. */
const GOLDEN = {
  redis:
    '{"internal":{"request_token":"9f86d081884c7d659a2feaa0c55ad015","request_queue_name":"request-sortedset",' +
    '"result_queue_name":"result-list"},"request_kind":"redis","data":{"id":"req-1","created":1767225600,' +
    '"deadline":1767229200,"payload":{"max_tokens":10,"model":"m","prompt":"a \\u003c b \\u0026 c"},' +
    '"metadata":{"userid":"u1"},"headers":{"X-Team":"blue"},"endpoint":"/v1/chat/completions",' +
    '"request_queue_name":"request-sortedset","result_queue_name":"result-list"}}',
  retried:
    '{"internal":{"retry_count":2,"queue_id":"q1","request_token":"9f86d081884c7d659a2feaa0c55ad015",' +
    '"request_queue_name":"request-sortedset","result_queue_name":"result-list","labels":{"tier":"async"}},' +
    '"request_kind":"redis","data":{"id":"req-2","created":1767225600,"deadline":1767229200,"payload":{"model":"m"},' +
    '"request_queue_name":"request-sortedset","result_queue_name":"result-list"}}',
  plain: '{"internal":{},"request_kind":"plain","data":{"id":"","created":0,"deadline":1767229200,"payload":{}}}',
  pubsub:
    '{"internal":{"transport_correlation_id":"1234567","request_queue_name":"sub"},"request_kind":"pubsub",' +
    '"data":{"id":"p","created":1,"deadline":1767229200,"payload":{"model":"m"},"pubsub_id":"1234567"}}',
};

describe("A-31: envelopes that Go wrote", () => {
  it("one of the producer", () => {
    const { routing, kind, request } = parseEnvelope(GOLDEN.redis);
    expect(kind).toBe("redis");
    expect(routing).toEqual({
      ...NO_ROUTING,
      requestToken: "9f86d081884c7d659a2feaa0c55ad015",
      requestQueueName: "request-sortedset",
      resultQueueName: "result-list",
    });
    expect(request).toMatchObject({
      id: "req-1",
      created: 1767225600,
      deadline: 1767229200,
      metadata: { userid: "u1" },
      headers: { "X-Team": "blue" },
      endpoint: "/v1/chat/completions",
    });
    expect(Buffer.from(request.payload!).toString()).toBe(
      '{"max_tokens":10,"model":"m","prompt":"a \\u003c b \\u0026 c"}',
    );
  });

  it("one that was retried before", () => {
    const { routing } = parseEnvelope(GOLDEN.retried);
    expect(routing).toMatchObject({ retryCount: 2, queueId: "q1", labels: { tier: "async" }, lostLeases: 0 });
  });

  it("the other kinds, an empty id, empty routing", () => {
    expect(parseEnvelope(GOLDEN.plain)).toMatchObject({ kind: "plain", routing: NO_ROUTING, request: { id: "" } });
    expect(parseEnvelope(GOLDEN.pubsub)).toMatchObject({
      kind: "pubsub",
      routing: { correlationId: "1234567", requestQueueName: "sub" },
    });
  });

  it.each(Object.entries(GOLDEN))("%s goes back with every member, the request byte for byte", (_name, text) => {
    const message = parseEnvelope(text);
    const again = JSON.parse(encodeEnvelope(message)) as { internal: unknown };
    expect(again).toEqual(JSON.parse(text));
    expect(encodeEnvelope(message).endsWith(text.slice(text.indexOf('"request_kind"')))).toBe(true);
  });
});

describe("A-30: envelopes of the three kinds", () => {
  it.each<EnvelopeKind>(["plain", "redis", "pubsub"])("%s goes out and comes back", (kind) => {
    const text = '{"id":"a","deadline":5,"payload":{ "n": 12345678901234567890 },"more":[1]}';
    const message = parseEnvelope(encodeEnvelope({ routing: ROUTING, kind, text }));
    expect(message.routing).toEqual(ROUTING);
    expect(message).toMatchObject({ kind, text });
    expect(encodeEnvelope(message)).toBe(encodeEnvelope({ routing: ROUTING, kind, text }));
  });

  it("empty routing leaves no members behind", () => {
    expect(encodeEnvelope({ routing: NO_ROUTING, kind: "plain", text: "{}" })).toBe(
      '{"internal":{},"request_kind":"plain","data":{}}',
    );
  });

  it.each([
    ["missing", "", "request_kind is missing"],
    ["unknown", '"request_kind":"http",', 'request_kind is "http"'],
    ["null", '"request_kind":null,', "request_kind is null"],
    ["an object", '"request_kind":{"a":1},', 'request_kind is {"a":1}'],
  ])("a kind that is %s: its owner can still be told", (_name, member, problem) => {
    const text = `{"internal":{"result_queue_name":"results"},${member}"data":{"id":"a","deadline":5}}`;
    expect(failure(text)).toMatchObject({
      code: "MESSAGE_UNREADABLE",
      message: problem,
      id: "a",
      resultQueueName: "results",
    });
  });

  it.each([
    [
      "no JSON, of which nothing is quoted",
      '{"payload": "my secret"',
      /^the entry is not JSON(: .* at position \d+)?$/,
    ],
    ["null", "null", /^the entry is not a JSON object$/],
    ["a list", "[]", /^the entry is not a JSON object$/],
    ["a bare request", '{"id":"a","deadline":5,"payload":{}}', /^request_kind is missing$/],
    ["no data", '{"request_kind":"redis"}', /^data is missing/],
    ["null data", '{"request_kind":"redis","data":null}', /^data is missing/],
    ["empty data", '{"request_kind":"redis","data":{}}', /^data is missing/],
    ["listed data", '{"request_kind":"redis","data":[1]}', /^data is missing/],
    [
      "a text as routing",
      '{"internal":"x","request_kind":"redis","data":{"id":"a"}}',
      /^internal is not a JSON object$/,
    ],
  ])("%s is no envelope", (_name, text, problem) => {
    expect(failure(text).message).toMatch(problem);
  });

  it.each([
    ['"deadline":"5"', "deadline is not a whole number"],
    ['"deadline":5.5', "deadline is not a whole number"],
    ['"deadline":1e400', "deadline is not a whole number"],
    ['"deadline":1e19', "deadline is not a whole number"],
    ['"created":"now"', "created is not a whole number"],
    ['"payload":[]', "payload is not a JSON object"],
    ['"payload":"text"', "payload is not a JSON object"],
    ['"endpoint":5', "endpoint is not a string"],
    ['"metadata":{"a":1}', "metadata.a is not a string"],
    ['"headers":["a"]', "headers is not a JSON object"],
  ])("data with %s: unreadable, and its owner can be told", (member, problem) => {
    const text = `{"internal":{"result_queue_name":"results"},"request_kind":"redis","data":{"id":"a",${member}}}`;
    expect(failure(text)).toMatchObject({ message: problem, id: "a", resultQueueName: "results" });
  });

  it.each([
    ['"retry_count":"1"', "retry_count is not a whole number"],
    ['"queue_id":1', "queue_id is not a string"],
    ['"result_queue_name":1', "result_queue_name is not a string"],
    ['"labels":{"tier":1}', "labels.tier is not a string"],
  ])("routing with %s", (member, problem) => {
    expect(failure(`{"internal":{${member}},"request_kind":"redis","data":{"id":"a"}}`)).toMatchObject({
      message: problem,
      id: "a",
    });
  });

  it("null counts as absent, unknown members are ignored, a negative count is none", () => {
    const text =
      '{"internal":{"retry_count":-4,"labels":null,"x":1},"request_kind":"plain","y":[],' +
      '"data":{"id":"a","payload":null,"metadata":null,"endpoint":null,"deadline":9223372036854775807}}';
    const { routing, request } = parseEnvelope(text);
    expect(routing).toEqual(NO_ROUTING);
    expect(request).toMatchObject({ payload: undefined, metadata: {}, headers: {}, endpoint: "" });
    expect(request.deadline).toBeGreaterThan(9e18);
    expect(request.created).toBeNaN();
  });

  it("of members of one name the last counts, for the payload's bytes as for its meaning", () => {
    const text =
      '{"request_kind":"plain","data":{"id":"x"},"data":{"id":"a","payload":{"n":1},"p\\u0061yload":{ "n" : 2 }}}';
    const { request } = parseEnvelope(text);
    expect(request.id).toBe("a");
    expect(Buffer.from(request.payload!).toString()).toBe('{ "n" : 2 }');
  });

  it("names of the language's own members mean nothing", () => {
    const text = '{"request_kind":"plain","data":{"id":"a","headers":{"__proto__":"x","constructor":"y"}}}';
    const { headers } = parseEnvelope(text).request;
    expect(Object.entries(headers)).toEqual([
      ["__proto__", "x"],
      ["constructor", "y"],
    ]);
  });

  it("100,000 brackets are only text", () => {
    const nested = `${'{"a":['.repeat(50_000)}${"]}".repeat(50_000)}`;
    const message = parseEnvelope(`{"request_kind":"plain","data":{"id":"a","payload":${nested}}}`);
    expect(message.request.payload).toHaveLength(nested.length);
  });
});

describe("a request without an envelope (async-processor 4.3)", () => {
  const routing = { retryCount: 2, correlationId: "77", requestQueueName: "sub" };

  it("attributes go over metadata; routing is what the transport says", () => {
    const text = '{"id":"a","deadline":5,"payload":{"b":1},"metadata":{"x":"1","y":"2"}}';
    const message = parseBareRequest(text, { y: "3", z: "4" }, routing);
    expect(message).toMatchObject({
      kind: "pubsub",
      text,
      routing: { ...NO_ROUTING, ...routing },
      request: { metadata: { x: "1", y: "3", z: "4" } },
    });
  });

  it.each(["", "null", "[]", '{"id":"a","deadline":"x"}'])("%s is none", (text) => {
    expect(() => parseBareRequest(text, {}, routing)).toThrow(UnreadableMessage);
  });
});
