import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FakeCollection, refusal, type Thing } from "../../../test/support/kubernetes/fake-api.cases.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import type { ObjectKey } from "./reflected.ts";
import { Reflector } from "./reflector.ts";

type Step =
  | { readonly do: "put"; readonly name: string; readonly data: string }
  | { readonly do: "delete"; readonly name: string }
  | { readonly do: "fail"; readonly status: number; readonly times: number }
  | { readonly do: "told"; readonly code: number }
  | { readonly do: "wait"; readonly ms: number }
  | { readonly do: "mute"; readonly on: boolean }
  | { readonly do: "bookmark" | "compact" | "end" | "cut" | "garbage" };

const name = fc.constantFrom("a", "b", "c", "d", "e", "f", "g");
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("put" as const),
      name,
      data: fc.constantFrom("x", "y", "hidden", "broken"),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("delete" as const), name }) },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant("wait" as const), ms: fc.constantFrom(0, 1, 100, 1500, 40_000, 600_000) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("fail" as const),
      status: fc.constantFrom(0, 401, 403, 404, 410, 429, 500, 503),
      times: fc.integer({ min: 1, max: 4 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("told" as const), code: fc.constantFrom(410, 500) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("mute" as const), on: fc.boolean() }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constantFrom("bookmark" as const, "compact" as const, "end" as const, "cut" as const, "garbage" as const),
    }),
  },
);

/** What a sink that follows every call holds. */
class Mirror {
  readonly held = new Map<string, Thing>();
  calls = 0;
  readonly #newest = new Map<string, number>();

  replace(items: readonly Thing[]): void {
    this.calls++;
    this.held.clear();
    for (const item of items) this.#take(item);
  }

  put(item: Thing): void {
    this.calls++;
    this.#take(item);
  }

  remove({ name: gone }: ObjectKey): void {
    this.calls++;
    this.held.delete(gone);
  }

  #take(item: Thing): void {
    const { name: of, resourceVersion } = item.metadata;
    if (Number(resourceVersion) < (this.#newest.get(of) ?? 0)) throw new Error(`${of} went back in time`);
    this.#newest.set(of, Number(resourceVersion));
    this.held.set(of, item);
  }
}

describe("Reflector", () => {
  it("R-30: whatever pages, changes, expired versions, errors, silences and cuts come, in the end it holds exactly the server's objects", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 40 }),
        fc.integer(),
        fc.boolean(),
        fc.boolean(),
        async (steps, seed, optional, expiredByEvent) => {
          const clock = new VirtualClock();
          const api = new FakeCollection();
          api.expiredByEvent = expiredByEvent;
          const sink = new Mirror();
          const reflector = new Reflector<Thing>({
            api,
            type: { group: "test.io", version: "v1", plural: "things", kind: "Thing" },
            namespace: "ml",
            project: (object) => {
              const thing = object as Thing;
              if (thing.data === "broken") throw new Error("broken");
              return thing.data === "hidden" ? undefined : thing;
            },
            keyOf: ({ metadata }) => metadata,
            sink,
            optional,
            clock,
            random: new SeededRandom(seed),
            log: silentLogger,
            tuning: { pageSize: 3 },
          });
          reflector.start();
          for (const each of steps) {
            if (each.do === "put") api.put(each.name, each.data);
            else if (each.do === "delete") api.delete(each.name);
            else if (each.do === "fail") for (let i = 0; i < each.times; i++) api.failures.push(refusal(each.status));
            else if (each.do === "told") api.error(each.code, each.code === 410 ? "Expired" : "InternalError");
            else if (each.do === "wait") await clock.advanceAsync(each.ms);
            else if (each.do === "mute") api.setMute(each.on);
            else if (each.do === "bookmark") api.bookmark();
            else if (each.do === "compact") api.compact();
            else if (each.do === "end") api.endWatches();
            else if (each.do === "cut") api.cutWatches();
            else api.raw('{"type":"ADDED","object":{');
          }
          api.setMute(false);
          api.failures.length = 0;
          api.cutWatches();
          await clock.advanceAsync(200_000);
          const served = api.things.filter(({ data }) => data === "x" || data === "y");
          const byName = (things: Iterable<Thing>) =>
            [...things].sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
          expect(byName(sink.held.values())).toEqual(byName(served));
          expect(reflector.state).toMatchObject({
            synced: true,
            absent: false,
            problem: "",
            objects: api.things.length,
          });
          expect(api.watching).toBe(1);

          reflector.close();
          const { calls } = sink;
          api.put("late", "x");
          await clock.advanceAsync(1_000_000);
          expect(sink.calls).toBe(calls);
          expect(api.watching).toBe(0);
        },
      ),
      { numRuns: 300 },
    );
  });
});
