import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { HeaderList } from "../../base/inference/headers.ts";
import { type AnswerFrame, flatHead, listedHead } from "./answer-head.ts";

const FRAME: AnswerFrame = { http11: true, hasBody: true, keepAlive: true, keptFor: 75_000, wall: 0 };

/** The head that node:http writes. */
function nodeHead(status: number, headers: string[], frame: AnswerFrame, head: boolean): string {
  const request = new IncomingMessage(new Socket());
  request.method = head ? "HEAD" : "POST";
  request.httpVersionMajor = 1;
  request.httpVersionMinor = frame.http11 ? 1 : 0;
  const response = new ServerResponse(request);
  response.shouldKeepAlive = frame.keepAlive;
  Object.assign(response, { _keepAliveTimeout: frame.keptFor });
  response.writeHead(status, headers);
  return (response as unknown as { _header: string })._header.replace(/Date: .*\r\n/, "Date: x\r\n");
}

describe("the head of an answer", () => {
  it("is that of node:http", () => {
    for (const status of [200, 204, 304, 404, 503, 599])
      for (const length of [[], ["content-length", "5"], ["Content-Length", "0"]])
        for (const more of [[], ["x-a", "1", "set-cookie", "a=b", "Set-Cookie", "c=\xe9"]])
          for (const http11 of [true, false])
            for (const keepAlive of [true, false])
              for (const keptFor of [75_000, 1_500, 0])
                for (const head of [true, false]) {
                  const hasBody = !head && status !== 204 && status !== 304;
                  const frame = { ...FRAME, http11, keepAlive, keptFor, hasBody };
                  const headers = [...length, ...more];
                  const own = flatHead(status, headers, frame);
                  const text = own.text.replace(/Date: .*\r\n/, "Date: x\r\n");
                  expect(text).toBe(nodeHead(status, headers, frame, head));
                  expect(own.keepAlive).toBe(text.includes("Connection: keep-alive"));
                  expect(own.chunked).toBe(text.includes("Transfer-Encoding: chunked"));
                  expect(own.closeDelimited).toBe(hasBody && length.length === 0 && !http11);
                }
  });

  it("is the same for a list", () => {
    const list = HeaderList.of([
      ["content-length", "2"],
      ["x-a", "1"],
    ]);
    expect(listedHead(200, list, FRAME)).toEqual(flatHead(200, ["content-length", "2", "x-a", "1"], FRAME));
  });

  it("has the date of its second, once", () => {
    expect(flatHead(200, [], FRAME).text).toContain("\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n");
    expect(flatHead(200, [], { ...FRAME, wall: 1_999 }).text).toContain("00:00:01 GMT\r\n");
    const own = flatHead(200, ["date", "Mon, 01 Jan 2024 00:00:00 GMT"], FRAME).text;
    expect(own.match(/date/gi)).toHaveLength(1);
    expect(own).toContain("2024");
  });

  it.each([
    ["x-a", "1\r\nx-b: 2"],
    ["x-a", "1\n"],
    ["x-a", "\0"],
    ["x-a", "\u0100"],
    ["x-a: 1\r\nx-b", "2"],
    ["x a", "1"],
    ["", "1"],
  ])("has no header that would add a line: %j: %j", (name, value) => {
    expect(() => flatHead(200, [name, value], FRAME)).toThrow("is not valid HTTP");
    expect(() => listedHead(200, HeaderList.of([[name, value]]), FRAME)).toThrow("is not valid HTTP");
  });
});
