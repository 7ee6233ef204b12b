import { describe, expect, it } from "vitest";
import { parseEnvelope } from "../../brokers/messages/envelope.ts";
import type { QueueSettings } from "../../brokers/settings.ts";
import { buildRequest, type OutboundParts } from "./outbound.ts";

const QUEUE: QueueSettings = {
  id: "q",
  name: "requests",
  workerPoolId: "default",
  inferenceObjective: "",
  igwBaseUrl: "http://gw:8080",
  requestPathUrl: "/v1/completions",
  labels: {},
  gate: undefined,
  resultQueueName: undefined,
  trustMessageLabels: true,
  allowedEndpoints: undefined,
  maxQueueShare: 1,
};

interface Told {
  readonly data?: object;
  readonly queue?: Partial<QueueSettings>;
  readonly parts?: Partial<OutboundParts>;
}

function build({ data, queue, parts }: Told = {}) {
  const request = { id: "req-1", deadline: 5, payload: {}, ...data };
  const message = parseEnvelope(`{"request_kind":"redis","data":${JSON.stringify(request)}}`);
  return buildRequest({ message, queue: { ...QUEUE, ...queue }, stamped: [], remainingMs: 1500.9, ...parts });
}

/** The headers by name; none of them may come twice. */
function headersOf(told?: Told): Record<string, string> {
  const built = build(told);
  if (built.kind !== "request") throw new Error(built.reason);
  const names = built.headers.filter((_text, i) => i % 2 === 0);
  expect(new Set(names).size).toBe(names.length);
  return Object.fromEntries(names.map((name, i) => [name, built.headers[2 * i + 1]!]));
}

describe("A-75: the headers of a request, later ones over earlier ones", () => {
  it("what every request has", () => {
    expect(headersOf()).toEqual({
      "content-type": "application/json",
      "x-request-id": "req-1",
      "user-agent": "sluice",
      "accept-encoding": "gzip",
    });
  });

  it("the queue's objective", () => {
    expect(headersOf({ queue: { inferenceObjective: "batch" } })["x-gateway-inference-objective"]).toBe("batch");
  });

  it("H-37: the message's own replace these, in whatever case", () => {
    const headers = {
      "CONTENT-TYPE": "application/cbor",
      "X-Gateway-Inference-Objective": "mine",
      "X-REQUEST-ID": "other",
      "User-agent": "me",
      "Accept-Encoding": "identity",
      Authorization: "Bearer x",
    };
    expect(headersOf({ data: { headers }, queue: { inferenceObjective: "batch" } })).toEqual({
      "content-type": "application/cbor",
      "x-gateway-inference-objective": "mine",
      "x-request-id": "other",
      "user-agent": "me",
      "accept-encoding": "identity",
      authorization: "Bearer x",
    });
  });

  it("H-37: of the message's variants of one name the last counts", () => {
    expect(headersOf({ data: { headers: { "X-A": "1", "x-a": "2", "X-a": "3" } } })["x-a"]).toBe("3");
  });

  it("what is stamped replaces all variants, and so do deadline and trace", () => {
    const headers = {
      "X-Gateway-Priority": "0",
      "X-LLM-D-Inference-Fairness-ID": "spoofed",
      TraceParent: "x",
      "X-Left": "1",
    };
    const parts: Partial<OutboundParts> = {
      stamped: [
        { name: "x-gateway-priority", value: "5" },
        { name: "X-LLM-D-inference-fairness-id", value: "u1" },
      ],
      deadlineHeader: "x-left",
      trace: (set) => {
        set("traceparent", "00-1-2-01");
        set("baggage", "a=b");
      },
    };
    expect(headersOf({ data: { headers }, parts })).toMatchObject({
      "x-gateway-priority": "5",
      "x-llm-d-inference-fairness-id": "u1",
      "x-left": "1500",
      traceparent: "00-1-2-01",
      baggage: "a=b",
    });
  });

  it("no time is left: 0, not less", () => {
    expect(headersOf({ parts: { deadlineHeader: "x-left", remainingMs: -5 } })["x-left"]).toBe("0");
  });

  it("a transformed body brings its own type", () => {
    const transformed = { body: Buffer.from("x"), contentType: "multipart/form-data; boundary=b" };
    const headers = { "content-TYPE": "application/json" };
    expect(headersOf({ data: { headers }, parts: { transformed } })["content-type"]).toBe(transformed.contentType);
  });

  it("a traceparent in the metadata goes nowhere", () => {
    expect(headersOf({ data: { metadata: { traceparent: "00-1-2-01" } } })).not.toHaveProperty("traceparent");
  });
});

