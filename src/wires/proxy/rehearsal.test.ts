import { Socket } from "node:net";
import { describe, expect, it, vi } from "vitest";
import { FakeExchange, loopbackEndpoint } from "../../../test/support/fake-exchange.ts";
import { poll } from "../../../test/support/poll.ts";
import { fixedLimit } from "../../../test/support/slowness.ts";
import { realClock } from "../../base/clock/real.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { SyntheticExchange } from "../../picker/exchange/synthetic.ts";
import { PathTable } from "./path-table.ts";
import { rehearsal } from "./rehearsal.ts";

const PATHS = new PathTable(() => true, []);

/** The machine may be slow. */
const PATIENCE = fixedLimit(60_000);

const synthetic = (length: number, chunks: number): SyntheticExchange => ({
  headers: [
    [":method", "POST"],
    [":path", "/v1/chat/completions"],
    ["content-length", String(length)],
  ],
  body: Buffer.alloc(length, "b"),
  answerType: "text/event-stream",
  answer: Array.from({ length: chunks }, (_, i) => Buffer.from(`chunk ${i};`)),
});

const answered = ({ answer }: SyntheticExchange): string => Buffer.concat(answer).toString();

describe("a rehearsal of the gateway", () => {
  it("plays every exchange to its end through the proxy, and no endpoint is asked", async () => {
    const opened: FakeExchange[] = [];
    const seen: string[] = [];
    const received: number[] = [];
    // Nothing listens there.
    const endpoints = [loopbackEndpoint(1)];
    const exchanges = [10, 16_384, 200_000, ...new Array<number>(60).fill(1000)].map((size, i) =>
      synthetic(size, 1 + (i % 5) * 30),
    );
    await rehearsal(
      realClock,
      PATHS,
      PATIENCE,
    )((wire) => {
      const pieces: string[] = [];
      const at = opened.length;
      const plan = {
        endpoints,
        decide(exchange: FakeExchange) {
          received.push(exchange.text.length);
          return exchange.route();
        },
        atAnswer(_: FakeExchange, chunk: Uint8Array) {
          pieces.push(Buffer.from(chunk).toString());
          seen[at] = pieces.join("");
          return chunk;
        },
      };
      const exchange = new FakeExchange(plan, wire);
      opened.push(exchange);
      return exchange;
    }, exchanges);
    expect(opened.map(({ ends }) => ends)).toEqual(exchanges.map(() => ["complete"]));
    expect(opened.flatMap(({ breaches }) => breaches)).toEqual([]);
    expect(received.sort()).toEqual(exchanges.map(({ body }) => body.length).sort());
    expect(seen.toSorted()).toEqual(exchanges.map(answered).sort());
  });

  it("ends where exchanges are refused, where none can be opened, and where there are none", async () => {
    const play = rehearsal(realClock, PATHS, PATIENCE);
    const refused: FakeExchange[] = [];
    const many = Array.from({ length: 40 }, () => synthetic(1000, 2));
    await play((wire) => {
      const exchange = new FakeExchange({ decide: () => new Rejection("no_endpoints", "none") }, wire);
      refused.push(exchange);
      return exchange;
    }, many);
    expect(refused.map(({ ends }) => ends)).toEqual(many.map(() => ["rejected"]));
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
    const opened: FakeExchange[] = [];
    const connects = vi.spyOn(Socket.prototype, "connect");
    await rehearsal(
      realClock,
      PATHS,
      50,
    )(
      (wire) => {
        const exchange = new FakeExchange({ decide: () => new Promise(() => {}) }, wire);
        opened.push(exchange);
        return exchange;
      },
      [synthetic(10, 1)],
    );
    const left = connects.mock.contexts.filter((socket) => !(socket as Socket).destroyed);
    connects.mockRestore();
    expect(left).toEqual([]);
    await poll("the end of what was opened", () => opened.every(({ ends }) => ends.length > 0), 5000);
  });
});
