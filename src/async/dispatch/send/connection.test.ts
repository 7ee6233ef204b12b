import { describe, expect, it } from "vitest";
import { InterimFilter } from "./connection.ts";

const CONTINUE = "HTTP/1.1 100 Continue\r\n\r\n";
const ANSWER = "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx";

/** What is left of these pieces. */
function passed(...pieces: readonly string[]): string {
  const filter = new InterimFilter();
  filter.expect();
  return pieces
    .flatMap((piece) => (filter.awaiting ? (filter.pass(Buffer.from(piece)) ?? []) : [Buffer.from(piece)]))
    .join("");
}

describe("InterimFilter", () => {
  it.each([
    ["none", ANSWER],
    ["one", CONTINUE + ANSWER],
    ["two, one with headers", `HTTP/1.1 100\r\nvia: a\r\n\r\n${CONTINUE}${ANSWER}`],
  ])("leaves the answer, with %s before it, wherever the bytes are cut", (_, text) => {
    for (let cut = 0; cut <= text.length; cut++) expect(passed(text.slice(0, cut), text.slice(cut))).toBe(ANSWER);
    expect(passed(...text)).toBe(ANSWER);
  });

  it.each([
    "HTTP/1.1 101 Switching Protocols\r\n\r\n",
    "HTTP/1.1 103 Early Hints\r\n\r\n",
    "nonsense",
    "HTTP/1.0 200 OK",
  ])("leaves %j alone", (text) => expect(passed(...text)).toBe(text));

  it("does not touch the body of an answer, whatever it looks like", () => {
    expect(passed(ANSWER, CONTINUE)).toBe(ANSWER + CONTINUE);
  });

  it("gives one that never ends to the parser (bound)", () => {
    const endless = `HTTP/1.1 100 Continue\r\nx: ${"y".repeat(9000)}`;
    expect(passed(...(endless.match(/.{1,100}/gs) ?? []))).toBe(endless);
  });

  it("begins anew with the next request", () => {
    const filter = new InterimFilter();
    filter.expect();
    filter.pass(Buffer.from("HTTP/1.1 1"));
    filter.expect();
    expect(String(filter.pass(Buffer.from(ANSWER)))).toBe(ANSWER);
  });
});