describe("headers that cannot go out are left out, the request goes", () => {
  it("those of the connection, those that frame the body, and illegal ones; each is named", () => {
    const headers = {
      Connection: "close, x-a",
      "Transfer-Encoding": "chunked",
      TE: "trailers",
      Upgrade: "h2c",
      Host: "evil.example",
      "Content-Length": "5",
      Expect: "100-continue",
      "bad name": "x",
      "X-Good": "y",
    };
    const built = build({ data: { headers } });
    if (built.kind !== "request") throw new Error(built.reason);
    expect(built.headers).toContain("x-good");
    expect(built.headers).toHaveLength(10);
    expect(built.dropped).toEqual([
      '"Connection" is a connection header',
      '"Transfer-Encoding" is a connection header',
      '"TE" is a connection header',
      '"Upgrade" is a connection header',
      '"Host" cannot come from a message',
      '"Content-Length" cannot come from a message',
      '"Expect" cannot come from a message',
      '"bad name" is not a header name',
    ]);
  });

  it.each(["a\r\nx-evil: 1", "a\nb", "\u0000", "\u007f", "a\u001bb"])("value %j", (value) => {
    const built = build({ data: { headers: { "X-A": value } } });
    expect(built).toMatchObject({ kind: "request", dropped: ['"X-A" has a value with control characters'] });
    expect(headersOf({ data: { headers: { "X-A": value } } })).not.toHaveProperty("x-a");
  });

  it("names: empty, with a colon, with a line break, not ASCII, very long; eight at most are told", () => {
    for (const name of ["", "a:b", "a\r\nb", "é", "x ".repeat(1000)]) {
      const built = build({ data: { headers: { [name]: "x" } } });
      if (built.kind !== "request") throw new Error(built.reason);
      expect(built.dropped).toHaveLength(1);
      expect(built.dropped[0]!.length).toBeLessThan(140);
      expect(built.dropped[0]).not.toMatch(/[\r\n]/);
    }
    const many = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`bad ${i}`, ""]));
    const built = build({ data: { headers: many } });
    expect(built.kind === "request" && built.dropped.length).toBe(8);
  });

  it("legal values: empty, a tab inside, blanks around, UTF-8 as its bytes", () => {
    const headers = { "X-Empty": "", "X-Tab": "a\tb", "X-Blank": " \t a \t", "X-Name": "Zoë 😀" };
    const sent = headersOf({ data: { headers } });
    expect(sent).toMatchObject({ "x-empty": "", "x-tab": "a\tb", "x-blank": "a" });
    expect(Buffer.from(sent["x-name"]!, "latin1").toString()).toBe("Zoë 😀");
  });

  it("an id that fits no header is not sent as one", () => {
    for (const id of ["", "a\nb", "x".repeat(1025)])
      expect(headersOf({ data: { id } })).not.toHaveProperty("x-request-id");
  });
});

describe("where a request goes", () => {
  it("A-76: the queue's path, or the message's endpoint instead", () => {
    expect(build()).toMatchObject({ url: new URL("http://gw:8080/v1/completions") });
    const endpoint = "/v1/chat/completions";
    expect(build({ data: { endpoint } })).toMatchObject({ url: new URL("http://gw:8080/v1/chat/completions") });
  });

  it("H-46: an endpoint that the queue does not allow is an invalid request; the queue's own path is not asked", () => {
    const queue = { allowedEndpoints: ["/v1/chat"] };
    expect(build({ queue }).kind).toBe("request");
    expect(build({ queue, data: { endpoint: "/v1/chat/completions" } }).kind).toBe("request");
    expect(build({ queue, data: { endpoint: "/v1/chat/../../metrics" } })).toEqual({
      kind: "invalid",
      reason: 'endpoint "/v1/chat/../../metrics" matches none of the queue\'s allowed_endpoints',
    });
  });

  it("a base URL that is none is an invalid request, not a crash", () => {
    expect(build({ queue: { igwBaseUrl: "gateway" } })).toEqual({
      kind: "invalid",
      reason: "the queue's base URL cannot be used: Invalid URL; a base URL looks like http://gateway:80",
    });
  });

  it("credentials of the base URL go out as a header, unless the message has its own", () => {
    const queue = { igwBaseUrl: "http://us%3Aer:p%40ss@gw" };
    const authorization = `Basic ${Buffer.from("us:er:p@ss").toString("base64")}`;
    expect(headersOf({ queue })).toMatchObject({ authorization });
    expect(headersOf({ queue, data: { headers: { AUTHORIZATION: "Bearer x" } } }).authorization).toBe("Bearer x");
    expect(build({ queue })).toMatchObject({ url: new URL("http://gw/v1/completions") });
  });

  it("the key for gateways goes out as a bearer, unless the message or the URL has credentials", () => {
    const gatewayKey = "sk-1";
    expect(headersOf({ parts: { gatewayKey } }).authorization).toBe("Bearer sk-1");
    expect(headersOf({ parts: { gatewayKey }, data: { headers: { Authorization: "Bearer x" } } }).authorization).toBe(
      "Bearer x",
    );
    expect(headersOf({ parts: { gatewayKey }, queue: { igwBaseUrl: "http://u:p@gw" } }).authorization).toMatch(
      /^Basic /,
    );
    expect(headersOf({}).authorization).toBeUndefined();
  });
});
