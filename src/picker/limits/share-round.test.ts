import { describe, expect, it } from "vitest";
import { Counter } from "./counter.ts";
import { argumentsFor, hear, toSend } from "./share-round.ts";

function counterOf(limits = { requestsPerMinute: 60, tokensPerMinute: 6000, inFlight: 10 }) {
  return new Counter("id", "rule", "name", limits, 0);
}

describe("a round of shared limits", () => {
  it("tells what was used since the last one, and what all had used before that", () => {
    const counter = counterOf();
    for (let i = 0; i < 3; i++) counter.take(100, 0);
    const first = toSend(counter, undefined, 1);
    expect(first).toEqual({ round: 1, requests: 3, tokens: 300 });
    expect(argumentsFor(counter, first)).toEqual(["1", "3.000", "300.000", "0.000", "0.000", "60", "6000", "3", "10"]);
    hear(counter, { requests: 13, tokens: 1300, inFlight: 4, gateways: 2 }, 0);
    counter.end(0, -60, 0);
    expect(argumentsFor(counter, toSend(counter, undefined, 2))).toEqual([
      "2",
      "0.000",
      "-60.000",
      "13.000",
      "1300.000",
      "60",
      "6000",
      "2",
      "10",
    ]);
  });

  it("use between question and answer comes on top of the answer", () => {
    const counter = counterOf();
    counter.take(100, 0);
    toSend(counter, undefined, 1);
    counter.take(50, 0);
    hear(counter, { requests: 31, tokens: 1000, inFlight: 0, gateways: 2 }, 0);
    expect([counter.requests.used, counter.tokens.used]).toEqual([32, 1050]);
    expect(toSend(counter, undefined, 2)).toEqual({ round: 2, requests: 1, tokens: 50 });
  });

  it("a round without an answer is repeated under its number, and is no more than the bucket still holds", () => {
    const counter = counterOf();
    for (let i = 0; i < 10; i++) counter.take(100, 0);
    const lost = toSend(counter, undefined, 7);
    counter.drain(6000);
    counter.take(1, 6000);
    expect(toSend(counter, lost, 8)).toEqual({ round: 7, requests: 5, tokens: 401 });
    counter.drain(3_600_000);
    expect(toSend(counter, undefined, 9)).toEqual({ round: 9, requests: 0, tokens: 0 });
  });

  it("without the others, their last known use counts on, and an equal part stays", () => {
    const counter = counterOf();
    // The others use half of the limit.
    hear(counter, { requests: 30, tokens: 0, inFlight: 6, gateways: 2 }, 0);
    expect(counter.others).toMatchObject({ requestRate: 30 / 60_000, tokenRate: 0 });
    counter.deaf = true;
    counter.drain(10_000);
    expect(counter.requests.used).toBe(25);
    const room = () => {
      let count = 0;
      for (; counter.excess(0, 10_000) === undefined; count++) counter.take(0, 10_000);
      return count;
    };
    // Five of ten in flight: a half is this gateway's own, although the others had six.
    expect(room()).toBe(5);
    const busy = counterOf();
    hear(busy, { requests: 60, tokens: 0, inFlight: 0, gateways: 4 }, 0);
    busy.deaf = true;
    busy.drain(60_000);
    expect(busy.requests.used).toBe(45);
  });
});
