import { describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import { fromStruct, type Plain, root } from "../../../test/support/extproc-client.ts";
import {
  bodyOf,
  chatBody,
  destinationOf,
  type HarnessOptions,
  headersOf,
  keysOf,
  SessionHarness,
} from "../../../test/support/session-harness.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { Decision } from "../../picker/exchange/wire.ts";
import { BODY_MODE } from "./messages.ts";

const NONE = 0;
const STREAMED = 1;
const BUFFERED = 2;
const PARTIAL = 3;
const DUPLEX = 4;

const POST = [
  [":method", "POST"],
  [":path", "/v1/chat/completions"],
  ["x-request-id", "r"],
  ["hi", "mom"],
] as const;
const modes = (request: number, response: number) => ({ modes: { request, response } });
const open = (options: HarnessOptions = {}, core: ConstructorParameters<typeof TestCore>[0] = {}) =>
  new SessionHarness(new TestCore(core), options);
const kinds = (replies: readonly Plain[]) => replies.map((reply) => Object.keys(reply)[0]);

describe("BUFFERED requests (epp-protocol 3.9)", () => {
  it("get the route cleared at once, and everything else with the body (E-35, E-36, D-9)", () => {
    const h = open();
    h.envoy.requestHeaders(POST, false, modes(BUFFERED, DUPLEX));
    expect(h.take()).toEqual([{ requestHeaders: { response: { clearRouteCache: true } } }]);
    h.envoy.requestBody(chatBody(), true);
    const [reply, ...others] = h.take();
    expect(others).toEqual([]);
    const { response } = reply.requestBody;
    expect(destinationOf(reply)).toMatch(/^10\.0\.0\.[123]:8000$/);
    expect(fromStruct(reply.dynamicMetadata)).toEqual({
      "envoy.lb": { "x-gateway-destination-endpoint": destinationOf(reply) },
    });
    expect(headersOf(response.headerMutation)).toEqual({
      "x-gateway-destination-endpoint": destinationOf(reply),
      "Content-Length": String(chatBody().length),
    });
    expect(response.clearRouteCache).toBe(true);
    expect(Buffer.from(response.bodyMutation.body).toString()).toBe(chatBody());
    expect(h.core.inFlight).toBe(1);
    h.answer("{}");
    expect(h.wrongs).toEqual([]);
  });

  it.each([8192, 8193, 400_000])("of %i bytes come back in one message, bytes and length right (D-9)", (size) => {
    const body = chatBody("x".repeat(size - chatBody("").length));
    const h = open();
    h.envoy.requestHeaders(POST, false, modes(BUFFERED, NONE));
    h.take();
    h.envoy.requestBody(body, true);
    const [reply, ...others] = h.take();
    expect(others).toEqual([]);
    expect(Buffer.from(reply.requestBody.response.bodyMutation.body).toString()).toBe(body);
    expect(headersOf(reply.requestBody.response.headerMutation)["Content-Length"]).toBe(String(size));
    expect(h.wrongs).toEqual([]);
  });

  it("lose the control headers of their client, and get those of plugins and a generated id (D-26, E-27)", () => {
    const h = open();
    h.envoy.requestHeaders(
      [
        [":path", "/v1/chat/completions"],
        ["x-gateway-inference-objective", "batch"],
      ],
      false,
      modes(BUFFERED, NONE),
    );
    h.envoy.requestBody(chatBody(), true);
    const mutation = h.replies[1].requestBody.response.headerMutation;
    expect(mutation.removeHeaders).toEqual(["x-gateway-inference-objective"]);
    expect(keysOf(mutation)).toEqual(["x-gateway-destination-endpoint", "Content-Length", "x-request-id"]);
  });

  it("without a body message are answered like any other without a body (epp-protocol 3.9)", () => {
    const h = open();
    h.envoy.requestHeaders([[":path", "/v1/models"]], true, modes(BUFFERED, NONE));
    const [reply, ...others] = h.take();
    expect(others).toEqual([]);
    expect(destinationOf(reply)).toMatch(/:8000$/);
    expect(h.wrongs).toEqual([]);
  });

  it.each([true, false])("that are refused get the refusal in place of the body (end of stream: %s)", (end) => {
    const h = open();
    h.envoy.requestHeaders(POST, false, modes(PARTIAL, NONE));
    h.take();
    h.envoy.requestBody('{"model":"m","mess', end);
    expect(h.refusal()).toMatchObject({ status: 400, text: expect.stringContaining("unmarshaling request bodyMap") });
    expect(h.core.inFlight).toBe(0);
    expect(h.wrongs).toEqual([]);
  });

  it("say no length for a body that the proxy's limit has cut off (BUFFERED_PARTIAL)", () => {
    const plan = {};
    const cut = open({ plan });
    cut.envoy.requestHeaders(POST, false, modes(PARTIAL, NONE));
    cut.envoy.requestBody("a part", false);
    expect(keysOf(cut.replies[1].requestBody.response.headerMutation)).toEqual(["x-gateway-destination-endpoint"]);
    expect(cut.fake.bodyEnded).toBe(true);
    const whole = open({ plan });
    whole.envoy.requestHeaders(POST, false, modes(PARTIAL, NONE));
    whole.envoy.requestBody("everything", true);
    expect(headersOf(whole.replies[1].requestBody.response.headerMutation)["Content-Length"]).toBe("10");
    expect([...cut.wrongs, ...whole.wrongs]).toEqual([]);
  });

  it("with trailers are complete before them: body reply, then an empty trailer reply (epp-protocol 3.9)", () => {
    const h = open();
    h.envoy.requestHeaders(POST, false, modes(BUFFERED, NONE));
    h.envoy.requestBody(chatBody(), false);
    h.envoy.requestTrailers([["checksum", "1"]]);
    expect(kinds(h.take())).toEqual(["requestHeaders", "requestBody", "requestTrailers"]);
    expect(h.replies[2]).toEqual({ requestTrailers: {} });
    expect(h.wrongs).toEqual([]);
  });

  it("with trailers and no body at all get their destination in metadata, all that a trailer reply can carry (E-49)", () => {
    const h = open({ plan: {} });
    h.envoy.requestHeaders(POST, false, modes(BUFFERED, NONE));
    h.take();
    h.envoy.requestTrailers();
    const [reply, ...others] = h.take();
    expect(others).toEqual([]);
    expect(fromStruct(reply.dynamicMetadata)).toEqual({
      "envoy.lb": { "x-gateway-destination-endpoint": "10.0.0.1:8000" },
    });
    expect(h.halfClose().stream.status).toBe(0);
    expect(h.fake.ends).toEqual(["no-response-phase"]);
    expect(h.wrongs).toEqual([]);
  });

  it("whose client leaves before the body owe nothing: the proxy has kept it (D-25)", () => {
    const h = open();
    h.envoy.requestHeaders(POST, false, modes(BUFFERED, NONE));
    expect(h.halfClose().stream.status).toBe(0);
    const late = open({ plan: { decide: () => new Promise<Decision>(() => {}) } });
    late.envoy.requestHeaders(POST, false, modes(BUFFERED, NONE));
    late.envoy.requestBody(chatBody(), true);
    expect(late.halfClose().stream.status).toBe(1);
    expect([...h.wrongs, ...late.wrongs]).toEqual([]);
  });

  it("count a body that is repeated, and answer it no more (D-12)", () => {
    const h = open();
    h.envoy.requestHeaders(POST, false, modes(BUFFERED, NONE));
    h.envoy.requestBody(chatBody(), true);
    h.take();
    h.envoy.requestBody(chatBody(), true);
    expect(h.take()).toEqual([]);
    expect(h.notices.countOf("repeated-end")).toBe(1);
    expect(h.core.inFlight).toBe(1);
  });
});

describe("more time", () => {
  const queued = (messageTimeoutHint: number, wire = {}) => {
    let decide: (decision: Decision) => void = () => {};
    const plan = { decide: () => new Promise<Decision>((resolve) => (decide = resolve)) };
    const h = open({ plan, wire: { messageTimeoutHint, ...wire } });
    return { h, decide: (decision: Decision) => decide(decision) };
  };

  it("is asked for once, when half of what the proxy grants has passed (D-24)", async () => {
    const { h, decide } = queued(200);
    h.envoy.requestHeaders(POST, false, modes(BUFFERED, NONE));
    h.envoy.requestBody(chatBody(), true);
    h.take();
    h.core.clock.advance(99);
    expect(h.take()).toEqual([]);
    h.core.clock.advance(1);
    expect(h.take()).toEqual([{ overrideMessageTimeout: { seconds: 2 } }]);
    h.core.clock.advance(5000);
    expect(h.take()).toEqual([]);
    decide(h.fake.route());
    await h.settle();
    expect(kinds(h.take())).toEqual(["requestBody"]);
    expect(h.filter.moreTime).toEqual([2000]);
    expect(h.wrongs).toEqual([]);
  });

  it("is the proxy's maximum, where that is known", async () => {
    const { h } = queued(100, { messageTimeoutMax: 61_250 });
    h.envoy.requestHeaders(POST, false, modes(BUFFERED, NONE));
    h.envoy.requestBody(chatBody(), true);
    h.core.clock.advance(50);
    await h.settle();
    expect(h.filter.moreTime).toEqual([61_250]);
    expect(h.wrongs).toEqual([]);
  });

  it.each(["a decision", "a reset", "an end of input"])("is not asked for behind %s", async (what) => {
    const { h, decide } = queued(200);
    h.envoy.requestHeaders(POST, false, modes(BUFFERED, NONE));
    h.envoy.requestBody(chatBody(), true);
    if (what === "a decision") decide(new Rejection("saturated", "queue at capacity"));
    else if (what === "a reset") h.reset();
    else h.halfClose();
    await h.settle();
    h.take();
    expect(h.core.clock.pending).toBe(0);
    h.core.clock.advance(1000);
    expect(h.take()).toEqual([]);
    expect(h.wrongs).toEqual([]);
  });

  it("is never asked for in FULL_DUPLEX_STREAMED, where nobody counts, nor without the hint", async () => {
    for (const [hint, mode] of [
      [200, DUPLEX],
      [0, BUFFERED],
    ] as const) {
      const { h } = queued(hint);
      h.envoy.requestHeaders(POST, false, modes(mode, NONE));
      h.envoy.requestBody(chatBody(), true);
      h.take();
      h.core.clock.advance(10_000);
      expect(h.take()).toEqual([]);
      expect(h.core.clock.pending).toBe(0);
    }
  });
});

describe("STREAMED requests", () => {
  it("get their endpoint from the headers, and an empty reply for each chunk (D-10)", () => {
    const h = open();
    h.envoy.requestHeaders(POST, false, modes(STREAMED, NONE));
    const [reply, ...others] = h.take();
    expect(others).toEqual([]);
    expect(destinationOf(reply)).toMatch(/:8000$/);
    expect(keysOf(reply.requestHeaders.response.headerMutation)).not.toContain("Content-Length");
    for (const [chunk, end] of [
      ['{"mod', false],
      ["", false],
      ['el":"m"}', true],
    ] as const) {
      h.envoy.requestBody(chunk, end);
      expect(h.take()).toEqual([{ requestBody: { response: {} } }]);
    }
    h.envoy.requestBody("again", true);
    expect(h.take()).toEqual([]);
    expect(h.wrongs).toEqual([]);
  });

  it("are told of once, however many there are (epp-protocol 2(3))", () => {
    const h = open();
    for (let i = 0; i < 3; i++) h.notices.add("streamed-request-body");
    h.envoy.requestHeaders(POST, false, modes(STREAMED, NONE));
    expect(h.notices.countOf("streamed-request-body")).toBe(4);
    expect(h.told).toHaveLength(1);
    expect(h.told[0]).toMatch(/FULL_DUPLEX_STREAMED/);
  });

  it("with trailers get the reply to those as well", () => {
    const h = open();
    h.envoy.requestHeaders(POST, false, modes(STREAMED, NONE));
    h.envoy.requestBody("{}");
    h.envoy.requestTrailers();
    expect(kinds(h.take())).toEqual(["requestHeaders", "requestBody", "requestTrailers"]);
    expect(h.wrongs).toEqual([]);
  });

  it("are refused like any other when there is no endpoint", () => {
    const h = open({}, { endpoints: 0 });
    h.envoy.requestHeaders(POST, false, modes(STREAMED, NONE));
    expect(h.refusal().status).toBe(503);
  });
});

describe("NONE requests", () => {
  it("are picked for from their headers, and are complete with that (E-37, D-10)", () => {
    const h = open();
    h.envoy.requestHeaders(POST, false, modes(NONE, DUPLEX));
    expect(destinationOf(h.take()[0])).toMatch(/:8000$/);
    h.envoy.requestTrailers();
    expect(h.take()).toEqual([{ requestTrailers: {} }]);
    h.answer("{}");
    h.halfClose();
    expect(h.stream.status).toBe(0);
    expect(h.wrongs).toEqual([]);
  });
});

describe("a response in the mode", () => {
  const routed = (response: number, options: HarnessOptions = {}) => {
    const h = open(options);
    h.envoy.requestHeaders(POST, false, modes(DUPLEX, response));
    h.envoy.requestBody(chatBody(), true);
    h.take();
    return h;
  };
  const USAGE = '{"usage":{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12}}';

  it("STREAMED gets one reply without a change per chunk, and its usage is read (envoy-data-plane 1.4(11), D-17)", () => {
    const h = routed(STREAMED);
    h.envoy.responseHeaders([
      [":status", "200"],
      ["content-type", "application/json"],
    ]);
    expect(kinds(h.take())).toEqual(["responseHeaders"]);
    for (const [chunk, end] of [
      [USAGE.slice(0, 20), false],
      [USAGE.slice(20), false],
      ["", true],
    ] as const) {
      h.envoy.responseBody(chunk, end);
      expect(h.take()).toEqual([{ responseBody: { response: {} } }]);
    }
    expect(h.core.total("llm_d_epp_request_input_tokens_sum")).toBe(7);
    expect(h.core.inFlight).toBe(0);
    expect(h.wrongs).toEqual([]);
  });

  it("STREAMED is never rewritten: there is no later chunk for what is held back", () => {
    const h = routed(STREAMED, { plan: { atAnswer: () => Buffer.from("rewritten") } });
    h.envoy.responseHeaders([[":status", "200"]]);
    h.envoy.responseBody("original", true);
    expect(h.replies.at(-1)).toEqual({ responseBody: { response: {} } });
    expect(h.wrongs).toEqual([]);
  });

  it("BUFFERED gets one reply to its one message, without a change where nothing changes (envoy-data-plane 1.4(11), D-17)", () => {
    const h = routed(BUFFERED).answer(USAGE);
    expect(h.take().slice(1)).toEqual([{ responseBody: { response: {} } }]);
    h.envoy.responseBody(USAGE, true);
    expect(h.take()).toEqual([]);
    expect(h.core.total("llm_d_epp_request_input_tokens_sum")).toBe(7);
    expect(h.core.total("sluice_exchanges_total", { outcome: "complete" })).toBe(1);
    expect(h.wrongs).toEqual([]);
  });

  it("BUFFERED gets the new body with its length where it is rewritten (envoy-data-plane 1.4(11))", () => {
    const h = routed(BUFFERED, { plan: { atAnswer: () => Buffer.from("rewritten") } }).answer("original");
    const { response } = h.replies.at(-1).responseBody;
    expect(Buffer.from(response.bodyMutation.body).toString()).toBe("rewritten");
    expect(headersOf(response.headerMutation)).toEqual({ "content-length": "9" });
    expect(h.wrongs).toEqual([]);
  });

  it("BUFFERED_PARTIAL says no length for a body that was cut off, and BUFFERED does without the flag", () => {
    const lengthOf = (mode: number, end: boolean) => {
      const h = routed(mode, { plan: { atAnswer: () => Buffer.from("rewritten") } });
      h.envoy.responseHeaders([[":status", "200"]]);
      h.envoy.responseBody("original", end);
      expect(h.wrongs).toEqual([]);
      return headersOf(h.replies.at(-1).responseBody.response.headerMutation)["content-length"];
    };
    expect([lengthOf(PARTIAL, false), lengthOf(PARTIAL, true), lengthOf(BUFFERED, false)]).toEqual([
      undefined,
      "9",
      "9",
    ]);
  });

  it("BUFFERED stops reading while a large reply is not taken", () => {
    const h = routed(BUFFERED, { plan: { atAnswer: () => Buffer.alloc(100_000, "x") } });
    h.envoy.responseHeaders([[":status", "200"]]);
    expect(h.stream.paused).toBe(false);
    h.stream.full = true;
    h.envoy.responseBody("original", true);
    expect(h.stream.paused).toBe(true);
    h.stream.drain();
    expect(h.stream.paused).toBe(false);
  });

  it.each([
    [STREAMED, ["responseHeaders", "responseBody", "responseBody", "responseTrailers"]],
    [BUFFERED, ["responseHeaders", "responseBody", "responseTrailers"]],
    [NONE, ["responseHeaders", "responseTrailers"]],
  ])("%i with trailers gets their reply last (D-17)", (mode, expected) => {
    const h = routed(mode);
    h.envoy.responseHeaders([[":status", "200"]]);
    if (mode === STREAMED) h.envoy.responseBody('{"usa');
    if (mode !== NONE) h.envoy.responseBody("ge");
    h.envoy.responseTrailers([["grpc-status", "0"]]);
    expect(kinds(h.take())).toEqual(expected);
    expect(h.core.total("sluice_exchanges_total", { outcome: "complete" })).toBe(1);
    expect(h.wrongs).toEqual([]);
  });

  it("NONE gets the reply to its headers and nothing else (envoy-data-plane 1.4(11), D-17)", () => {
    const h = routed(NONE);
    h.envoy.responseHeaders([[":status", "200"]]);
    expect(kinds(h.take())).toEqual(["responseHeaders"]);
    h.envoy.responseBody("by mistake", true);
    expect(h.take()).toEqual([]);
    expect(h.reset().core.total("sluice_exchanges_total", { outcome: "complete" })).toBe(1);
  });
});

describe("modes", () => {
  it.each([
    ["request", 5, DUPLEX, "GRPC", "supported"],
    ["request", 77, DUPLEX, "77", "supported"],
    ["response", DUPLEX, 5, "GRPC", "supported"],
  ])(
    "that the picker does not support in a %s get 501 at the first message: %i %i (envoy-data-plane 1.2.2)",
    (direction, request, response, name) => {
      const h = open();
      h.envoy.requestHeaders(POST, false, modes(request, response));
      expect(h.refusal()).toEqual({
        status: 501,
        text: `inference error: NotImplemented - ${direction} body mode ${name} is not supported; configure FULL_DUPLEX_STREAMED`,
        dropped: undefined,
      });
      expect(h.stream.status).toBe(0);
      expect(h.core.total("llm_d_epp_request_error_total", { error_code: "NotImplemented" })).toBe(1);
      expect(h.wrongs).toEqual([]);
    },
  );

  it.each([
    ["request", STREAMED, DUPLEX, "STREAMED"],
    ["request", BUFFERED, DUPLEX, "BUFFERED"],
    ["request", PARTIAL, DUPLEX, "BUFFERED_PARTIAL"],
    ["request", NONE, DUPLEX, "NONE"],
    ["response", DUPLEX, STREAMED, "STREAMED"],
    ["response", DUPLEX, NONE, "NONE"],
  ])(
    "other than FULL_DUPLEX_STREAMED get 501 where the options are strict: %s %i %i (D-10)",
    (direction, request, response, name) => {
      const h = open({ wire: { strictBodyMode: true } });
      h.envoy.requestHeaders(POST, false, modes(request, response));
      expect(h.refusal().text).toBe(
        `inference error: NotImplemented - ${direction} body mode ${name} is not allowed here; configure FULL_DUPLEX_STREAMED`,
      );
      const duplex = open({ wire: { strictBodyMode: true } }).post(chatBody());
      expect(duplex.destination).toMatch(/:8000$/);
    },
  );

  it("have the numbers of Envoy's BodySendMode (envoy-data-plane 1.2.2)", () => {
    const upper = (name: string) => name.replace(/[A-Z]/g, "_$&").toUpperCase();
    const ours = Object.entries(BODY_MODE).map(([name, number]) => [upper(name), number]);
    const numbers = { NONE: 0, STREAMED: 1, BUFFERED: 2, BUFFERED_PARTIAL: 3, FULL_DUPLEX_STREAMED: 4, GRPC: 5 };
    expect(Object.fromEntries(ours)).toEqual(numbers);
    expect(root.lookupEnum("envoy.service.ext_proc.v3.BodySendMode").values).toEqual(numbers);
  });

  it("that are not announced are those of the options (E-36, D-11)", () => {
    const play = (wire: HarnessOptions["wire"]) => {
      const h = open({ wire: wire! });
      h.envoy.requestHeaders(POST, false, { modes: null });
      if (wire!.defaultBodyMode !== "none") h.envoy.requestBody(chatBody(), true);
      h.envoy.responseHeaders([[":status", "200"]]);
      if ((wire!.defaultResponseBodyMode ?? wire!.defaultBodyMode) !== "none") h.envoy.responseBody("{}", true);
      expect(h.reset().core.total("sluice_exchanges_total", { outcome: "complete" })).toBe(1);
      expect(h.wrongs).toEqual([]);
      return h.replies.map((reply) => {
        const kind = Object.keys(reply)[0]!;
        return `${kind}${Object.keys(reply[kind].response.bodyMutation ?? {}).join("")}`;
      });
    };
    const duplex = ["requestHeaders", "requestBodystreamedResponse", "responseHeaders", "responseBodystreamedResponse"];
    expect(play({ defaultBodyMode: "full-duplex" })).toEqual(duplex);
    expect(play({ defaultBodyMode: "buffered" })).toEqual([
      "requestHeaders",
      "requestBodybody",
      "responseHeaders",
      "responseBody",
    ]);
    expect(play({ defaultBodyMode: "streamed" })).toEqual([
      "requestHeaders",
      "requestBody",
      "responseHeaders",
      "responseBody",
    ]);
    expect(play({ defaultBodyMode: "none" })).toEqual(["requestHeaders", "responseHeaders"]);
    expect(play({ defaultBodyMode: "full-duplex", defaultResponseBodyMode: "none" })).toEqual(duplex.slice(0, 3));
  });

  it("that are announced win over the options (E-36)", () => {
    const h = open({ wire: { defaultBodyMode: "buffered" } });
    h.envoy.requestHeaders(POST, false, modes(DUPLEX, DUPLEX));
    expect(h.take()).toEqual([]);
    h.envoy.requestBody(chatBody(), true);
    expect(bodyOf(h.take(), "request").ends).toEqual([true]);
    expect(h.wrongs).toEqual([]);
  });
});

describe("an upgrade", () => {
  const UPGRADE = [...POST, ["upgrade", "websocket"], ["connection", "upgrade"]] as const;

  it.each([
    ["an upgrade", UPGRADE],
    ["CONNECT", [[":method", "CONNECT"], POST[1]]],
  ] as const)("by %s is picked for at its headers, and its bytes flow at once both ways (E-38, D-84)", (_, headers) => {
    const h = open();
    h.envoy.requestHeaders(headers);
    expect(destinationOf(h.take()[0])).toMatch(/:8000$/);
    h.envoy.responseHeaders([[":status", "101"]]);
    h.take();
    for (const [bytes, end] of [
      ["ping", false],
      ["bye", true],
    ] as const) {
      h.envoy.requestBody(bytes, end);
      expect(bodyOf(h.take(), "request")).toEqual({ bytes: Buffer.from(bytes), ends: [end] });
      h.envoy.responseBody(bytes, end);
      expect(bodyOf(h.take(), "response")).toEqual({ bytes: Buffer.from(bytes), ends: [end] });
    }
    expect(h.core.budget.used).toBe(0);
    expect(h.wrongs).toEqual([]);
  });

  it("that ends before its body does may end with OK: every byte was given back (D-25)", () => {
    const h = open();
    h.envoy.requestHeaders(UPGRADE);
    h.envoy.requestBody("ping");
    expect(h.halfClose().stream.status).toBe(0);
    expect(h.wrongs).toEqual([]);
  });

  it("in the mode BUFFERED is picked for at its headers as well", () => {
    const h = open();
    h.envoy.requestHeaders(UPGRADE, false, modes(BUFFERED, BUFFERED));
    expect(destinationOf(h.take()[0])).toMatch(/:8000$/);
    h.envoy.requestBody("ping", true);
    expect(h.take()).toEqual([{ requestBody: { response: {} } }]);
    expect(h.wrongs).toEqual([]);
  });

  it.each(["h2c", "H2C"])("to %s is none: the body of such a request is an ordinary one", (protocol) => {
    const h = open();
    h.envoy.requestHeaders([...POST, ["upgrade", protocol]]);
    expect(h.take()).toEqual([]);
    h.envoy.requestBody(chatBody(), true);
    expect(h.core.inFlight).toBe(1);
  });
});
