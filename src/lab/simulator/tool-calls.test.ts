import { describe, expect, it } from "vitest";
import { demandedCall } from "./tool-calls.ts";

const parameters = {
  type: "object",
  properties: {
    place: { type: "string" },
    unit: { enum: ["metres", "feet"] },
    hours: { type: "array", items: { type: ["integer", "null"] } },
    exact: { type: "boolean" },
    inner: { type: "object", properties: { odd: {} } },
  },
};
const EXAMPLE = { place: "harbour", unit: "metres", hours: [1], exact: true, inner: { odd: null } };

describe("a demanded call of a tool", () => {
  it.each([
    ["chat, any", { tools: [{ type: "function", function: { name: "tide", parameters } }], tool_choice: "required" }],
    [
      "chat, by name",
      {
        tools: [{ function: { name: "other" } }, { function: { name: "tide", parameters } }],
        tool_choice: { type: "function", function: { name: "tide" } },
      },
    ],
    ["messages, any", { tools: [{ name: "tide", input_schema: parameters }], tool_choice: { type: "any" } }],
    [
      "messages, by name",
      { tools: [{ name: "tide", input_schema: parameters }], tool_choice: { type: "tool", name: "tide" } },
    ],
    ["responses", { tools: [{ type: "function", name: "tide", parameters }], tool_choice: "required" }],
  ])("has arguments that fit the schema: %s", (_name, body) => {
    const call = demandedCall(body);
    expect(call?.name).toBe("tide");
    expect(JSON.parse(call!.arguments)).toEqual(EXAMPLE);
  });

  it.each([{}, { tool_choice: "auto" }, { tool_choice: "none" }, { tool_choice: { type: "auto" } }])(
    "is none for %j",
    (body) => {
      expect(demandedCall({ tools: [{ name: "tide" }], ...body })).toBeUndefined();
    },
  );

  it.each([
    { tool_choice: "required" },
    { tool_choice: "required", tools: [7] },
    { tool_choice: { type: "tool", name: "x" }, tools: [{ name: "tide" }] },
  ])("without such a tool is a 400: %j", (body) => {
    expect(() => demandedCall(body)).toThrow(/tool_choice demands/);
  });

  it("is bounded, however deep the schema is", () => {
    let schema: object = { type: "string" };
    for (let i = 0; i < 1000; i++) schema = { type: "array", items: schema };
    const call = demandedCall({ tool_choice: "required", tools: [{ name: "deep", input_schema: schema }] });
    expect(call!.arguments.length).toBeLessThan(50);
  });
});
