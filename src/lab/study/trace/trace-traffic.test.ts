import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../../base/clock/random.ts";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import type { TraceRequest } from "./trace-reader.ts";
import { TraceText, traceTraffic } from "./trace-traffic.ts";

const SUMMARY = {
  ...{ file: "t.jsonl", format: "Mooncake", rows: 3, before: 0, unusable: [], stopped: undefined },
  ...{ speed: 1, contextLength: 10_000 },
};

function request(at: number, promptTokens: number, blocks?: readonly number[]): TraceRequest {
  return { at, promptTokens, outputTokens: 2, blocks: blocks && Uint32Array.from(blocks) };
}

/** The number of bytes with which both begin. */
function shared(a: Uint8Array, b: Uint8Array): number {
  const most = Math.min(a.length, b.length);
  let at = 0;
  while (at < most && a[at] === b[at]) at++;
  return at;
}

describe("the text of a trace", () => {
  const text = new TraceText();

  it("is equal for equal blocks at any place, and as long as the prompt", () => {
    const one = text.prompt(0, request(0, 1200, [5, 6, 7]));
    const other = text.prompt(1, request(0, 1536, [5, 7, 6]));
    expect([one.length, other.length]).toEqual([4800, 6144]);
    expect(shared(one, other)).toBeLessThan(2048 + 16);
    expect(shared(one, other)).toBeGreaterThanOrEqual(2048);
    // 176 tokens of block 7 here, all of them there.
    expect(Buffer.compare(one.subarray(4096), other.subarray(2048, 2048 + 704))).toBe(0);
    expect(Buffer.compare(one.subarray(2048, 4096), other.subarray(4096))).toBe(0);
  });

  it("shares no token at the beginning with another number where there are no blocks", () => {
    const texts = [0, 1, 2, 1125, 1126].map((number) => text.prompt(number, request(0, 100)));
    // The words of two numbers differ within the first four tokens.
    for (const [i, a] of texts.entries()) for (const b of texts.slice(i + 1)) expect(shared(a, b)).toBeLessThan(16);
    expect(text.prompt(1, request(0, 100))).toEqual(texts[1]);
  });
});

describe("traceTraffic", () => {
  it("sends the requests at their times, at the rate of the trace", () => {
    const requests = [request(0, 10, [0]), request(0, 600, [0, 1]), request(1999, 20, [2])];
    const { rates, durationMs, about, make } = traceTraffic({
      requests,
      summary: { ...SUMMARY, requests: 3, repeated: 0.1 },
    });
    expect([rates, durationMs]).toEqual([[1.5], 2000]);
    expect(about).toContain("t.jsonl");
    const clock = new VirtualClock();
    const sent: (readonly [number, number, number])[] = [];
    make({ rate: 1.5, durationMs, servers: 1 }).start({
      clock,
      random: new SeededRandom(1),
      send: ({ prompt, outputTokens }) => sent.push([clock.now(), prompt.length / 4, outputTokens]),
    });
    clock.advance(2000);
    expect(sent).toEqual([
      [0, 10, 2],
      [0, 600, 2],
      [1999, 20, 2],
    ]);
  });
});
