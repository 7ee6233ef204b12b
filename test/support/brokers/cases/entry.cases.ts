import { describe, expect, it } from "vitest";
import type { Claim } from "../../../../src/async/brokers/broker.ts";
import { answered, type CaseContext, envelope, ids, LONG, Q } from "./context.cases.ts";
import { queueOf } from "./harness.cases.ts";

/** What entries say, and what becomes of those that cannot be read. */
export function entryCases(c: CaseContext): void {
  describe("entries", () => {
    it("A-30 of all three kinds are read", async () => {
      await c.begin();
      for (const [at, kind] of ["plain", "redis", "pubsub"].entries()) {
        const deadline = c.inSeconds(600 + at);
        await c.harness.inject("q", envelope({}, { id: kind, deadline }, kind), deadline);
      }
      const claims = await c.claim(5);
      expect(claims.map(({ message }) => message.kind)).toEqual(["plain", "redis", "pubsub"]);
    });

    it("A-30 A-50 that cannot be read become dead letters; owners are told, and the rest goes on", async () => {
      await c.begin();
      const soon = c.inSeconds(60);
      const bad = [
        "no json",
        JSON.stringify({ internal: { result_queue_name: "owner" }, data: { id: "kindless", deadline: soon } }),
        envelope({}, { id: "odd", deadline: soon }, "carrier-pigeon"),
        envelope({}, { id: "late", deadline: "tomorrow" }),
        "null",
      ];
      for (const [at, entry] of bad.entries()) await c.harness.inject("q", entry, soon + at);
      await c.submit("good");
      const got: Claim[] = [];
      await c.harness.until("the good one comes", 1000, async () => {
        got.push(...(await c.claim(2)));
        return got.length > 0;
      });
      expect(ids(got)).toEqual(["good"]);
      expect((await c.dead()).map(({ entry }) => entry).sort()).toEqual([...bad].sort());
      for (const { reason, at } of await c.dead()) {
        expect(reason).not.toBe("");
        expect(Math.abs(at - (await c.harness.now()))).toBeLessThan(60_000);
      }
      expect(await c.results("owner")).toMatchObject([{ id: "kindless", errorCode: "INVALID_REQUEST" }]);
      expect((await c.results()).map(({ id }) => id).sort()).toEqual(["late", "odd"]);
      expect(c.events.dead).toHaveLength(5);
      expect(await c.broker.backlog(Q)).toMatchObject({ waiting: 0, claimed: 1, dead: 5 });
    });

    it("A-50 that cannot be read cost nothing, and let no more of the others through than were wanted", async () => {
      await c.begin();
      const late = c.inSeconds(-100);
      const soon = c.inSeconds(60);
      for (const id of ["x", "y", "z"]) await c.harness.inject("q", envelope({}, { id, deadline: late }), late);
      for (let at = 0; at < 3; at++) {
        await c.harness.inject("q", `garbage ${at}`, late);
        await c.harness.inject("q", `rubbish ${at}`, soon);
      }
      for (const id of ["a", "b", "d"]) await c.submit(id);
      const claims = (await c.broker.claim(Q, { max: 2, expired: 1 })).claims;
      expect(ids(claims).filter((id) => "xyz".includes(id)).length).toBeLessThanOrEqual(1);
      expect(ids(claims).filter((id) => "abd".includes(id)).length).toBeLessThanOrEqual(2);
      await c.harness.until("all are claimed", 1000, async () => {
        await c.broker.claim(Q, { max: 10, expired: 10 });
        return (await c.broker.backlog(Q)).waiting === 0;
      });
      expect(await c.broker.backlog(Q)).toMatchObject({ claimed: 6, dead: 6 });
    });

    it("A-35 a spoofed queue id and queue name mean nothing; labels count, and the queue's own win", async () => {
      await c.begin(LONG, [queueOf("q", { id: "mine", labels: { team: "a" } })]);
      const internal = { queue_id: "theirs", request_queue_name: "theirs", labels: { tier: "gold", team: "b" } };
      const deadline = c.inSeconds(600);
      await c.harness.inject("q", envelope(internal, { id: "a", deadline }), deadline);
      const queue = queueOf("q", { id: "mine", labels: { team: "a" } });
      const [a] = await c.claim(1, c.broker, queue);
      expect(a!.message.routing).toMatchObject({ queueId: "mine", requestQueueName: "q" });
      expect(a!.message.routing.labels).toEqual({ tier: "gold", team: "a" });
      expect(a!.queue).toBe(queue);
    });

    it("A-35 trust_message_labels false: only the queue's own labels are left", async () => {
      const queue = queueOf("q", { labels: { team: "a" }, trustMessageLabels: false });
      await c.begin(LONG, [queue]);
      await c.submit("a", 600, { labels: { classification: "reserved", tier: "gold" } });
      expect((await c.claim(1, c.broker, queue))[0]!.message.routing.labels).toEqual({ team: "a" });
    });

    it("A-52 results go where the queue says, else where the message says, else to the common queue", async () => {
      const routed = queueOf("routed", { resultQueueName: "of-queue" });
      await c.begin(LONG, [Q, routed]);
      const deadline = c.inSeconds(600);
      const named = { result_queue_name: "of-message" };
      await c.harness.inject("routed", envelope(named, { id: "1", deadline }), deadline);
      await c.harness.inject("q", envelope(named, { id: "2", deadline }), deadline);
      await c.harness.inject("q", envelope({}, { id: "3", deadline, result_queue_name: "in-data" }), deadline + 1);
      const claims = [...(await c.claim(5, c.broker, routed)), ...(await c.claim(5))];
      expect(await c.broker.settle(claims.map(answered))).toEqual(["settled", "settled", "settled"]);
      expect((await c.results("of-queue")).map(({ id }) => id)).toEqual(["1"]);
      expect((await c.results("of-message")).map(({ id }) => id)).toEqual(["2"]);
      expect((await c.results()).map(({ id }) => id)).toEqual(["3"]);
      expect(await c.results("in-data")).toEqual([]);
    });
  });
}
