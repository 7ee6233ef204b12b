import { describe, expect, it } from "vitest";
import { readBatchLine } from "./batch-input.ts";

describe("readBatchLine", () => {
  it("reads a line of OpenAI's format, and keeps the body's own text", () => {
    const body = '{"model":"m","n":1.0,"t":"\\u00e9"}';
    expect(
      readBatchLine(`{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":${body},"x":1}`),
    ).toEqual({
      customId: "a",
      url: "/v1/chat/completions",
      body,
    });
  });

  it("says what is wrong with a line, and whose it is where that can be read", () => {
    const line = (over: object): string =>
      JSON.stringify({ custom_id: "a", method: "POST", url: "/v1/x", body: {}, ...over });
    for (const [text, problem, customId] of [
      ["{", /^not valid JSON: /, undefined],
      ["7", /must be a JSON object with custom_id, method, url and body/, undefined],
      [
        line({ custom_id: undefined, customID: "a" }),
        /^custom_id is missing; did you mean `custom_id` instead of "customID"\?$/,
        undefined,
      ],
      [line({ custom_id: "" }), /custom_id must be a string of 1 to 1024 characters/, undefined],
      [line({ custom_id: 5 }), /custom_id must be a string/, undefined],
      [line({ method: "GET" }), /^method must be "POST", not "GET"$/, "a"],
      [line({ url: "https://api.openai.com/v1/x" }), /^url must be a path such as/, "a"],
      [line({ url: "/v1/x?y=1" }), /^url must be a path/, "a"],
      [line({ body: "{}" }), /^body must be an object, not "\{\}"$/, "a"],
      [line({ body: null }), /^body is missing$/, "a"],
      [line({ body: { stream: true } }), /^body\.stream is true/, "a"],
    ] as const) {
      const found = readBatchLine(text);
      expect(found.problem, text).toMatch(problem);
      expect(found.customId, text).toBe(customId);
    }
  });
});
