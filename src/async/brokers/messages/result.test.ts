import { describe, expect, it } from "vitest";
import { encodeResult, errorResult, parseResult } from "./result.ts";

const HTTP = {
  id: "a",
  statusCode: 200,
  payload: Buffer.from('{"n": 12345678901234567890, "é": "<"}'),
  errorCode: "",
  errorMessage: "",
  contentType: "application/json",
} as const;

describe("A-33: the JSON of a result", () => {
  it("an HTTP answer: status and body, nothing empty", () => {
    expect(encodeResult(HTTP)).toBe(
      JSON.stringify({ id: "a", status_code: 200, payload: '{"n": 12345678901234567890, "é": "<"}' }),
    );
  });

  it("no HTTP answer: no status, the error as payload, too", () => {
    expect(encodeResult(errorResult("a", "DEADLINE_EXCEEDED", "deadline exceeded"))).toBe(
      '{"id":"a","payload":"{\\"error\\":\\"deadline exceeded\\"}","error_code":"DEADLINE_EXCEEDED",' +
        '"error_message":"deadline exceeded"}',
    );
  });

  it("an empty body is an empty text, an empty id stays", () => {
    expect(encodeResult({ ...HTTP, id: "", statusCode: 204, payload: Buffer.alloc(0) })).toBe(
      '{"id":"","status_code":204,"payload":""}',
    );
  });

  it("a body in the middle of a larger buffer", () => {
    const whole = Buffer.from("xxhelloxx");
    expect(encodeResult({ ...HTTP, payload: new Uint8Array(whole.buffer, whole.byteOffset + 2, 5) })).toContain(
      '"payload":"hello"',
    );
  });
});

describe("A-36: a body that is not UTF-8", () => {
  it("goes as base64 with its content type and comes back whole", () => {
    const payload = Buffer.from([0xff, 0x00, 0xfe, 0x80]);
    const text = encodeResult({ ...HTTP, payload, contentType: "audio/wav" });
    expect(JSON.parse(text)).toEqual({
      id: "a",
      status_code: 200,
      payload: "/wD+gA==",
      payload_encoding: "base64",
      content_type: "audio/wav",
    });
    const back = parseResult(text);
    expect(Buffer.from(back.payload)).toEqual(payload);
    expect(back.contentType).toBe("audio/wav");
  });

  it("without a content type none is written", () => {
    const text = encodeResult({ ...HTTP, payload: Buffer.from([0xc3]), contentType: "" });
    expect(text).toBe('{"id":"a","status_code":200,"payload":"ww==","payload_encoding":"base64"}');
  });
});

describe("reading a result", () => {
  it("as it was written", () => {
    const error = errorResult("b", "GATE_DROPPED", "Pool gating dropped request");
    expect(parseResult(encodeResult(error))).toEqual(error);
    expect(parseResult(encodeResult(HTTP))).toEqual({ ...HTTP, contentType: "" });
  });

  it.each([
    ["", "result is not JSON"],
    ["{", "result is not JSON"],
    ["null", "result missing 'id' field"],
    ["[]", "result missing 'id' field"],
    ["{}", "result missing 'id' field"],
    ['{"id":""}', "result missing 'id' field"],
    ['{"id":5}', "result missing 'id' field"],
  ])("%j is none", (text, message) => {
    expect(() => parseResult(text)).toThrow(expect.objectContaining({ code: "RESULT_INVALID", message }));
  });

  it("members of a wrong type count as absent", () => {
    expect(parseResult('{"id":"a","payload":{},"status_code":"200","error_code":1}')).toMatchObject({
      statusCode: 0,
      errorCode: "",
      payload: Buffer.alloc(0),
    });
  });
});
