import { describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import { chatBody, SessionHarness } from "../../../test/support/session-harness.ts";

const CHAT = [[":path", "/v1/chat/completions"]] as const;

/** How many exchanges ended in which way. */
function ends(core: TestCore): Record<string, number> {
  return Object.fromEntries(
    ["complete", "client-gone", "interrupted", "no-response-phase", "rejected", "error"]
      .map((outcome) => [outcome, core.total("sluice_exchanges_total", { outcome })] as const)
      .filter(([, count]) => count > 0),
  );
}

/** What a proxy does when it is done with a stream, for whatever reason. */
const CLOSINGS = {
  reset: (h: SessionHarness) => h.reset(),
  "end of input": (h: SessionHarness) => h.halfClose(),
  "end of input, then reset": (h: SessionHarness) => h.halfClose().reset(),
} as const;

describe.each(Object.entries(CLOSINGS))("a stream that ends by %s", (_, close) => {
  it("before the decision frees what the body held (D-20, D-82)", () => {
    const h = new SessionHarness(new TestCore());
    h.envoy.requestHeaders(CHAT);
    h.envoy.requestBody(chatBody());
    expect(h.core.budget.used).toBeGreaterThan(0);
    close(h);
    expect([h.core.inFlight, h.core.budget.used, h.replies.length]).toEqual([0, 0, 0]);
    expect(ends(h.core)).toEqual({ "client-gone": 1 });
    expect(h.core.total("llm_d_epp_request_error_total")).toBe(0);
    expect(h.wrongs).toEqual([]);
  });

  it("after the decision takes the request off its endpoint, once (D-20, D-82, E-70)", () => {
    const h = new SessionHarness(new TestCore()).post(chatBody());
    expect(h.core.total("llm_d_epp_request_running")).toBe(1);
    close(h);
    h.session.closed();
    expect([h.core.inFlight, h.core.budget.used]).toEqual([0, 0]);
    expect(h.core.total("llm_d_epp_request_running")).toBe(0);
    expect(ends(h.core)).toEqual({ "client-gone": 1 });
    expect(h.core.total("llm_d_epp_request_error_total")).toBe(0);
    expect(h.core.total("llm_d_epp_request_duration_seconds_count")).toBe(0);
  });

  it("in the middle of the response counts as client gone, without times or tokens (D-82)", () => {
    const h = new SessionHarness(new TestCore()).post(chatBody());
    h.core.clock.advance(100);
    h.envoy.responseHeaders([
      [":status", "200"],
      ["content-type", "text/event-stream"],
    ]);
    h.envoy.responseBody('data: {"usage":{"prompt_tokens":3,"completion_tokens":4}}\n\n');
    close(h);
    expect(h.core.inFlight).toBe(0);
    expect(ends(h.core)).toEqual({ "client-gone": 1 });
    expect(h.core.total("llm_d_epp_request_duration_seconds_count")).toBe(0);
    expect(h.core.total("llm_d_epp_request_input_tokens_count")).toBe(0);
    expect(h.core.total("llm_d_epp_request_error_total")).toBe(0);
  });

  it("after the last reply is a success (D-20, D-82)", () => {
    const h = new SessionHarness(new TestCore()).post(chatBody()).answer("{}");
    close(h);
    expect(ends(h.core)).toEqual({ complete: 1 });
    expect(h.core.total("llm_d_epp_request_error_total")).toBe(0);
    expect(h.stream.status ?? 0).toBe(0);
    expect(h.wrongs).toEqual([]);
  });

  it("where the proxy handles requests only is no error either (D-21)", () => {
    const h = new SessionHarness(new TestCore());
    h.envoy.requestHeaders(CHAT, false, { modes: { request: 4, response: 0 } });
    h.envoy.requestBody(chatBody(), true);
    close(h);
    expect(h.core.inFlight).toBe(0);
    expect(ends(h.core)).toEqual({ "no-response-phase": 1 });
    expect(h.core.total("llm_d_epp_request_error_total")).toBe(0);
    expect(h.stream.status ?? 0).toBe(0);
  });

  it("with response headers but no response body to come is a success (D-17, envoy-data-plane 1.4(11))", () => {
    const h = new SessionHarness(new TestCore());
    h.envoy.requestHeaders(CHAT, false, { modes: { request: 4, response: 0 } });
    h.envoy.requestBody(chatBody(), true);
    h.envoy.responseHeaders([[":status", "200"]]);
    expect(h.core.inFlight).toBe(1);
    close(h);
    expect(h.core.inFlight).toBe(0);
    expect(ends(h.core)).toEqual({ complete: 1 });
    expect(h.wrongs).toEqual([]);
  });

  it("without a message at all is nobody's error", () => {
    const h = new SessionHarness(new TestCore());
    close(h);
    expect(ends(h.core)).toEqual({ "client-gone": 1 });
    expect(h.stream.status ?? 0).toBe(0);
  });
});

describe("an end of input with bytes outstanding", () => {
  it.each([
    ["headers that await their body", (h: SessionHarness) => h.envoy.requestHeaders(CHAT)],
    [
      "a part of the request",
      (h: SessionHarness) => {
        h.envoy.requestHeaders(CHAT);
        h.envoy.requestBody("{");
      },
    ],
    [
      "a response that is held back",
      (h: SessionHarness) => {
        h.post(chatBody());
        h.envoy.responseHeaders([[":status", "200"]]);
        h.envoy.responseBody('{"half":');
      },
    ],
  ])("never ends with OK: %s (D-25)", (_, play) => {
    const h = new SessionHarness(new TestCore());
    play(h);
    h.halfClose();
    expect(h.stream.status).toBe(1);
    expect(h.wrongs).toEqual([]);
  });
});

describe("a message behind the end", () => {
  it("is not looked at (E-92)", () => {
    const h = new SessionHarness(new TestCore());
    h.halfClose();
    h.post(chatBody());
    expect(h.replies).toEqual([]);
    expect(h.core.inFlight).toBe(0);
    expect(h.stream.breaches).toEqual([]);
  });
});

describe("the byte budget", () => {
  it("stops reading a stream when it is spent, and goes on when another has ended", () => {
    const core = new TestCore({ budget: 1000 });
    const [a, b] = [new SessionHarness(core), new SessionHarness(core)];
    for (const h of [a, b]) h.envoy.requestHeaders(CHAT);
    a.envoy.requestBody("x".repeat(800));
    expect([a.stream.paused, b.stream.paused]).toEqual([false, false]);
    b.envoy.requestBody("x".repeat(400));
    expect([a.stream.paused, b.stream.paused]).toEqual([false, true]);
    a.envoy.requestBody("x".repeat(400));
    expect(a.stream.paused).toBe(false);
    a.reset();
    expect(b.stream.paused).toBe(false);
    expect(core.budget.used).toBe(400);
    b.reset();
    expect(core.budget.used).toBe(0);
  });
});
