import { describe, expect, it } from "vitest";
import type { InboundRequest } from "./inbound-request.ts";
import { ANSWERS, execute, freeParser, newParser, OK, type ParserEvents } from "./llhttp.ts";
import { RequestParser } from "./request-parser.ts";

/** A parser, and what it has read. */
function reader(requestHead?: (request: InboundRequest) => boolean) {
  const requests: InboundRequest[] = [];
  const parser = new RequestParser(
    { requestHead: (request) => requests.push(request) > 0 && (requestHead?.(request) ?? true) },
    false,
    60_000,
    100,
  );
  return { parser, requests, read: (text: string) => parser.read(Buffer.from(text, "latin1")) };
}

function bodyOf(request: InboundRequest): string {
  let body = "";
  for (let piece = request.take(); piece !== undefined; piece = request.take()) body += piece.toString("latin1");
  return body;
}

const CHUNKED = "POST / HTTP/1.1\r\nhost: gw\r\ntransfer-encoding: chunked\r\n\r\n";

describe("RequestParser", () => {
  it("says where it is", () => {
    const { parser, read } = reader();
    expect(parser.state).toBe("between");
    read("\r\nPOST");
    expect(parser.state).toBe("head");
    read(" / HTTP/1.1\r\nhost: gw\r\ncontent-length: 2\r\n\r\na");
    expect(parser.state).toBe("body");
    read("b");
    expect(parser.state).toBe("between");
    read("\0");
    expect(parser.state).toBe("stopped");
    parser.free();
  });

  it("joins the chunks of a piece, and keeps no byte of the piece", () => {
    const { parser, requests } = reader();
    const piece = Buffer.from(`${CHUNKED}2\r\nab\r\n3;x=y\r\ncde\r\n1\r\nf`);
    parser.read(piece);
    piece.fill(0x7a);
    expect(requests[0]!.unread).toBe(6);
    expect(requests[0]!.take()!.toString()).toBe("abcdef");
    expect([requests[0]!.take(), requests[0]!.unread, requests[0]!.complete]).toEqual([undefined, 0, false]);
    parser.free();
  });

  it("reads a piece of many parts", () => {
    const { parser, requests, read } = reader();
    const body = "0123456789".repeat(40_000);
    read(`POST / HTTP/1.1\r\nhost: gw\r\ncontent-length: ${body.length}\r\n\r\n${body}GET /next HTTP/1.1\r\n\r\n`);
    expect(bodyOf(requests[0]!)).toBe(body);
    expect(requests.map(({ target, complete }) => [target, complete])).toEqual([
      ["/", true],
      ["/next", true],
    ]);
    parser.free();
  });

  it("hands on nothing of a body from the piece that breaks it", () => {
    const { parser, requests, read } = reader();
    read(`${CHUNKED}1\r\na\r\n`);
    read("1\r\nb\r\nZZ\r\n");
    expect(parser.refusal?.message).toContain("is not valid HTTP/1.1: Invalid character in chunk size");
    expect(bodyOf(requests[0]!)).toBe("a");
    expect(requests[0]!.complete).toBe(false);
    parser.free();
  });

  it("reads nothing more after a fault, nor when nobody wants requests", () => {
    for (const first of ["HELLO\r\n\r\n", "GET / HTTP/1.1\r\n\r\n"]) {
      const { parser, requests, read } = reader(() => false);
      read(first);
      const seen = requests.length;
      read("GET / HTTP/1.1\r\nhost: gw\r\n\r\n");
      expect([parser.state, requests.length]).toEqual(["stopped", seen]);
      parser.free();
    }
  });

  it.each([
    ["in one piece", (text: string) => [text]],
    ["byte by byte", (text: string) => [...text]],
  ])("takes extensions of 16 KiB between two pieces of a body, and no more: %s", (_how, pieces) => {
    const outcome = (body: string): unknown => {
      const { parser, requests, read } = reader();
      for (const piece of pieces(CHUNKED + body)) read(piece);
      parser.free();
      return parser.refusal?.message ?? (requests[0]!.complete ? bodyOf(requests[0]!) : "open");
    };
    const overflow = "the request is not valid HTTP/1.1: Chunk extensions overflow";
    const [fits, more] = [`;${"a".repeat(16_300)}`, `;${"a".repeat(16_400)}`];
    expect(outcome(`2${fits}\r\nab\r\n2${fits}\r\ncd\r\n0${fits}\r\n\r\n`)).toBe("abcd");
    expect(outcome(`2${more}\r\nab\r\n0\r\n\r\n`)).toBe(overflow);
    expect(outcome(`2\r\nab\r\n2${more}\r\ncd\r\n0\r\n\r\n`)).toBe(overflow);
    expect(outcome(`2\r\nab\r\n0${more}\r\n\r\n`)).toBe(overflow);
    expect(outcome(`0${more}\r\n\r\n`)).toBe(overflow);
    expect(outcome(`2\r\nab\r\n0${more}\r\nx: y\r\n\r\n`)).toBe(overflow);
    // Zeros before a size are bytes that are no body, too.
    expect(outcome(`${"0".repeat(17_000)}2\r\nab\r\n`)).toBe(overflow);
    // Trailers and bytes behind the request are none of them.
    expect(outcome(`2\r\nab\r\n0\r\n${"x: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n".repeat(500)}\r\n`)).toBe("ab");
    expect(outcome(`2\r\nab\r\n0\r\n\r\nGET /${"a".repeat(20_000)} HTTP/1.1\r\n\r\n`)).toBe("ab");
  });

  it("keeps one header more than the limit of headers, and none of the others", () => {
    const { parser, requests, read } = reader();
    read(`GET / HTTP/1.1\r\n${"a: b\r\n".repeat(100)}\r\nGET / HTTP/1.1\r\n${"a: b\r\n".repeat(5_000)}\r\n`);
    read("GET / HTTP/1.1\r\nlast: one\r\n\r\n");
    expect(requests.map(({ raw }) => raw.length)).toEqual([200, 202, 2]);
    parser.free();
  });

  it("gives back its memory", () => {
    const first = newParser(ANSWERS);
    freeParser(first);
    for (let n = 0; n < 1000; n++) {
      const { parser, read } = reader();
      read("GET / HTTP/1.1\r\n");
      parser.free();
    }
    expect(Math.abs(newParser(ANSWERS) - first)).toBeLessThan(10_000);
  });
});

describe("llhttp", () => {
  it("lets no callback run a parser: both share the place for the bytes", () => {
    const inner = newParser(ANSWERS);
    const outer = newParser(ANSWERS);
    const bytes = Buffer.from("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    const nothing = (): number => OK;
    const events: ParserEvents = {
      onBegin: nothing,
      onTarget: nothing,
      onField: nothing,
      onValue: nothing,
      onHead: nothing,
      onBody: nothing,
      onComplete: nothing,
    };
    const nested = { ...events, onBegin: () => execute(inner, bytes, events) };
    expect(() => execute(outer, bytes, nested)).toThrow("a parser runs already");
    // And goes on after that.
    expect(execute(inner, bytes, events)).toBe(OK);
    freeParser(inner);
    freeParser(outer);
  });
});
