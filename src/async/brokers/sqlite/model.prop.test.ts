import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { queueOf } from "../../../../test/support/brokers/broker.cases.ts";
import { MemoryBroker } from "../../../../test/support/brokers/memory/broker.ts";
import { MemoryInspector } from "../../../../test/support/brokers/memory/inspector.ts";
import { MemoryProducer } from "../../../../test/support/brokers/memory/producer.ts";
import { MemoryStore } from "../../../../test/support/brokers/memory/store.ts";
import { CaseFolder, NO_EVENTS } from "../../../../test/support/brokers/sqlite/fixture.cases.ts";
import { fixedLimit } from "../../../../test/support/slowness.ts";
import type { Broker, Claim, Settlement } from "../broker.ts";
import { errorResult } from "../messages/result.ts";
import type { Producer, QueueInspector } from "../queue-client.ts";
import { sqliteBroker } from "./broker.ts";
import { sqliteProducer } from "./producer.ts";
import { SqliteInspector } from "./queue-client.ts";

/** One implementation: two brokers on one store, and what was ever claimed, in order. */
interface Side {
  readonly brokers: readonly Broker[];
  readonly producer: Producer;
  readonly inspector: QueueInspector;
  readonly claims: Claim[];
}

const Q = queueOf("q");
const IDS = ["a", "b", "c", "d"];

type Step =
  | { readonly do: "submit"; readonly id: string; readonly seconds: number }
  | { readonly do: "cancel"; readonly id: string }
  | { readonly do: "claim"; readonly by: number; readonly max: number; readonly expired: number }
  | { readonly do: "settle"; readonly by: number; readonly which: readonly number[]; readonly kind: Settlement["kind"] }
  | { readonly do: "renew"; readonly by: number; readonly which: number }
  | { readonly do: "moveDue" | "reclaim"; readonly by: number }
  | { readonly do: "requeueDead" }
  | { readonly do: "result" }
  | { readonly do: "pass"; readonly ms: number };

const id = fc.constantFrom(...IDS);
const by = fc.nat(1);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant("submit" as const), id, seconds: fc.integer({ min: 1, max: 20 }) }),
  },
  fc.record({ do: fc.constant("cancel" as const), id }),
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant("claim" as const), by, max: fc.nat(3), expired: fc.nat(2) }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant("settle" as const),
      by,
      which: fc.array(fc.nat(20), { minLength: 1, maxLength: 3 }),
      kind: fc.constantFrom<Settlement["kind"]>("result", "retry", "refuse", "dead"),
    }),
  },
  fc.record({ do: fc.constant("renew" as const), by, which: fc.nat(20) }),
  { weight: 4, arbitrary: fc.record({ do: fc.constantFrom("moveDue" as const, "reclaim" as const), by }) },
  fc.record({ do: fc.constant("requeueDead" as const) }),
  fc.record({ do: fc.constant("result" as const) }),
  { weight: 3, arbitrary: fc.record({ do: fc.constant("pass" as const), ms: fc.integer({ min: 1, max: 3000 }) }) },
);

/** Does one step. @returns all that a user of this implementation sees of it */
async function run(side: Side, each: Step, folder: CaseFolder): Promise<unknown> {
  const now = folder.clock.wall() / 1000;
  switch (each.do) {
    case "submit":
      return side.producer.submitRequest({ id: each.id, deadline: folder.inSeconds(each.seconds), payload: { n: 1 } });
    case "cancel":
      return side.producer.cancelRequests([each.id]);
    case "claim": {
      const { claims, waiting } = await side.brokers[each.by]!.claim(Q, each);
      side.claims.push(...claims);
      const { routing: _, ...rest } = claims[0]?.message ?? { routing: undefined };
      const seen = claims.map(({ message, cancelled, publishedAt }) => ({
        id: message.request.id,
        deadline: message.request.deadline,
        cancelled,
        publishedAt,
        retryCount: message.routing.retryCount,
        lostLeases: message.routing.lostLeases,
        labels: message.routing.labels,
      }));
      return { seen, waiting, text: rest };
    }
    case "settle": {
      const settlements = each.which.flatMap((index): Settlement[] => {
        const claim = side.claims[index % side.claims.length];
        if (claim === undefined) return [];
        const result = errorResult(claim.message.request.id, "INFERENCE_ERROR", each.kind);
        const labels = { kind: each.kind };
        if (each.kind === "result") return [{ kind: "result", claim, result }];
        if (each.kind === "dead") return [{ kind: "dead", claim, reason: "dead", result }];
        if (each.kind === "refuse") return [{ kind: "refuse", claim, labels }];
        const retryCount = claim.message.routing.retryCount + 1;
        return [{ kind: "retry", claim, due: now + 0.5 * retryCount, retryCount, labels }];
      });
      return side.brokers[each.by]!.settle(settlements);
    }
    case "renew": {
      const claim = side.claims[each.which];
      return claim === undefined ? 0 : (await side.brokers[each.by]!.renew([claim])).length;
    }
    case "moveDue":
      return side.brokers[each.by]!.moveDue();
    case "reclaim":
      return side.brokers[each.by]!.reclaim(new Set());
    case "requeueDead":
      return side.inspector.requeueDead("q", 1);
    case "result":
      return (await side.producer.resultQueueDepth()) === 0 ? undefined : side.producer.getResult();
    case "pass":
      return undefined;
  }
}

describe("the SQLite broker against the one in memory", () => {
  it("does the same in every order of events", { timeout: fixedLimit(60_000) }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 80 }), async (steps) => {
        const folder = new CaseFolder();
        const settings = folder.settings({ claimTtl: 2000, maxAttempts: 3 });
        const names = { requestQueueName: "q", resultQueueName: "results" };
        const store = new MemoryStore(folder.clock);
        const inspector = new SqliteInspector(folder.path, folder);
        const sides: readonly Side[] = [
          {
            brokers: [new MemoryBroker(settings, store), new MemoryBroker(settings, store)],
            producer: new MemoryProducer(names, store, folder.random),
            inspector: new MemoryInspector(store),
            claims: [],
          },
          {
            brokers: [sqliteBroker(settings, folder), sqliteBroker(settings, folder)],
            producer: sqliteProducer({ path: folder.path, ...names }, folder),
            inspector,
            claims: [],
          },
        ];
        for (const { brokers } of sides) for (const broker of brokers) broker.start(NO_EVENTS);
        try {
          for (const each of steps) {
            if (each.do === "pass") folder.clock.advance(each.ms);
            const [memory, sqlite] = [await run(sides[0]!, each, folder), await run(sides[1]!, each, folder)];
            expect(sqlite).toEqual(memory);
            const backlogs = await Promise.all(sides.map(({ brokers }) => brokers[0]!.backlog(Q)));
            expect(backlogs[1]).toEqual(backlogs[0]);
          }
        } finally {
          for (const { brokers, producer } of sides) {
            for (const broker of brokers) await broker.close();
            await producer.close();
          }
          inspector.close();
          folder.remove();
        }
      }),
      { numRuns: 40 },
    );
  });
});
