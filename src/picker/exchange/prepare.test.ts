import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import { Unprepared } from "../scheduling/unprepared.ts";
import { Preparation, type Preparer, type Preparing } from "./prepare.ts";

const REQUEST = { id: "r" } as InferenceRequest;

type Prepare = NonNullable<Preparer["plugin"]["prepare"]>;

function preparer(name: string, prepare: Prepare, prepareBudget?: number): Preparer {
  return {
    name,
    type: "test-producer",
    plugin: prepareBudget === undefined ? { prepare } : { prepare, prepareBudget },
  };
}

/** Answers `value` after `ms`, whether or not somebody still waits. */
function slow(clock: VirtualClock, ms: number, value: unknown): Prepare {
  return () => new Promise((resolve) => clock.after(ms, () => resolve(value)));
}

function setUp(limit?: number) {
  const clock = new VirtualClock();
  const failures: string[] = [];
  const inForce: { preparers: readonly Preparer[] } = { preparers: [] };
  const all = new Preparation({
    clock,
    preparers: () => inForce.preparers,
    ...(limit === undefined ? {} : { limit }),
    onFailed: ({ name }, error) => failures.push(`${name}: ${(error as Error).message}`),
  });
  const preparation = {
    begin(request: InferenceRequest, preparers: readonly Preparer[]) {
      inForce.preparers = preparers;
      return all.begin(request);
    },
    get underWay() {
      return all.underWay;
    },
  };
  return { clock, failures, preparation, inForce };
}

/** What a preparation has come to so far. */
function watch(preparing: Preparing | undefined) {
  const seen: { done: boolean; entries: unknown } = { done: false, entries: undefined };
  preparing!.prepared.then((prepared) => {
    seen.done = true;
    seen.entries =
      prepared &&
      Object.fromEntries(
        [...prepared].map(([name, value]) => [name, value instanceof Unprepared ? value.reason : value]),
      );
  });
  return seen;
}

