import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import { chatBody, SessionHarness } from "../../../test/support/session-harness.ts";

type Step = (h: SessionHarness) => void;

const NONE = 0;
const STREAMED = 1;
const BUFFERED = 2;
const DUPLEX = 4;

/** Cuts `bytes` at the given places (any numbers), empty pieces included. */
function pieces(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const at = [...cuts.map((cut) => cut % (bytes.length + 1)), 0, bytes.length].sort((a, b) => a - b);
  return at.slice(1).map((end, i) => bytes.subarray(at[i], end));
}

/** The body messages of one direction, as Envoy cuts them in a mode; `trailers` replace the flag of the end. */
function bodySteps(
  bytes: Buffer,
  cuts: readonly number[],
  lateEnd: boolean,
  direction: "request" | "response",
  mode: number,
  trailers: boolean,
): Step[] {
  if (mode === NONE) return trailers ? [trailersStep(direction)] : [];
  const parts = mode === BUFFERED ? [bytes] : pieces(bytes, cuts);
  const send =
    (part: Buffer, end: boolean): Step =>
    (h) =>
      direction === "request" ? h.envoy.requestBody(part, end) : h.envoy.responseBody(part, end);
  const late = lateEnd && mode !== BUFFERED;
  const steps = parts.map((part, i) => send(part, !trailers && !late && i === parts.length - 1));
  if (trailers) return [...steps, trailersStep(direction)];
  return late ? [...steps, send(Buffer.alloc(0), true)] : steps;
}

const trailersStep =
  (direction: "request" | "response"): Step =>
  (h) =>
    direction === "request" ? h.envoy.requestTrailers([["t", "1"]]) : h.envoy.responseTrailers([["t", "1"]]);

const cuts = fc.array(fc.nat(5000), { maxLength: 4 });
const text = fc.string({ unit: "binary", maxLength: 60 });

/** Everything an exchange may be made of, good and bad. */
const exchange = fc.record({
  body: fc.oneof(
    { weight: 4, arbitrary: fc.tuple(text, fc.boolean()).map(([words, stream]) => chatBody(words, { stream })) },
    { weight: 1, arbitrary: fc.constantFrom("", "{", "[]", '{"model":"m"}', "x".repeat(3000)) },
  ),
  requestCuts: cuts,
  requestLateEnd: fc.boolean(),
  headerOnly: fc.boolean(),
  requestMode: fc.constantFrom(DUPLEX, DUPLEX, DUPLEX, BUFFERED, STREAMED, NONE),
  responseMode: fc.constantFrom(DUPLEX, DUPLEX, DUPLEX, BUFFERED, STREAMED, NONE),
  requestTrailers: fc.boolean(),
  responseTrailers: fc.boolean(),
  upgrade: fc.nat(9).map((n) => n === 0),
  status: fc.constantFrom("200", "200", "204", "404", "503"),
  contentType: fc.constantFrom("application/json", "text/event-stream", "text/plain"),
  answer: fc.oneof(
    fc.constantFrom("", "{}", "no healthy upstream", 'data: {"usage":{"completion_tokens":3}}\n\ndata: [DONE]\n\n'),
    text,
    fc.constant("y".repeat(70_000)),
  ),
  responseCuts: cuts,
  responseLateEnd: fc.boolean(),
  report: fc.constantFrom(undefined, "10.0.0.1:8000", "10.0.0.3:8000", "1.1.1.1:1", ""),
  endpoints: fc.constantFrom(0, 1, 3),
  duplicateEnds: fc.boolean(),
});
type Plan = typeof exchange extends fc.Arbitrary<infer T> ? T : never;

