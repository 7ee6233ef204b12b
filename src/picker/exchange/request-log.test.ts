import { describe, expect, it } from "vitest";
import { TestCore, type TestCoreOptions } from "../../../test/support/core.ts";
import { NO_WIRE } from "../../../test/support/exchange/fakes.cases.ts";
import { flowSettings } from "../../../test/support/flow-control.ts";
import { chatBody } from "../../../test/support/session-harness.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import { RequestLog } from "./request-log.ts";
import type { Decision, Routed } from "./wire.ts";

const SSE = HeaderList.of([["content-type", "text/event-stream"]]);
const JSON_TYPE = HeaderList.of([["content-type", "application/json"]]);
const USAGE =
  '"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":4}}';

type Fields = Readonly<Record<string, string | number | boolean>>;

/** @param every as `RequestLog` takes it */
function setUp(every = 1, options: TestCoreOptions = {}) {
  const core = new TestCore(options);
  const lines: string[] = [];
  core.requestLog = new RequestLog(core.clock, every, (line) => lines.push(line));
  const ask = (more: readonly (readonly [string, string])[] = [], body = chatBody(), wire = NO_WIRE) => {
    const exchange = core.openExchange(wire);
    const head = [[":method", "POST"], [":path", "/v1/chat/completions"], ["x-request-id", "r1"], ...more] as const;
    exchange.requestHeaders(HeaderList.of(head), false);
    const decision = exchange.requestBody(Buffer.from(body), true) as Decision | Promise<Decision>;
    return { exchange, decision, endpoints: (decision as Partial<Routed>).endpoints ?? [] };
  };
  /** The lines since the last call. */
  const told = () => lines.splice(0).map((line) => JSON.parse(line) as Fields);
  return { core, lines, ask, told };
}

