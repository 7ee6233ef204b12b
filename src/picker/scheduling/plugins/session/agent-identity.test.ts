import { describe, expect, it } from "vitest";
import { instanceOf, requestOf } from "../../../../../test/support/scheduling/fakes.cases.ts";
import { HeaderList } from "../../../../base/inference/headers.ts";
import { agentIdentity } from "./agent-identity.ts";

/** The fairness ID that requests with these headers get. */
function flowOf(headers: Readonly<Record<string, string>>, parameters: object = {}): string | undefined {
  let flow: string | undefined;
  const request = requestOf("p", { headers: HeaderList.of(Object.entries(headers)) });
  const rejection = instanceOf(agentIdentity, parameters).process({
    request,
    setFairnessId: (id) => {
      flow = id;
    },
  });
  expect(rejection).toBeUndefined();
  return flow;
}

describe("agent-identity (scheduling 3.10.5)", () => {
  it.each([
    [{ "X-Claude-Code-Session-Id": "a", "x-session-affinity": "b", "session-id": "c", session_id: "d" }, "a"],
    [{ "x-session-affinity": "b", "session-id": "c", session_id: "d" }, "b"],
    [{ "session-id": "c", session_id: "d" }, "c"],
    [{ session_id: "d" }, "d"],
    [{ "x-claude-code-session-id": " ", session_id: " d " }, "d"],
    [{ "x-session-id": "e" }, undefined],
    [{}, undefined],
  ])("makes of %j the flow %j", (headers, flow) => {
    expect(flowOf(headers as Record<string, string>)).toBe(flow);
  });

  it("looks at further headers that it is told, behind its own", () => {
    const parameters = { additionalSessionHeaders: ["X-Session-Id", "x-other"] };
    expect(flowOf({ "x-session-id": "e", "x-other": "f" }, parameters)).toBe("e");
    expect(flowOf({ "x-other": "f" }, parameters)).toBe("f");
    expect(flowOf({ "x-other": "f", session_id: "d" }, parameters)).toBe("d");
  });

  it("ignores ids over 256 characters", () => {
    expect(flowOf({ session_id: "x".repeat(256) })).toHaveLength(256);
    expect(flowOf({ session_id: "x".repeat(257) })).toBeUndefined();
    expect(flowOf({ "session-id": "x".repeat(257), session_id: "d" })).toBe("d");
  });

  it.each([
    [{ additionalSessionHeaders: [""] }],
    [{ additionalSessionHeaders: new Array(17).fill("x") }],
    [{ headers: ["x"] }],
  ])("refuses %j", (parameters) => {
    expect(agentIdentity.parameters.safeParse(parameters).success).toBe(false);
  });
});
