import { describe, expect, it } from "vitest";
import type { ResultMessage } from "../brokers/messages/message.ts";
import { errorResult } from "../brokers/messages/result.ts";
import { answerLine, errorLine, readWrittenLine, succeeded } from "./batch-output.ts";

const answer = (payload: string | Buffer, statusCode = 200): ResultMessage => ({
  ...{ id: "batch-1-7", statusCode, payload: Buffer.from(payload), errorCode: "", errorMessage: "", contentType: "" },
});

describe("lines of answers", () => {
  it("are what OpenAI's batch API writes, with the body's own text, in one line each", () => {
    expect(answerLine("batch-1-7", 'a"b', answer('{\n "n": 12345678901234567890,\r\n "t": "a\\nb"}\n'))).toBe(
      '{"id":"batch-1-7","custom_id":"a\\"b","response":{"status_code":200,"request_id":"batch-1-7",' +
        '"body":{  "n": 12345678901234567890,  "t": "a\\nb"}},"error":null}\n',
    );
    expect(JSON.parse(answerLine("i", "a", answer("busy", 503))).response).toEqual({
      ...{ status_code: 503, request_id: "i", body: "busy" },
    });
    expect(JSON.parse(answerLine("i", "a", answer(Buffer.from([255, 0])))).response.body).toBe("/wA=");
    expect(JSON.parse(answerLine("i", "a", answer(""))).response.body).toBe("");
  });

  it("have an error, and no response, when there was no answer", () => {
    const late = errorResult("i", "DEADLINE_EXCEEDED", "deadline exceeded");
    expect(JSON.parse(answerLine("i", "a", late))).toEqual({
      ...{ id: "i", custom_id: "a", response: null },
      error: { code: "DEADLINE_EXCEEDED", message: "deadline exceeded" },
    });
    expect(JSON.parse(errorLine("i", null, { code: "INVALID_LINE", message: "x" }))).toMatchObject({ custom_id: null });
    expect([late, answer("{}"), answer("{}", 500), answer("{}", 204)].map(succeeded)).toEqual([
      false,
      true,
      false,
      true,
    ]);
  });

  it("are read again as what they are", () => {
    const written = [
      answerLine("i", "a", answer("{}")),
      answerLine("i", "b", answer("{}", 400)),
      errorLine("i", null, { code: "X", message: "" }),
    ];
    expect(written.map(readWrittenLine)).toEqual([
      { id: "i", customId: "a", succeeded: true, code: null, body: {} },
      { id: "i", customId: "b", succeeded: false, code: null, body: {} },
      { id: "i", customId: null, succeeded: false, code: "X", body: undefined },
    ]);
    for (const text of ['{"id":"i","custom_id":"a","resp', "5", "{}", '{"custom_id":"a"}', '{"id":"i"}'])
      expect(readWrittenLine(text), text).toBeUndefined();
  });
});
