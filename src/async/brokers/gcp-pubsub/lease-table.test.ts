import { describe, expect, it } from "vitest";
import { queueOf } from "../../../../test/support/brokers/broker.cases.ts";
import { type Delivery, readDelivery } from "./delivery.ts";
import { LeaseTable } from "./lease-table.ts";

const NOTHING = { lost: new Set<string>(), failed: new Map<string, string>() };

function delivery(claimId: string, messageId: string, ackId: string): Delivery {
  const data = Buffer.from('{"id":"a","deadline":1,"payload":{}}');
  return readDelivery(queueOf("s"), { ackId, message: { data, messageId } }, claimId);
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
