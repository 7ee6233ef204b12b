import { describe, expect, it } from "vitest";
import { buildDefaultPlan } from "../../../test/support/scheduling/default-profile.ts";
import { endpointOf, requestOf } from "../../../test/support/scheduling/fakes.cases.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { DecisionRecords } from "./records.ts";
import { Scheduler } from "./scheduler.ts";

const pool = Array.from({ length: 10 }, (_, slot) => endpointOf(slot));

function schedulerWith(records: DecisionRecords): Scheduler {
  const clock = new VirtualClock();
  const random = new SeededRandom(1);
  return new Scheduler({ plan: buildDefaultPlan(clock, random), clock, random, records });
}

function decide(scheduler: Scheduler, ...ids: string[]): void {
  for (const id of ids) scheduler.schedule(requestOf("p", { id }), pool, 0);
}

describe("decision records", () => {
  it("keeps the newest 4,096 and finds them by number", () => {
    const records = new DecisionRecords();
    const scheduler = schedulerWith(records);
    for (let i = 1; i <= 5000; i++) decide(scheduler, `r-${i}`);
    expect([records.size, records.nextSequence]).toEqual([4096, 5001]);
    expect(records.bySequence(904)).toBeUndefined();
    expect(records.bySequence(905)?.requestId).toBe("r-905");
    expect(records.bySequence(5000)?.requestId).toBe("r-5000");
    for (const stranger of [0, -1, 5001, 4999.5, Number.NaN]) expect(records.bySequence(stranger)).toBeUndefined();
    expect(records.bytes).toBeLessThanOrEqual(16 << 20);
  });

  it("keeps less when records are large: the estimate never exceeds the bound", () => {
    const records = new DecisionRecords(4096, 100_000);
    const scheduler = schedulerWith(records);
    for (let i = 0; i < 300; i++) decide(scheduler, `${i}-${"x".repeat(i)}`);
    expect(records.bytes).toBeLessThanOrEqual(100_000);
    expect(records.size).toBeGreaterThan(20);
    expect(records.size).toBeLessThan(60);
    expect(records.latest(1)[0]?.sequence).toBe(300);
  });

  it("keeps full records within the same bound, also the one that comes", () => {
    const records = new DecisionRecords(4096, 200_000);
    const scheduler = schedulerWith(records);
    for (let i = 0; i < 200; i++) {
      scheduler.schedule(requestOf("p", { id: `${i}` }), pool, 0, { full: i % 3 === 0 });
      expect(records.bytes).toBeLessThanOrEqual(200_000);
    }
    expect(records.latest(100).some(({ full }) => full !== undefined)).toBe(true);
    const one = new DecisionRecords(1);
    for (let i = 0; i < 3; i++) schedulerWith(one).schedule(requestOf("p"), pool, 0, { full: i !== 1 });
    expect([one.size, one.newest?.full?.endpoints.length]).toEqual([1, 10]);
  });

  it("keeps 256 characters of a fairness ID or a header in full records, too", () => {
    const scheduler = schedulerWith(new DecisionRecords());
    const headers = HeaderList.of([["prefer", "p".repeat(60_000)]]);
    const request = requestOf("p", { fairnessId: "f".repeat(60_000), objective: "o".repeat(60_000), headers });
    scheduler.schedule(request, pool, 0, { full: true });
    const kept = scheduler.records.newest?.full?.request;
    expect([kept?.fairnessId.length, kept?.objective.length, kept?.headers[0]?.[1].length]).toEqual([256, 256, 256]);
  });

  it("keeps 256 characters of what a client chose, and still finds the record by the whole id", () => {
    const records = new DecisionRecords();
    const id = "i".repeat(5000);
    const scheduler = schedulerWith(records);
    scheduler.schedule(requestOf("p", { id, model: "m".repeat(1e6), targetModel: "t".repeat(1e6) }), pool, 0);
    const record = records.byRequestId(id);
    expect([record?.requestId.length, record?.model.length, record?.targetModel.length]).toEqual([256, 256, 256]);
  });

  it("show their own candidates while they are kept, and none once they are dropped", () => {
    const records = new DecisionRecords(3);
    const scheduler = schedulerWith(records);
    const shown: string[] = [];
    records.onRecord((record) => shown.push(JSON.stringify(record)));
    decide(scheduler, "a");
    const first = records.newest!;
    expect(first.top).toHaveLength(8);
    decide(scheduler, "b", "c");
    expect([...records.latest(3)].reverse().map((record) => JSON.stringify(record))).toEqual(shown);
    decide(scheduler, "d");
    expect(first.top).toEqual([]);
    expect([...records.latest(3)].reverse().map((record) => JSON.stringify(record))).toEqual(shown.slice(1));
  });

  it("keep their numbers in little more than the estimate, however many pass", () => {
    const records = new DecisionRecords(100);
    const scheduler = schedulerWith(records);
    for (let i = 0; i < 2000; i++) decide(scheduler, `r-${i}`);
    expect(records.numbers.bytes).toBe(8 * 16_384);
  });

  it("keep an id beyond Latin-1, and one that is part of a longer text", () => {
    const scheduler = schedulerWith(new DecisionRecords());
    const long = `${"x".repeat(3000)}0123456789-0123456789`.slice(3000);
    for (const id of [long, "\u{1f600} is no usual id", "\u00e9\u00ff is an id"]) {
      decide(scheduler, id);
      expect(scheduler.records.newest?.requestId).toBe(id);
      expect(scheduler.records.byRequestId(id)?.requestId).toBe(id);
    }
  });

  it("gives the newest match of a request id, clients may repeat theirs", () => {
    const records = new DecisionRecords(4);
    decide(schedulerWith(records), "a", "b", "a", "c", "d");
    expect(records.byRequestId("a")?.sequence).toBe(3);
    expect(records.byRequestId("b")?.sequence).toBe(2);
    expect(records.byRequestId("z")).toBeUndefined();
    decide(schedulerWith(records), "e", "f");
    expect(records.byRequestId("a")).toBeUndefined();
  });

  it("gives the ids that begin alike, each once, the newest first", () => {
    const records = new DecisionRecords(4);
    decide(schedulerWith(records), "ab-1", "ab-2", "ab-1", "ac-3");
    expect(records.idsBeginning("ab", 10)).toEqual(["ab-1", "ab-2"]);
    expect(records.idsBeginning("ab", 1)).toEqual(["ab-1"]);
    expect(records.idsBeginning("b", 10)).toEqual([]);
  });

  it("lists the newest first, after a number if asked", () => {
    const records = new DecisionRecords(4);
    expect(records.latest(10)).toEqual([]);
    decide(schedulerWith(records), "a", "b", "c", "d", "e");
    expect(records.latest(3).map(({ requestId }) => requestId)).toEqual(["e", "d", "c"]);
    expect(records.latest(99).map(({ requestId }) => requestId)).toEqual(["e", "d", "c", "b"]);
    expect(records.latest(99, 3).map(({ requestId }) => requestId)).toEqual(["e", "d"]);
  });

  it("calls subscribers with each record until they unsubscribe or throw, and refuses the 65th", () => {
    const records = new DecisionRecords();
    const scheduler = schedulerWith(records);
    const seen: string[] = [];
    let calls = 0;
    const leave = records.onRecord(({ requestId }) => seen.push(requestId));
    records.onRecord(() => {
      calls++;
      throw new Error("the page went away");
    });
    decide(scheduler, "a", "b");
    leave();
    decide(scheduler, "c");
    expect([seen, calls]).toEqual([["a", "b"], 1]);
    for (let i = 0; i < 64; i++) records.onRecord(() => {});
    expect(() => records.onRecord(() => {})).toThrow("at most 64");
  });

  it("counts on when two schedulers share it", () => {
    const records = new DecisionRecords();
    decide(schedulerWith(records), "a");
    decide(schedulerWith(records), "b");
    expect(records.latest(2).map(({ sequence }) => sequence)).toEqual([2, 1]);
  });
});