describe("the log of requests", () => {
  it("has one line for a stream, with its figures", () => {
    const { core, ask, told } = setUp();
    core.clock.advance(1000);
    const body = chatBody();
    const { exchange, endpoints } = ask([["x-gateway-inference-fairness-id", "tenant"]], body);
    core.clock.advance(40);
    exchange.responseHeaders(200, SSE, false);
    core.clock.advance(2.5);
    exchange.responseBody(Buffer.from("data: {}\n\n"), false);
    core.clock.advance(100);
    const last = `data: {"choices":[],${USAGE}}\n\ndata: [DONE]\n\n`;
    exchange.responseBody(Buffer.from(last), true);
    exchange.end("client-gone");
    expect(told()).toEqual([
      {
        time: "1970-01-01T00:00:01.142Z",
        requestId: "r1",
        method: "POST",
        path: "/v1/chat/completions",
        model: JSON.parse(body).model,
        targetModel: JSON.parse(body).model,
        endpoint: endpoints[0]!.id,
        decision: core.scheduler.records.newest!.sequence,
        status: 200,
        endCause: "complete",
        streaming: true,
        ttftMs: 42.5,
        durationMs: 142.5,
        queuedMs: 0,
        promptTokens: 7,
        completionTokens: 3,
        cachedTokens: 4,
        requestBytes: Buffer.byteLength(body),
        responseBytes: 10 + last.length,
        retries: 0,
        fairnessId: "tenant",
        priority: 0,
      },
    ]);
  });

  it("gives an answer that is not streamed the time of its end, and counts the pieces of its body", () => {
    const { core, told } = setUp();
    const exchange = core.openExchange(NO_WIRE);
    exchange.requestHeaders(HeaderList.of([[":path", "/v1/chat/completions"]]), false);
    const body = Buffer.from(chatBody());
    exchange.requestBody(body.subarray(0, 10), false);
    exchange.requestBody(body.subarray(10), true);
    exchange.responseHeaders(200, JSON_TYPE, false);
    exchange.responseBody(Buffer.from(`{${USAGE}`), false);
    core.clock.advance(30);
    exchange.responseBody(Buffer.from("}"), true);
    expect(told()).toMatchObject([
      { requestId: exchange.requestId, streaming: false, ttftMs: 30, durationMs: 30, requestBytes: body.length },
    ]);
  });

  it("leaves out counts that the model server does not report", () => {
    const { ask, lines, told } = setUp();
    const { exchange } = ask();
    exchange.responseHeaders(200, JSON_TYPE, false);
    exchange.responseBody(Buffer.from('{"usage":{"prompt_tokens":7}}'), true);
    expect(lines[0]).not.toMatch(/NaN|null|undefined/);
    const [line] = told();
    expect(line).toMatchObject({ promptTokens: 7 });
    for (const key of ["completionTokens", "cachedTokens", "reason"]) expect(line).not.toHaveProperty(key);
  });

  it("names the reason, the status and the decision of a refusal", () => {
    const { core, ask, told } = setUp(0, { endpoints: 0 });
    const { exchange, decision } = ask();
    exchange.end("rejected", decision as Rejection);
    const [line] = told();
    expect(line).toMatchObject({ status: 503, reason: "no_endpoints", endCause: "rejected", responseBytes: 0 });
    expect(line!["decision"]).toBe(core.scheduler.records.newest!.sequence);
    expect(line).not.toHaveProperty("endpoint");
    expect(line).not.toHaveProperty("ttftMs");
    const bad = ask([], "[]");
    bad.exchange.end("rejected", bad.decision as Rejection);
    const [other] = told();
    expect(other).toMatchObject({ status: 400, reason: "bad_request", requestBytes: 2 });
    for (const key of ["model", "decision", "priority"]) expect(other).not.toHaveProperty(key);
  });

  it("tells of a client that leaves, before and during its answer, and of a model server that is lost", () => {
    const { ask, told } = setUp(0);
    ask().exchange.end("client-gone");
    const [early] = told();
    expect(early).toMatchObject({ endCause: "client-gone", model: expect.any(String), endpoint: expect.any(String) });
    for (const key of ["status", "reason", "ttftMs"]) expect(early).not.toHaveProperty(key);
    for (const cause of ["client-gone", "interrupted"] as const) {
      const { exchange } = ask();
      exchange.responseHeaders(200, SSE, false);
      exchange.responseBody(Buffer.from("data: {}\n\n"), false);
      exchange.end(cause);
    }
    const [left, lost] = told();
    expect(left).toMatchObject({ status: 200, endCause: "client-gone", ttftMs: 0, responseBytes: 10 });
    expect(left).not.toHaveProperty("reason");
    expect(lost).toMatchObject({ status: 200, endCause: "interrupted", reason: "upstream_reset" });
  });

  it("has the answer of the wire to a request that breaks HTTP or stalls", () => {
    const { core, told } = setUp(0);
    const exchange = core.openExchange({ ...NO_WIRE, ownAnswer: { status: 408, reason: "request_timeout" } });
    exchange.requestHeaders(HeaderList.of([[":path", "/v1/chat/completions"]]), false);
    exchange.requestBody(Buffer.from("{"), false);
    exchange.end("client-gone");
    expect(told()).toMatchObject([
      { status: 408, reason: "request_timeout", endCause: "client-gone", requestBytes: 1 },
    ]);
  });

  it("counts retries, and names the endpoint that was tried last", () => {
    const { ask, told } = setUp(1, { retries: true });
    const wire = { ...NO_WIRE, retries: 1 };
    const { exchange, endpoints } = ask([], chatBody(), wire);
    const [first, second] = endpoints;
    expect(exchange.attemptFailed(first!, "connect", "refused")).toBe(second);
    exchange.responseHeaders(200, JSON_TYPE, true);
    expect(told()).toMatchObject([{ retries: 1, endpoint: second!.id, endCause: "complete" }]);
  });

  it("names the endpoint that failed when the wire has no retry left", () => {
    const { ask, told } = setUp(0, { retries: true });
    const { exchange, endpoints } = ask([], chatBody(), { ...NO_WIRE, retries: 0 });
    exchange.attemptFailed(endpoints[0]!, "reset", "cut");
    exchange.end("rejected", new Rejection("upstream_reset", "cut"));
    expect(told()).toMatchObject([{ retries: 0, endpoint: endpoints[0]!.id, status: 502, reason: "upstream_reset" }]);
  });

  it("tells how long a request waited, also one that gave up", async () => {
    let saturation = 1;
    const { core, ask, told } = setUp(1, { flowControl: flowSettings(() => saturation) });
    const served = ask();
    const left = ask();
    core.clock.advance(70);
    left.exchange.end("client-gone");
    expect(told()).toMatchObject([
      { queuedMs: 70, durationMs: 70, model: expect.any(String), endCause: "client-gone" },
    ]);
    saturation = 0;
    core.flowControl!.changed();
    core.clock.advance(0);
    await served.decision;
    core.clock.advance(5);
    served.exchange.responseHeaders(200, JSON_TYPE, true);
    expect(told()).toMatchObject([{ queuedMs: 70, durationMs: 75, endCause: "complete" }]);
  });

  it("keeps texts of clients short and in one line, and has no query and no other header", () => {
    const { ask, told, lines } = setUp();
    const model = `m\n\u0007\u0085\u2028${"x".repeat(1000)}`;
    const body = JSON.stringify({ ...JSON.parse(chatBody()), model });
    const { exchange } = ask(
      [
        ["authorization", "Bearer secret-token"],
        ["cookie", "secret-cookie"],
        ["x-gateway-inference-fairness-id", "t\u0000t"],
      ],
      body,
    );
    exchange.responseHeaders(200, HeaderList.of([["set-cookie", "secret-too"]]), true);
    expect(lines[0]).not.toMatch(/secret|[^\x20-\x7e]/);
    const [line] = told();
    expect(line!["model"]).toBe(`m????${"x".repeat(248)}...`);
    expect(line!["fairnessId"]).toBe("t?t");
    const other = ask([]).exchange;
    other.responseHeaders(200, JSON_TYPE, true);
    told();
    const { core } = setUp();
    core.requestLog = new RequestLog(core.clock, 1, (text) => lines.push(text));
    const get = core.openExchange(NO_WIRE);
    get.requestHeaders(
      HeaderList.of([
        [":method", "GET"],
        [":path", "/v1/models?key=secret#secret"],
      ]),
      true,
    );
    get.responseHeaders(200, JSON_TYPE, true);
    expect(told()).toMatchObject([{ method: "GET", path: "/v1/models" }]);
  });

  it("has no key, wherever a client has put one", () => {
    const { core, ask, lines } = setUp();
    const key = `sk-sluice-abcdefghijkl-${"A_-b".repeat(11)}`;
    core.requestLog!.unopened({
      requestId: key,
      method: "GET",
      target: `/x/${key}/y?${key}`,
      status: 401,
      reason: "r",
    });
    const body = JSON.stringify({ ...JSON.parse(chatBody()), model: `a ${key}` });
    ask([["x-request-id", key]], body).exchange.responseHeaders(500, JSON_TYPE, true);
    expect(lines.join()).not.toContain("abcdefghijkl");
    expect(JSON.parse(lines[0]!)).toMatchObject({ requestId: "sk-sluice-***", path: "/x/sk-sluice-***/y" });
    expect(JSON.parse(lines[1]!)).toMatchObject({ model: "a sk-sluice-***" });
  });

  it("leaves out what ended well, or all but one in N, and never an error", () => {
    const end = (every: number, id: string, status: number): number => {
      const { core, lines } = setUp(every);
      const exchange = core.openExchange(NO_WIRE);
      exchange.requestHeaders(
        HeaderList.of([
          [":method", "GET"],
          [":path", "/v1/models"],
          ["x-request-id", id],
        ]),
        true,
      );
      exchange.responseHeaders(status, JSON_TYPE, true);
      return lines.length;
    };
    expect([end(1, "a", 200), end(0, "a", 200), end(0, "a", 400), end(0, "a", 503)]).toEqual([1, 0, 1, 1]);
    const { core } = setUp();
    const log = new RequestLog(core.clock, 10, () => {});
    const ids = Array.from({ length: 20_000 }, (_, i) => `request-${i}`);
    const chosen = ids.filter((id) => log.samples(id));
    expect(chosen.length).toBeGreaterThan(1800);
    expect(chosen.length).toBeLessThan(2200);
    // The same ids everywhere and always.
    expect(ids.filter((id) => new RequestLog(core.clock, 10, () => {}).samples(id))).toEqual(chosen);
    const other = ids.find((id) => !log.samples(id))!;
    expect([end(10, chosen[0]!, 200), end(10, other, 200), end(10, other, 500)]).toEqual([1, 0, 1]);
  });

  it("has a line for a request without an exchange", () => {
    const { core, told } = setUp(0);
    core.requestLog!.unopened({
      ...{ requestId: "r2", method: "GET", target: "/a?secret", status: 431 },
      reason: "headers_too_large",
    });
    core.requestLog!.unopened({ reason: "connection_refused" });
    const time = "1970-01-01T00:00:00.000Z";
    expect(told()).toEqual([
      {
        ...{ time, requestId: "r2", method: "GET", path: "/a", status: 431 },
        reason: "headers_too_large",
        endCause: "rejected",
      },
      { time, reason: "connection_refused", endCause: "rejected" },
    ]);
  });
});
