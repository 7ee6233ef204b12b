import { describe, expect, it } from "vitest";
import { failureText } from "./attempt.ts";

describe("why a request failed", () => {
  it.each<[string, Error, string]>([
    ["its message", new Error("read\nECONNRESET"), "read ECONNRESET"],
    [
      "one for each address",
      new AggregateError([new Error("a refused"), new Error("b refused")]),
      "a refused; b refused",
    ],
    ["its code", Object.assign(new Error(""), { code: "EPIPE" }), "EPIPE"],
    ["its name", new TypeError(""), "TypeError"],
    ["its code, with nothing in it", Object.assign(new AggregateError([]), { code: "ECONNREFUSED" }), "ECONNREFUSED"],
  ])("%s", (_name, error, text) => {
    expect(failureText(error)).toBe(text);
  });

  it("is one bounded line", () => {
    expect(failureText(new AggregateError(Array(500).fill(new Error("refused"))))).toHaveLength(1024);
  });
});
