import { describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import { NO_WIRE } from "../../../test/support/exchange/fakes.cases.ts";
import { chatBody } from "../../../test/support/session-harness.ts";
import type { DecisionRecord } from "../../base/inference/decision-record.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import { decisionHeaders } from "./decision-headers.ts";
import type { InferenceExchange } from "./exchange.ts";
import type { Decision } from "./wire.ts";

/** An exchange that was decided. */
function decided(core: TestCore, ...headers: (readonly [string, string])[]): [InferenceExchange, Decision] {
  const exchange = core.openExchange(NO_WIRE);
  exchange.requestHeaders(HeaderList.of([[":path", "/v1/chat/completions"], ["x-request-id", "r"], ...headers]), false);
  return [exchange, exchange.requestBody(Buffer.from(chatBody()), true) as Decision];
}

const entries = (list: HeaderList | undefined) => list?.keys.map((key, at) => [key, list.values[at]]);
const ASKS = ["x-sluice-explain", "1"] as const;

describe("the decision in the headers of the answer", () => {
  it("is there where a request asks for it, with a full record; not where it says no, or nothing", () => {
    const core = new TestCore({ endpoints: 1, decisionHeader: true });
    const [exchange] = decided(core, ASKS);
    const told = [
      ["x-sluice-decision", "1"],
      ["x-sluice-decision-reason", "Request r went to default/pod-1 (10.0.0.1:8000): it is the only candidate."],
    ];
    expect(entries(exchange.responseHeaders(200, new HeaderList(), true))).toEqual(told);
    expect(core.scheduler.records.bySequence(1)!.full).toBeDefined();
    for (const value of ["0", "no", ""]) {
      const [silent] = decided(core, ["x-sluice-explain", value]);
      expect(silent.responseHeaders(200, new HeaderList(), true)).toBeUndefined();
      expect(core.scheduler.records.newest!.full).toBeUndefined();
    }
    for (const value of ["true", " TRUE "])
      expect(decided(core, ["x-sluice-explain", value])[0].ownHeaders).toBeDefined();
  });

  it("is nowhere while it is switched off, and nothing is recorded in full", () => {
    const core = new TestCore({ endpoints: 1 });
    const [exchange] = decided(core, ASKS);
    expect(exchange.responseHeaders(200, new HeaderList(), true)).toBeUndefined();
    expect(core.scheduler.records.newest!.full).toBeUndefined();
  });

  it("stands beside what plugins set", () => {
    const hook = {
      responseReceived: ({ setHeader }: { setHeader(name: string, value: string): void }) => setHeader("x-mine", "7"),
    };
    const core = new TestCore({ endpoints: 1, decisionHeader: true, hooks: [{ name: "h", plugin: hook }] });
    const [exchange] = decided(core, ASKS);
    const answered = exchange.responseHeaders(200, new HeaderList(), true);
    expect(answered?.keys).toEqual(["x-mine", "x-sluice-decision", "x-sluice-decision-reason"]);
  });

  it("goes with a refusal, unless the request was not understood, which is no decision", () => {
    const core = new TestCore({ endpoints: 0, decisionHeader: true });
    const [exchange, decision] = decided(core, ASKS);
    expect(decision).toBeInstanceOf(Rejection);
    expect(exchange.ownHeaders?.get("x-sluice-decision-reason")).toContain("Request r was refused with 503: ");
    const broken = core.openExchange(NO_WIRE);
    broken.requestHeaders(HeaderList.of([ASKS]), false);
    expect(broken.requestBody(Buffer.from("{"), true)).toBeInstanceOf(Rejection);
    expect(broken.ownHeaders).toBeUndefined();
  });

  it("is printable ASCII of at most 512 bytes, whatever ids hold (bound)", () => {
    const told = (requestId: string): string =>
      decisionHeaders({
        ...core.scheduler.records.newest!,
        top: [],
        requestId,
        refusal: { reason: "no_target", detail: "x".repeat(600) },
      } as DecisionRecord).get("x-sluice-decision-reason")!;
    const core = new TestCore({ endpoints: 0, decisionHeader: true });
    decided(core, ASKS);
    expect(told("ü\r\nset-cookie: 😀\u0000")).toMatch(
      /^Request \?\?\?set-cookie: \?\? was refused with 429: x+\.\.\.$/,
    );
    expect(told("r")).toHaveLength(512);
  });
});
