import { describe, expect, it } from "vitest";
import type { Claim, Settlement } from "../../../../src/async/brokers/broker.ts";
import { errorResult } from "../../../../src/async/brokers/messages/result.ts";
import { answered, type CaseContext, envelope, ids, ok, Q, refused } from "./context.cases.ts";

/** Claiming, settling, refusing, and what has expired. */
export function claimCases(c: CaseContext): void {
  describe("claim and settle", () => {
    it("A-42 the earliest deadline goes first, whatever the order of submission", async () => {
      await c.begin();
      await c.submit("late", 900);
      await c.submit("early", 300);
      await c.submit("middle", 600);
      expect(ids(await c.claim(1))).toEqual(["early"]);
      expect(ids(await c.claim(5))).toEqual(["middle", "late"]);
    });

    it("a claimed message is nobody else's, and its result stands in the result queue once", async () => {
      await c.begin();
      await c.submit("a");
      const [mine] = await c.claim(5);
      expect(await c.claim(5, c.startPeer())).toEqual([]);
      expect(await c.broker.settle([answered(mine!)])).toEqual(["settled"]);
      expect(await c.results()).toMatchObject([{ id: "a", statusCode: 200 }]);
      expect(await c.broker.backlog(Q)).toMatchObject({ waiting: 0, claimed: 0, retries: 0 });
    });

    it("brokers that claim at the same time share the messages out: each exactly once", async () => {
      await c.begin();
      await c.producer.submitRequests(Array.from({ length: 100 }, (_, at) => c.request(`m${at}`)));
      const brokers = [c.broker, c.startPeer(), c.startPeer()];
      const got: string[] = [];
      for (let more = true; more; ) {
        const rounds = await Promise.all(brokers.map((each) => c.claim(7, each)));
        more = rounds.some((claims) => claims.length > 0);
        got.push(...rounds.flatMap(ids));
      }
      expect(got).toHaveLength(100);
      expect(new Set(got).size).toBe(100);
    });

    it("claims no more than wanted and says how many wait", async () => {
      await c.begin();
      for (const id of ["a", "b", "c"]) await c.submit(id);
      const none = await c.broker.claim(Q, { max: 0, expired: 0 });
      expect(none.claims).toEqual([]);
      const first = await c.broker.claim(Q, { max: 2, expired: 0 });
      expect(first.claims).toHaveLength(2);
      if (!Number.isNaN(first.waiting)) expect(first.waiting).toBe(1);
      expect(Math.abs(first.time - (await c.harness.now()))).toBeLessThan(60_000);
      expect(new Set(first.claims.map(({ id }) => id)).size).toBe(2);
    });

    it("A-32 hands out the payload's own bytes, also after a retry and a refusal", async () => {
      await c.begin();
      const payload = '{"z":12345678901234567890,"a":1.0,"t":"<&\\/\\u00e9é"}';
      await c.submit("a", 600, { payload });
      const [first] = await c.claim(1);
      expect(Buffer.from(first!.message.request.payload!).toString()).toBe(payload);
      await c.broker.settle([refused(first!)]);
      const [second] = await c.claim(1);
      await c.broker.settle([await c.retried(second!, -1)]);
      await c.broker.moveDue();
      const [third] = await c.claim(1);
      expect(Buffer.from(third!.message.request.payload!).toString()).toBe(payload);
    });

    it("settles many at once, each its own way, with an outcome for each in order", async () => {
      await c.begin();
      for (const id of ["a", "b", "c", "d", "e"]) await c.submit(id);
      const claims = await c.claim(5);
      const by = (id: string): Claim => claims.find(({ message }) => message.request.id === id)!;
      expect(await c.broker.settle([answered(by("e"))])).toEqual(["settled"]);
      const outcomes = await c.broker.settle([
        answered(by("a")),
        await c.retried(by("b"), 60),
        answered(by("e")),
        refused(by("c")),
        { kind: "dead", claim: by("d"), reason: "no good", result: errorResult("d", "INVALID_REQUEST", "no good") },
      ]);
      expect(outcomes.map((outcome, at) => (at === 2 ? "again" : outcome))).toEqual([
        "settled",
        "settled",
        "again",
        "settled",
        "settled",
      ]);
      expect(["settled", "fenced"]).toContain(outcomes[2]);
      expect((await c.results()).map(({ id }) => id)).toEqual(["e", "a", "d"]);
      expect(await c.dead()).toMatchObject([{ reason: "no good" }]);
      expect(await c.broker.backlog(Q)).toMatchObject({ waiting: 1, claimed: 0, retries: 1, dead: 1 });
    });

    it("an empty settlement is nothing", async () => {
      await c.begin();
      expect(await c.broker.settle([])).toEqual([]);
      expect(await c.broker.renew([])).toEqual([]);
      expect(await c.broker.cancelled([])).toEqual([]);
    });

    it("repeating a settlement writes nothing a second time", async () => {
      await c.begin();
      for (const id of ["a", "b", "c", "d"]) await c.submit(id);
      const claims = await c.claim(4);
      const settlements: Settlement[] = [
        answered(claims[0]!),
        await c.retried(claims[1]!, 60),
        refused(claims[2]!),
        { kind: "dead", claim: claims[3]!, reason: "no", result: ok("d") },
      ];
      await c.broker.settle(settlements);
      for (const outcome of await c.broker.settle(settlements)) expect(["settled", "fenced"]).toContain(outcome);
      expect(await c.results()).toHaveLength(2);
      expect(await c.broker.backlog(Q)).toMatchObject({ waiting: 1, claimed: 0, retries: 1, dead: 1 });
    });
  });

  describe("expired messages", () => {
    it("A-48 come besides, also when nothing else is wanted, and only as many as asked for", async () => {
      await c.begin();
      for (const [at, id] of ["x", "y", "z"].entries()) {
        const deadline = c.inSeconds(-100 + at);
        await c.harness.inject("q", envelope({}, { id, deadline }), deadline);
      }
      await c.submit("live");
      const { claims } = await c.broker.claim(Q, { max: 0, expired: 2 });
      expect(ids(claims)).toEqual(["x", "y"]);
      expect(claims[0]!.message.request.deadline).toBeLessThan((await c.harness.now()) / 1000);
    });

    it("A-49 do not stand in the way of those that are not", async () => {
      await c.begin();
      const deadline = c.inSeconds(-100);
      for (let at = 0; at < 50; at++) await c.harness.inject("q", envelope({}, { id: `x${at}`, deadline }), deadline);
      await c.submit("a");
      await c.submit("b");
      const { claims } = await c.broker.claim(Q, { max: 2, expired: 10 });
      expect(ids(claims).filter((id) => id.startsWith("x"))).toHaveLength(10);
      expect(ids(claims).slice(-2).sort()).toEqual(["a", "b"]);
      expect(ids((await c.broker.claim(Q, { max: 2, expired: 1000 })).claims)).toHaveLength(40);
    });
  });

  describe("refuse", () => {
    it("A-51 puts a message back exactly where it was", async () => {
      await c.begin();
      await c.submit("b", 600);
      await c.harness.inject("q", envelope({}, { id: "raw", deadline: c.inSeconds(900) }), c.inSeconds(30));
      await c.submit("c", 700);
      expect(ids(await c.claim(1))).toEqual(["raw"]);
      const both = await c.claim(2);
      expect(ids(both)).toEqual(["b", "c"]);
      await c.broker.settle(both.toReversed().map(refused));
      expect(ids(await c.claim(2))).toEqual(["b", "c"]);
    });

    it("A-51 keeps a score that is not the deadline", async () => {
      await c.begin();
      const score = c.inSeconds(30);
      await c.harness.inject("q", envelope({}, { id: "raw", deadline: c.inSeconds(900) }), score);
      await c.submit("a", 300);
      await c.broker.settle((await c.claim(1)).map(refused));
      expect((await c.harness.inspector.peek("q", 10)).map((entry) => entry.score)).toEqual([score, c.inSeconds(300)]);
    });

    it("keeps the labels that gates have set", async () => {
      await c.begin();
      await c.submit("a", 600, { labels: { tier: "gold" } });
      const [a] = await c.claim(1);
      await c.broker.settle([{ kind: "refuse", claim: a!, labels: { tier: "gold", classification: "spot" } }]);
      expect((await c.claim(1))[0]!.message.routing.labels).toEqual({ tier: "gold", classification: "spot" });
    });

    it("announces nothing to the one that refused: that would be a loop", async () => {
      await c.begin();
      await c.submit("a");
      await c.harness.until("announced", 2000, () => c.events.availableIn.length > 0);
      const [a] = await c.claim(1);
      const before = c.events.availableIn.length;
      await c.broker.settle([refused(a!)]);
      await c.broker.backlog(Q);
      expect(c.events.availableIn.length).toBe(before);
    });
  });
}