function stepsOf(plan: Plan): Step[] {
  const headers = [
    [":method", "POST"],
    [":path", "/v1/chat/completions"],
    ...(plan.upgrade ? [["upgrade", "websocket"] as const] : []),
  ] as const;
  const modes = { request: plan.requestMode, response: plan.responseMode };
  const steps: Step[] = [(h) => h.envoy.requestHeaders(headers, plan.headerOnly, { modes })];
  if (!plan.headerOnly) {
    const { requestCuts, requestLateEnd, requestMode, requestTrailers } = plan;
    steps.push(
      ...bodySteps(Buffer.from(plan.body), requestCuts, requestLateEnd, "request", requestMode, requestTrailers),
    );
    if (plan.duplicateEnds && requestMode !== NONE) steps.push((h) => h.envoy.requestBody("again", true));
  }
  const served =
    plan.report === undefined
      ? {}
      : { metadata: { "envoy.lb": { "x-gateway-destination-endpoint-served": plan.report } } };
  const answerHeaders = [
    [":status", plan.status],
    ["content-type", plan.contentType],
  ] as const;
  const bodyless = plan.status === "204";
  steps.push((h) => h.envoy.responseHeaders(answerHeaders, bodyless, served));
  if (bodyless) return steps;
  const { responseCuts, responseLateEnd, responseMode, responseTrailers } = plan;
  const answer = Buffer.from(plan.answer);
  steps.push(...bodySteps(answer, responseCuts, responseLateEnd, "response", responseMode, responseTrailers));
  return steps;
}

const newCore = (plan: Plan) => new TestCore({ endpoints: plan.endpoints, maxRequestBytes: 2000, budget: 150_000 });

/** What holds after the end of any exchange, however it came about. */
function expectClosedBooks(h: SessionHarness): void {
  const { core } = h;
  expect(core.total("sluice_exchanges_total")).toBe(1);
  expect(core.inFlight).toBe(0);
  for (const endpoint of core.endpoints.list()) expect(endpoint.inFlight).toEqual({ requests: 0, tokens: 0 });
  expect(core.budget.used).toBe(0);
  expect(core.total("llm_d_epp_request_running")).toBe(0);
  expect(core.total("llm_d_epp_request_error_total")).toBeLessThanOrEqual(1);
  expect(core.errors).toEqual([]);
  expect(h.wrongs).toEqual([]);
}

describe("any exchange", () => {
  it("cut after every message, by reset or end of input, closes its books once and never cuts a body short silently (D-25, D-82, E-70)", () => {
    fc.assert(
      fc.property(exchange, (plan) => {
        const steps = stepsOf(plan);
        for (let length = 0; length <= steps.length; length++)
          for (const close of ["reset", "halfClose"] as const) {
            const h = new SessionHarness(newCore(plan));
            for (const step of steps.slice(0, length)) step(h);
            h[close]();
            // The transport reports the end of every stream, last of all.
            h.session.closed();
            expectClosedBooks(h);
          }
      }),
      { numRuns: 60 },
    );
  });

  it("gives back every byte of both bodies, or an answer in their place (D-6, D-16, E-49)", () => {
    fc.assert(
      fc.property(exchange, (plan) => {
        const h = new SessionHarness(newCore(plan));
        for (const step of stepsOf({ ...plan, duplicateEnds: false })) step(h);
        const refused = h.filter.immediate !== undefined;
        expect(refused || h.destination !== undefined).toBe(true);
        if (refused) return;
        if (!plan.headerOnly && plan.requestMode !== NONE)
          expect(Buffer.concat(h.filter.request.back).toString()).toBe(plan.body);
        if (plan.status !== "204" && plan.responseMode !== NONE)
          expect(Buffer.concat(h.filter.response.back).toString()).toBe(plan.answer);
        expect(h.filter.outstanding("request")).toBe(false);
        expect(h.filter.outstanding("response")).toBe(false);
        h.reset();
        expectClosedBooks(h);
      }),
      { numRuns: 300 },
    );
  });

  it("of arbitrary bytes never throws, and closes its books (E-95)", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 80 }), { maxLength: 6 }), (messages) => {
        const h = new SessionHarness(new TestCore());
        for (const message of messages) h.session.message(message);
        h.session.halfClosed();
        h.session.closed();
        expect(h.core.total("sluice_exchanges_total")).toBe(1);
        expect([h.core.inFlight, h.core.budget.used]).toEqual([0, 0]);
        expect(h.stream.breaches).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });
});