describe("the preparation of requests", () => {
  it("is nothing at all when no producer prepares", () => {
    const { preparation, clock } = setUp();
    expect(preparation.begin(REQUEST, [])).toBeUndefined();
    expect(preparation.underWay).toBe(0);
    expect(clock.pending).toBe(0);
  });

  it("S-43: a producer that is slower than 400 ms is reported and left out; the request goes on then", async () => {
    const { clock, failures, preparation } = setUp();
    let signal: AbortSignal | undefined;
    const stuck = preparer("stuck", (_request, given) => {
      signal = given;
      return new Promise(() => {});
    });
    const seen = watch(preparation.begin(REQUEST, [stuck, preparer("quick", slow(clock, 10, "found"))]));
    await clock.advanceAsync(399);
    expect(seen.done).toBe(false);
    expect(signal!.aborted).toBe(false);
    await clock.advanceAsync(1);
    expect(seen).toEqual({ done: true, entries: { quick: "found", stuck: "late" } });
    expect(signal!.aborted).toBe(true);
    expect(failures).toEqual(["stuck: stuck gave no data within its limit of 400 ms"]);
  });

  it("S-43: each producer has its own budget, and all run at the same time", async () => {
    const { clock, failures, preparation } = setUp();
    const seen = watch(
      preparation.begin(REQUEST, [
        preparer("short", slow(clock, 200, 1), 100),
        preparer("long", slow(clock, 900, 2), 1000),
        preparer("usual", slow(clock, 390, 3)),
      ]),
    );
    await clock.advanceAsync(899);
    expect(seen.done).toBe(false);
    expect(failures).toEqual(["short: short gave no data within its limit of 100 ms"]);
    await clock.advanceAsync(1);
    expect(seen).toEqual({ done: true, entries: { long: 2, usual: 3, short: "late" } });
    expect(failures).toHaveLength(1);
    expect(clock.pending).toBe(0);
  });

  it("a producer that throws, rejects or finds nothing is left out; only failures are reported", async () => {
    const { clock, failures, preparation } = setUp();
    const seen = watch(
      preparation.begin(REQUEST, [
        preparer("throws", () => {
          throw new Error("at once");
        }),
        preparer("rejects", () => Promise.reject(new Error("later"))),
        preparer("nothing", () => Promise.resolve(undefined)),
        preparer("falsy", () => Promise.resolve(0)),
      ]),
    );
    await clock.advanceAsync(0);
    expect(seen).toEqual({ done: true, entries: { falsy: 0, rejects: "failed", throws: "failed" } });
    expect(failures.sort()).toEqual(["rejects: later", "throws: at once"]);
    expect(preparation.underWay).toBe(0);
  });

  it("when the request is over all are told, nothing is reported and no timer stays", async () => {
    const { clock, failures, preparation } = setUp();
    const reasons: unknown[] = [];
    const heeding: Prepare = (_request, signal) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener("abort", () => {
          reasons.push(signal.reason.code);
          reject(signal.reason);
        });
      });
    const preparing = preparation.begin(REQUEST, [
      preparer("a", heeding),
      preparer("b", heeding, 5_000),
      preparer("done", () => Promise.resolve(1)),
    ]);
    const seen = watch(preparing);
    await clock.advanceAsync(100);
    preparing!.abort();
    preparing!.abort();
    await clock.advanceAsync(0);
    expect(seen).toEqual({ done: true, entries: undefined });
    expect(reasons).toEqual(["PREPARE_ABORTED", "PREPARE_ABORTED"]);
    expect(failures).toEqual([]);
    expect(clock.pending).toBe(0);
    expect(preparation.underWay).toBe(0);
  });

  it("beyond its limit requests go on unprepared, and that is reported; one that hangs on keeps its place", async () => {
    const { clock, failures, preparation } = setUp(2);
    const deaf = preparer("deaf", slow(clock, 1000, 1), 100);
    const quick = preparer("quick", slow(clock, 50, 1));
    expect(preparation.begin(REQUEST, [deaf])).toBeDefined();
    expect(preparation.begin(REQUEST, [quick])).toBeDefined();
    const beyond = watch(preparation.begin(REQUEST, [quick]));
    expect(failures).toEqual(["quick: 2 requests already wait for producers"]);
    await clock.advanceAsync(50);
    expect(beyond).toEqual({ done: true, entries: { quick: "limit" } });
    expect(preparation.underWay).toBe(1);
    await clock.advanceAsync(500);
    // Given up long ago, but it still holds the request.
    expect(preparation.underWay).toBe(1);
    await clock.advanceAsync(500);
    expect(preparation.underWay).toBe(0);
  });

  it("its limit is 4,096 requests", async () => {
    const { clock, preparation } = setUp();
    const waiting = preparer("waiting", slow(clock, 50, 1));
    for (let i = 0; i < 4096; i++) expect(preparation.begin(REQUEST, [waiting])).toBeDefined();
    const beyond = watch(preparation.begin(REQUEST, [waiting]));
    await clock.advanceAsync(0);
    expect(beyond).toEqual({ done: true, entries: { waiting: "limit" } });
  });

  it("what the plugins of a former configuration prepared is not used, unless they go on in the new one", async () => {
    const { clock, preparation, inForce } = setUp();
    const kept = preparer("kept", slow(clock, 10, 1));
    const changed = preparer("changed", slow(clock, 10, 2));
    const seen = watch(preparation.begin(REQUEST, [kept, changed, preparer("gone", slow(clock, 10, 3))]));
    await clock.advanceAsync(5);
    inForce.preparers = [{ ...kept }, preparer("changed", slow(clock, 10, 4)), preparer("new", slow(clock, 10, 5))];
    await clock.advanceAsync(5);
    expect(seen).toEqual({ done: true, entries: { kept: 1 } });
  });
});
