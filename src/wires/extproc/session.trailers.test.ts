import { describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import { fromStruct, type Plain } from "../../../test/support/extproc-client.ts";
import {
  bodyOf,
  chatBody,
  destinationOf,
  type HarnessOptions,
  SessionHarness,
} from "../../../test/support/session-harness.ts";
import type { Decision } from "../../picker/exchange/wire.ts";

const POST = [
  [":method", "POST"],
  [":path", "/v1/chat/completions"],
] as const;
const SSE = [
  [":status", "200"],
  ["content-type", "text/event-stream"],
] as const;
const kinds = (replies: readonly Plain[]) => replies.map((reply) => Object.keys(reply)[0]);
const open = (options: HarnessOptions = {}) => new SessionHarness(new TestCore(), options);

describe("trailers of a request", () => {
  it("end its body: headers, chunks without the flag, then one empty trailer reply (E-28, D-7)", () => {
    const body = chatBody("x".repeat(70_000));
    const h = open();
    h.envoy.requestHeaders(POST);
    h.envoy.requestBody(body.slice(0, 100));
    h.envoy.requestBody(body.slice(100));
    expect(h.take()).toEqual([]);
    h.envoy.requestTrailers([["checksum", "1"]]);
    const replies = h.take();
    expect(kinds(replies)).toEqual(["requestHeaders", "requestBody", "requestBody", "requestTrailers"]);
    expect(bodyOf(replies, "request")).toEqual({ bytes: Buffer.from(body), ends: [false, false] });
    expect(replies[3]).toEqual({ requestTrailers: {} });
    expect(h.core.inFlight).toBe(1);
    expect(h.core.budget.used).toBe(0);
    expect(h.wrongs).toEqual([]);
  });

  it("behind a body that has ended get the trailer reply alone (epp-protocol 3.7)", () => {
    const h = open().post(chatBody());
    h.take();
    h.envoy.requestTrailers();
    h.envoy.requestTrailers();
    expect(h.take()).toEqual([{ requestTrailers: {} }]);
    expect(h.wrongs).toEqual([]);
  });

  it("without any body are an empty body (epp-protocol 3.7)", () => {
    const refused = open();
    refused.envoy.requestHeaders(POST);
    refused.envoy.requestTrailers();
    expect(refused.refusal().text).toContain("unexpected end of JSON input");
    const routed = open({ plan: {} });
    routed.envoy.requestHeaders(POST);
    routed.envoy.requestTrailers();
    expect(kinds(routed.take())).toEqual(["requestHeaders", "requestTrailers"]);
    expect(routed.fake.bodyEnded).toBe(true);
    expect(routed.wrongs).toEqual([]);
  });

  it("wait for a decision that takes its time, and for the end of a body that had the flag (epp-protocol 5.4)", async () => {
    for (const flagged of [true, false]) {
      let decide: (decision: Decision) => void = () => {};
      const h = open({ plan: { decide: () => new Promise<Decision>((resolve) => (decide = resolve)) } });
      h.envoy.requestHeaders(POST);
      h.envoy.requestBody("{}", flagged);
      h.envoy.requestTrailers();
      expect(h.take()).toEqual([]);
      decide(h.fake.route());
      await h.settle();
      const replies = h.take();
      expect(kinds(replies)).toEqual(["requestHeaders", "requestBody", "requestTrailers"]);
      expect(bodyOf(replies, "request").ends).toEqual([flagged]);
      expect(h.wrongs).toEqual([]);
    }
  });

  it("bring the hint when the body brought none, and win over that of the headers (epp-protocol 6.1)", () => {
    const hint = (value: string[]) => ({
      metadata: { "envoy.lb.subset_hint": { "x-gateway-destination-endpoint-subset": value } },
    });
    const h = open();
    h.envoy.requestHeaders(POST, false, hint(["10.0.0.3:8000"]));
    h.envoy.requestBody(chatBody());
    h.envoy.requestTrailers([], hint(["10.0.0.2:8000"]));
    expect(destinationOf(h.take()[0])).toBe("10.0.0.2:8000");
    const earlier = open();
    earlier.envoy.requestHeaders(POST, false, hint(["10.0.0.3:8000"]));
    earlier.envoy.requestBody(chatBody());
    earlier.envoy.requestTrailers();
    expect(destinationOf(earlier.take()[0])).toBe("10.0.0.3:8000");
  });

  it("of a refused request are not answered: the stream is over (E-92)", () => {
    const h = open().post("{");
    h.take();
    h.envoy.requestTrailers();
    expect(h.take()).toEqual([]);
    expect(h.wrongs).toEqual([]);
  });

  it("of a body that somebody repeats behind them change nothing (D-12)", () => {
    const h = open();
    h.envoy.requestHeaders(POST);
    h.envoy.requestBody(chatBody());
    h.envoy.requestTrailers();
    h.take();
    h.envoy.requestBody(chatBody(), true);
    expect(h.take()).toEqual([]);
    expect(h.notices.countOf("repeated-end")).toBe(1);
    expect(h.wrongs).toEqual([]);
  });

  it("cut off before them leave bytes outstanding: never OK (D-25)", () => {
    const h = open();
    h.envoy.requestHeaders(POST);
    h.envoy.requestBody(chatBody());
    expect(h.halfClose().stream.status).toBe(1);
    expect(h.wrongs).toEqual([]);
  });
});

describe("trailers of a response", () => {
  const answered = (options: HarnessOptions = {}) => {
    const h = open(options).post(chatBody());
    h.take();
    return h;
  };

  it("flush what was held, without the flag, then get their reply; the books close once (E-67, E-70, D-17)", () => {
    const h = answered();
    h.envoy.responseHeaders([[":status", "200"]]);
    h.envoy.responseBody('{"usage":{"prompt_tokens":7,');
    h.envoy.responseBody('"completion_tokens":5,"total_tokens":12}}');
    expect(kinds(h.take())).toEqual(["responseHeaders"]);
    h.envoy.responseTrailers([["grpc-status", "0"]]);
    const replies = h.take();
    expect(kinds(replies)).toEqual(["responseBody", "responseTrailers"]);
    expect(bodyOf(replies, "response").ends).toEqual([false]);
    expect(bodyOf(replies, "response").bytes).toHaveLength(69);
    expect(replies[1]).toEqual({ responseTrailers: {} });
    h.reset();
    expect(h.core.total("llm_d_epp_request_input_tokens_sum")).toBe(7);
    expect(h.core.total("sluice_exchanges_total", { outcome: "complete" })).toBe(1);
    expect(h.core.total("sluice_exchanges_total")).toBe(1);
    expect([h.core.inFlight, h.core.budget.used]).toEqual([0, 0]);
    expect(h.wrongs).toEqual([]);
  });

  it("of a streamed response get their reply alone, behind chunks that passed at once (E-67)", () => {
    const h = answered();
    h.envoy.responseHeaders(SSE);
    h.envoy.responseBody("data: {}\n\n");
    expect(kinds(h.take())).toEqual(["responseHeaders", "responseBody"]);
    h.envoy.responseTrailers();
    expect(h.take()).toEqual([{ responseTrailers: {} }]);
    expect(h.core.inFlight).toBe(0);
    expect(h.halfClose().stream.status).toBe(0);
    expect(h.wrongs).toEqual([]);
  });

  it("come behind what the exchange still held back of a streamed response", () => {
    const h = answered({ plan: { streaming: true, tail: Buffer.from("tail"), atAnswer: () => Buffer.from("da") } });
    h.envoy.responseHeaders(SSE);
    h.envoy.responseBody("datail");
    h.envoy.responseTrailers();
    const replies = h.take();
    expect(kinds(replies)).toEqual(["responseHeaders", "responseBody", "responseBody", "responseTrailers"]);
    expect(bodyOf(replies, "response")).toEqual({ bytes: Buffer.from("datail"), ends: [false, false] });
    expect(h.wrongs).toEqual([]);
  });

  it("flush nothing where nothing is held but an empty chunk", () => {
    const h = answered();
    h.envoy.responseHeaders([[":status", "200"]]);
    h.envoy.responseBody("");
    h.envoy.responseTrailers();
    expect(kinds(h.take())).toEqual(["responseHeaders", "responseTrailers"]);
    expect(h.wrongs).toEqual([]);
  });

  it("flush nothing where the proxy has kept the bytes, whatever the exchange held back", () => {
    const h = open({ plan: { tail: Buffer.from("tail") } });
    h.envoy.requestHeaders(POST, false, { modes: { request: 4, response: 1 } });
    h.envoy.requestBody(chatBody(), true);
    h.take();
    h.envoy.responseHeaders(SSE);
    h.envoy.responseBody("datail");
    h.envoy.responseTrailers();
    expect(kinds(h.take())).toEqual(["responseHeaders", "responseBody", "responseTrailers"]);
    expect(h.wrongs).toEqual([]);
  });

  it("behind the end of the body get their reply alone", () => {
    const h = answered().answer("{}");
    h.take();
    h.envoy.responseTrailers();
    h.envoy.responseTrailers();
    expect(h.take()).toEqual([{ responseTrailers: {} }]);
    expect(h.core.total("sluice_exchanges_total")).toBe(1);
    expect(h.wrongs).toEqual([]);
  });

  it("without a body are answered, and complete the request", () => {
    const h = answered();
    h.envoy.responseHeaders([[":status", "200"]]);
    h.envoy.responseTrailers();
    expect(kinds(h.take())).toEqual(["responseHeaders", "responseTrailers"]);
    expect(h.core.total("sluice_exchanges_total", { outcome: "complete" })).toBe(1);
    expect(h.wrongs).toEqual([]);
  });
});

describe("what plugins make of a complete response", () => {
  const METADATA = { "envoy.lb": { "x-gateway-inference-request-cost": 10 } };
  const plan = { answerMetadata: METADATA };
  const answered = (more: HarnessOptions["plan"] = {}) => {
    const h = open({ plan: { ...plan, ...more } }).post(chatBody());
    h.take();
    return h;
  };
  /** The replies by kind, with the metadata that each carries. */
  const carried = (replies: readonly Plain[]) =>
    replies.map((reply) => [
      Object.keys(reply)[0],
      reply.dynamicMetadata === undefined ? undefined : fromStruct(reply.dynamicMetadata),
    ]);

  it.each([9, 9000, 130_000])("goes with the last body message of %i bytes, held or not (E-73)", (size) => {
    for (const streaming of [true, false]) {
      const h = answered({ streaming });
      h.envoy.responseHeaders([[":status", "200"]]);
      h.envoy.responseBody("x");
      h.envoy.responseBody("y".repeat(size - 1), true);
      const replies = h.take();
      expect(bodyOf(replies, "response").bytes).toHaveLength(size);
      expect(carried(replies).at(-1)).toEqual(["responseBody", METADATA]);
      expect(carried(replies).filter(([, metadata]) => metadata !== undefined)).toHaveLength(1);
      expect(h.wrongs).toEqual([]);
    }
  });

  it("goes with the reply to headers that are the whole response", () => {
    const h = answered();
    h.envoy.responseHeaders([[":status", "204"]], true);
    expect(carried(h.take())).toEqual([["responseHeaders", METADATA]]);
  });

  it("goes with the last flushed message before trailers, or with their reply where nothing is left (epp-protocol 4.5)", () => {
    const held = answered();
    held.envoy.responseHeaders([[":status", "200"]]);
    held.envoy.responseBody("{}");
    held.envoy.responseTrailers();
    expect(carried(held.take()).slice(1)).toEqual([
      ["responseBody", METADATA],
      ["responseTrailers", undefined],
    ]);
    const passed = answered({ streaming: true });
    passed.envoy.responseHeaders(SSE);
    passed.envoy.responseBody("data: 1\n\n");
    passed.envoy.responseTrailers();
    expect(carried(passed.take()).slice(1)).toEqual([
      ["responseBody", undefined],
      ["responseTrailers", METADATA],
    ]);
    expect([...held.wrongs, ...passed.wrongs]).toEqual([]);
  });

  it.each([1, 2])("goes with the last reply in the response mode %i", (mode) => {
    const h = open({ plan });
    h.envoy.requestHeaders(POST, false, { modes: { request: 4, response: mode } });
    h.envoy.requestBody(chatBody(), true);
    h.take();
    h.envoy.responseHeaders([[":status", "200"]]);
    h.envoy.responseBody("{}", true);
    expect(carried(h.take())).toEqual([
      ["responseHeaders", undefined],
      ["responseBody", METADATA],
    ]);
  });
});
