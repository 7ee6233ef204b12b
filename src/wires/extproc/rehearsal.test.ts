import { Socket } from "node:net";
import { describe, expect, it, vi } from "vitest";
import { FakeExchange, loopbackEndpoint } from "../../../test/support/fake-exchange.ts";
import { poll } from "../../../test/support/poll.ts";
import { realClock } from "../../base/clock/real.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { SyntheticExchange } from "../../picker/exchange/synthetic.ts";
import { rehearsal } from "./rehearsal.ts";
import { DEFAULT_WIRE_OPTIONS } from "./wire-options.ts";

const synthetic = (length: number, chunks: number): SyntheticExchange => ({
  headers: [[":path", "/v1/chat/completions"]],
  body: Buffer.alloc(length, "b"),
  answerType: "text/event-stream",
  answer: Array.from({ length: chunks }, (_, i) => Buffer.from(`chunk ${i};`)),
});

describe("a rehearsal", () => {
  it("plays every exchange to its end over the transport: bodies in pieces, answers in chunks", async () => {
    const opened: FakeExchange[] = [];
    const received: number[] = [];
    const endpoints = [loopbackEndpoint(1)];
    const sizes = [10, 16_384, 16_385, 200_000, ...new Array<number>(40).fill(1000)];
    await rehearsal(DEFAULT_WIRE_OPTIONS, realClock)(
      (wire) => {
        const exchange = new FakeExchange(
          {
            endpoints,
            decide(exchange) {
              received.push(exchange.text.length);
              return exchange.route();
            },
          },
          wire,
        );
        opened.push(exchange);
        return exchange;
      },
      sizes.map((size, i) => synthetic(size, 1 + (i % 5) * 30)),
    );
    expect(received).toEqual(sizes);
    expect(opened.map(({ ends }) => ends)).toEqual(sizes.map(() => ["complete"]));
    expect(opened.flatMap(({ breaches }) => breaches)).toEqual([]);
  });

  it("ends where exchanges are refused, where none can be opened, and where there are none", async () => {
    const play = rehearsal(DEFAULT_WIRE_OPTIONS, realClock);
    const refused: FakeExchange[] = [];
    await play(
      (wire) => {
        const exchange = new FakeExchange({ decide: () => new Rejection("no_endpoints", "none") }, wire);
        refused.push(exchange);
        return exchange;
      },
      Array.from({ length: 20 }, () => synthetic(100_000, 2)),
    );
    expect(refused.map(({ ends }) => ends)).toEqual(refused.map(() => ["rejected"]));
    let asked = 0;
    const throwing = (): never => {
      asked++;
      throw new Error("no exchange can be opened");
    };
    await play(throwing, [synthetic(10, 1), synthetic(10, 1)]);
    await play(throwing, []);
    expect(asked).toBe(2);
  });

  it("leaves no connection behind when it is given up", async () => {
    const clock = new VirtualClock();
    const opened: FakeExchange[] = [];
    const connects = vi.spyOn(Socket.prototype, "connect");
    const played = rehearsal(DEFAULT_WIRE_OPTIONS, clock)(
      (wire) => {
        const exchange = new FakeExchange({ decide: () => new Promise(() => {}) }, wire);
        opened.push(exchange);
        return exchange;
      },
      [synthetic(10, 1)],
    );
    await poll("the exchange that never ends", () => opened[0]?.bodyEnded);
    clock.advance(2000);
    await played;
    expect(connects.mock.contexts.map((socket) => (socket as Socket).destroyed)).toEqual([true]);
    connects.mockRestore();
    await poll("the end of its call", () => opened[0]!.ends.length > 0, 5000);
  });
});
