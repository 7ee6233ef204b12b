import { describe, expect, it } from "vitest";
import { readEvents } from "./generation.ts";

const read = (text: string) => readEvents(Buffer.from(text));

describe("readEvents", () => {
  it.each([
    ["data: a\n\ndata: b\n\ndata: [DONE]\n\n", ["a", "b"], true, false],
    ["data:a\r\n\r\ndata: b\r\rdata: [DONE]\r\n\r\n", ["a", "b"], true, false],
    [": ping\n\nevent: x\nid: 7\ndata: a\ndata: b\n\n", ["a\nb"], false, false],
    ["data:  a \n\ndata: [DONE]", [" a "], true, false],
    ["data: [DONE]\n\ndata: a\n\n", [], true, true],
    ["data: half", ["half"], false, false],
    ["", [], false, false],
  ])("%j", (text, events, done, afterDone) => {
    expect(read(text)).toEqual({ events, done, afterDone });
  });

  it("keeps the first 4096 events and still sees the end", () => {
    const stream = read(`${"data: x\n\n".repeat(5000)}data: [DONE]\n\n`);
    expect(stream.events).toHaveLength(4096);
    expect(stream.done).toBe(true);
  });
});
