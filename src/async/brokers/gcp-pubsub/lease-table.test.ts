import { describe, expect, it } from "vitest";
import { queueOf } from "../../../../test/support/brokers/broker.cases.ts";
import type { Received } from "./client.ts";
import { type LeasedMessage, LeaseTable, readLeasedMessage } from "./lease-table.ts";

const NOTHING = { lost: new Set<string>(), failed: new Map<string, string>() };

function delivery(claimId: string, messageId: string, ackId: string): LeasedMessage {
  const data = Buffer.from('{"id":"a","deadline":1,"payload":{}}');
  return readLeasedMessage(queueOf("s"), { ackId, message: { data, messageId } }, claimId);
}

describe("lease table", () => {
  it("A-65 a message delivered again adds a lease to the one in work, which alone is known", () => {
    const table = new LeaseTable();
    const first = delivery("c1", "m", "ack1");
    expect(table.admit(first)).toBe(first);
    expect(table.admit(delivery("c2", "m", "ack2"))).toBe(first);
    expect(first.ackIds).toEqual(["ack1", "ack2"]);
    expect(table.get("c2")).toBeUndefined();
    table.remove(first);
    const third = delivery("c3", "m", "ack3");
    expect(table.admit(third)).toBe(third);
  });

  it("messages without an id are never taken for one another", () => {
    const table = new LeaseTable();
    table.admit(delivery("c1", "", "ack1"));
    const other = delivery("c2", "", "ack2");
    expect(table.admit(other)).toBe(other);
  });

  it("keeps the newest 64 leases of one message", () => {
    const table = new LeaseTable();
    const first = delivery("c0", "m", "ack0");
    table.admit(first);
    for (let at = 1; at <= 100; at++) table.admit(delivery(`c${at}`, "m", `ack${at}`));
    expect(first.ackIds).toHaveLength(64);
    expect(first.ackIds.at(-1)).toBe("ack100");
  });

  it("a claim is lost with its last lease, not before", () => {
    const table = new LeaseTable();
    const first = delivery("c1", "m", "ack1");
    table.admit(first);
    table.admit(delivery("c2", "m", "ack2"));
    expect(table.apply(first, ["ack1", "ack2"], { ...NOTHING, lost: new Set(["ack1"]) })).toBe("done");
    expect(first.claim.lost).toBe(false);
    expect(table.apply(first, ["ack2"], { ...NOTHING, failed: new Map([["ack2", "away"]]) })).toEqual({
      failed: "away",
    });
    expect(table.apply(first, ["ack2"], { ...NOTHING, lost: new Set(["ack2"]) })).toBe("lost");
    expect(first.claim.lost).toBe(true);
    expect(table.has(first)).toBe(false);
  });
});

const received = (message: NonNullable<Received["message"]> | null, deliveryAttempt = 0): Received => ({
  ackId: "ack",
  message,
  deliveryAttempt,
});
const data = Buffer.from('{"id":"a","deadline":1,"payload":{"n":1}}');

describe("deliveries of Pub/Sub", () => {
  it("the retry count is the delivery attempt less one, and 0 where the service does not count (A-62)", () => {
    const retries = (attempt: number): number =>
      readLeasedMessage(queueOf("s"), received({ data }, attempt), "c").claim.message.routing.retryCount;
    expect([0, 1, 2, 5].map(retries)).toEqual([0, 0, 1, 4]);
  });

  it("publish times are milliseconds, from 64-bit seconds in any form; unknown without one", () => {
    const at = (publishTime: object | null): number =>
      readLeasedMessage(queueOf("s"), received({ data, publishTime } as NonNullable<Received["message"]>), "c").claim
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
      expect(() => readLeasedMessage(queueOf("s"), received(message), "c")).toThrow(
        expect.objectContaining({ code: "MESSAGE_UNREADABLE" }),
      );
  });

  it("labels are the queue's", () => {
    const queue = queueOf("s", { labels: { tier: "gold" } });
    expect(readLeasedMessage(queue, received({ data }), "c").claim.message.routing.labels).toEqual({ tier: "gold" });
  });
});
