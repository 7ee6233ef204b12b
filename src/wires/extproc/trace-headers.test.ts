import { describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import { chatBody, headersOf, keysOf, SessionHarness } from "../../../test/support/session-harness.ts";
import { noTracing, type Span, type Tracing } from "../../base/telemetry/tracing.ts";

/** Tracing that hands on these headers. */
function handingOn(pairs: readonly (readonly [string, string])[]): Tracing {
  const span: Span = {
    ...noTracing.start("", {}),
    inject(set) {
      for (const [name, value] of pairs) set(name, value);
    },
  };
  return { ...noTracing, on: true, start: () => span };
}

const POST = [
  [":method", "POST"],
  [":path", "/v1/chat/completions"],
  ["traceparent", "client"],
  ["tracestate", "client"],
  ["baggage", "client"],
  ["x-mine", "1"],
] as const;

/** The mutation that a request with a trace of its own is answered with. */
function mutationOf(core: TestCore, body = chatBody()) {
  const h = new SessionHarness(core);
  h.envoy.requestHeaders(POST, body === "");
  if (body !== "") h.envoy.requestBody(body, true);
  const { headerMutation } = h.take()[0].requestHeaders.response;
  expect(h.wrongs).toEqual([]);
  return headerMutation;
}

describe("what carries a trace, over ext_proc (E-33)", () => {
  it("is set in place of the client's, once; a state that is not carried on is removed", () => {
    const core = new TestCore();
    core.tracing = handingOn([
      ["traceparent", "ours"],
      ["baggage", "ours"],
    ]);
    const mutation = mutationOf(core);
    expect(headersOf(mutation)).toMatchObject({ traceparent: "ours", baggage: "ours", "x-mine": "1" });
    expect(
      keysOf(mutation)
        .filter((key) => /^trace|baggage/.test(key))
        .sort(),
    ).toEqual(["baggage", "traceparent"]);
    expect(mutation.removeHeaders).toEqual(["tracestate"]);
  });

  it("wins over what plugins set, who keep the rest", () => {
    const plugin = {
      preRequest: ({ setHeader }: { setHeader(name: string, value: string): void }) => {
        setHeader("traceparent", "theirs");
        setHeader("x-theirs", "2");
      },
    };
    const core = new TestCore({ hooks: [{ name: "h", plugin }] });
    core.tracing = handingOn([["traceparent", "ours"]]);
    expect(headersOf(mutationOf(core))).toMatchObject({ traceparent: "ours", "x-theirs": "2" });
  });

  it("is set on a request without a body, too", () => {
    const core = new TestCore();
    core.tracing = handingOn([["traceparent", "ours"]]);
    expect(headersOf(mutationOf(core, ""))).toMatchObject({ traceparent: "ours" });
  });

  it("goes on as the client sent it when nothing is traced", () => {
    const mutation = mutationOf(new TestCore());
    expect(headersOf(mutation)).toMatchObject({ traceparent: "client", tracestate: "client", baggage: "client" });
    expect(mutation.removeHeaders ?? []).toEqual([]);
  });
});
