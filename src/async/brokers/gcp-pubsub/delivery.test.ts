import { describe, expect, it } from "vitest";
import { queueOf } from "../../../../test/support/brokers/broker.cases.ts";
import type { Received } from "./client.ts";
import { readDelivery } from "./delivery.ts";

const received = (message: NonNullable<Received["message"]> | null, deliveryAttempt = 0): Received => ({
  ackId: "ack",
  message,
  deliveryAttempt,
});
const data = Buffer.from('{"id":"a","deadline":1,"payload":{"n":1}}');

describe("deliveries of Pub/Sub", () => {
  it("the retry count is the delivery attempt less one, and 0 where the service does not count (A-62)", () => {
    const retries = (attempt: number): number =>
      readDelivery(queueOf("s"), received({ data }, attempt), "c").claim.message.routing.retryCount;
    expect([0, 1, 2, 5].map(retries)).toEqual([0, 0, 1, 4]);
  });

  it("publish times are milliseconds, from 64-bit seconds in any form; unknown without one", () => {
    const at = (publishTime: object | null): number =>
      readDelivery(queueOf("s"), received({ data, publishTime } as NonNullable<Received["message"]>), "c").claim
        .publishedAt;
    expect(at({ seconds: "1800000000", nanos: 250_000_000 })).toBe(1_800_000_000_250);
    expect(at({ seconds: 1_800_000_000, nanos: 0 })).toBe(1_800_000_000_000);
    expect(at(null)).toBeNaN();
  });

  it("no message, no data, no UTF-8, no object: unreadable", () => {
    for (const message of [
      null,
      {},
      { data: Buffer.alloc(0) },
      { data: Buffer.from([0xff]) },
      { data: Buffer.from("[]") },
    ])
      expect(() => readDelivery(queueOf("s"), received(message), "c")).toThrow(
        expect.objectContaining({ code: "MESSAGE_UNREADABLE" }),
      );
  });

  it("labels are the queue's", () => {
    const queue = queueOf("s", { labels: { tier: "gold" } });
    expect(readDelivery(queue, received({ data }), "c").claim.message.routing.labels).toEqual({ tier: "gold" });
  });
});
