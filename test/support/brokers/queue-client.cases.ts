import { afterEach, describe, expect, it } from "vitest";
import type { Broker, Claim } from "../../../src/async/brokers/broker.ts";
import type { QueueClient, QueueEntry } from "../../../src/async/brokers/queue-client.ts";
import { queueOf } from "./broker.cases.ts";
import { ok } from "./cases/context.cases.ts";

/** A client, and a broker on the same empty store. */
export interface ClientHarness {
  readonly client: QueueClient;
  /** Started. */
  readonly broker: Broker;
  injectResult(queueName: string, entry: string): Promise<void>;
  close(): Promise<void>;
}

/** The cases that every queue client passes. @param make a harness whose broker has the queue `q` */
export function queueClientCases(name: string, make: () => Promise<ClientHarness>): void {
  describe(`queue client cases: ${name}`, () => {
    let harness: ClientHarness;
    afterEach(() => harness.close());

    it("results stay until they are removed, the oldest first", async () => {
      harness = await make();
      const inbox = harness.client.inbox("r");
      expect(await inbox.read(10)).toEqual([]);
      await inbox.remove();
      for (const text of ["a", "b", "c"]) await harness.injectResult("r", text);
      await harness.injectResult("other", "x");
      expect(await inbox.read(2)).toEqual(["a", "b"]);
      expect(await harness.client.inbox("r").read(10)).toEqual(["a", "b", "c"]);
      await harness.injectResult("r", "d");
      await inbox.remove();
      await inbox.remove();
      expect(await inbox.read(10)).toEqual(["c", "d"]);
      expect(await harness.client.resultDepth("r")).toBe(2);
      await inbox.remove();
      expect(await harness.client.resultDepth("r")).toBe(0);
      expect(await harness.client.resultDepth("other")).toBe(1);
    });

    it("large results come in portions, one at least", async () => {
      harness = await make();
      const large = "x".repeat(3 * 1024 * 1024);
      for (let at = 0; at < 3; at++) await harness.injectResult("r", `${at}${large}`);
      const inbox = harness.client.inbox("r");
      expect(await inbox.read(10)).toHaveLength(2);
      await inbox.remove();
      expect((await inbox.read(10)).map((text) => text[0])).toEqual(["2"]);
    });

    it("knows which requests are on their way: queued, claimed or parked, not ended", async () => {
      harness = await make();
      const { client, broker } = harness;
      const producer = await client.producer("q", "r");
      const deadline = 4_000_000_000;
      await producer.submitRequests(["a", "b", "c", "d"].map((id) => ({ id, deadline, payload: {} })));
      const { claims } = await broker.claim(queueOf("q"), { max: 3, expired: 0 });
      const by = (id: string): Claim => claims.find(({ message }) => message.request.id === id)!;
      await broker.settle([
        { kind: "result", claim: by("a"), result: ok("a") },
        { kind: "retry", claim: by("b"), due: deadline - 1, retryCount: 1, labels: {} },
      ]);
      expect(await client.outstanding(["d", "c", "b", "a", "never"])).toEqual([true, true, true, false, false]);
      expect(await client.outstanding([])).toEqual([]);
      expect(await client.backlog("q")).toMatchObject({ waiting: 1, claimed: 1, retries: 1, nextDeadline: deadline });
      expect(await client.inbox("r").read(5)).toHaveLength(1);
      await producer.close();
    });

    /** A claim whose lease runs, one parked, one waiting; the entries as they were at first. */
    async function heldMessages(): Promise<{ entries: readonly QueueEntry[]; claim: Claim }> {
      const { client, broker } = harness;
      const producer = await client.producer("q", "r");
      const deadline = 4_000_000_000;
      await producer.submitRequests(["a", "b", "c"].map((id, i) => ({ id, deadline: deadline + i, payload: { id } })));
      const entries = await client.inspector.peek("q", 10);
      const { claims } = await broker.claim(queueOf("q"), { max: 2, expired: 0 });
      const [claim, other] = claims as [Claim, Claim];
      await broker.settle([{ kind: "retry", claim: other, due: deadline - 1, retryCount: 1, labels: {} }]);
      await producer.close();
      return { entries, claim };
    }

    it("leaves a message under its lease where it is, and tells how long", async () => {
      harness = await make();
      const { releaser, inspector } = harness.client;
      expect(await releaser.held("q")).toEqual({
        claimed: 0,
        lastLease: Number.NEGATIVE_INFINITY,
        leaseLeft: 0,
      });
      await heldMessages();
      const { claimed, lastLease, leaseLeft } = await releaser.held("q");
      expect(claimed).toBe(1);
      expect(leaseLeft).toBeGreaterThan(0);
      expect(lastLease).toBeGreaterThanOrEqual(leaseLeft);
      expect(await releaser.release("q", false)).toBe(0);
      expect(await inspector.peek("q", 10)).toHaveLength(1);
    });

    it("puts claimed messages back as they were, and whoever held one cannot answer it any more", async () => {
      harness = await make();
      const { client, broker } = harness;
      const { entries, claim } = await heldMessages();
      expect(await client.releaser.release("q", true)).toBe(1);
      expect(await client.inspector.peek("q", 10)).toEqual([entries[0], entries[2]]);
      expect(await client.releaser.held("q")).toMatchObject({ claimed: 0, leaseLeft: 0 });
      expect(await broker.settle([{ kind: "result", claim, result: ok("a") }])).toEqual(["fenced"]);
      expect(await client.resultDepth("r")).toBe(0);
      expect(await client.releaser.release("q", true)).toBe(0);
    });

    it("puts retries back before they are due, at the place of their deadline", async () => {
      harness = await make();
      const { client } = harness;
      await heldMessages();
      expect(await client.releaser.unpark("q")).toBe(1);
      expect(await client.backlog("q")).toMatchObject({ waiting: 2, claimed: 1, retries: 0 });
      const places = (await client.inspector.peek("q", 10)).map(({ entry, score }) => [
        JSON.parse(entry).data.id,
        score,
      ]);
      expect(places).toEqual([
        ["b", 4_000_000_001],
        ["c", 4_000_000_002],
      ]);
      expect(await client.releaser.unpark("q")).toBe(0);
      expect(await client.releaser.unpark("other")).toBe(0);
    });
  });
}
