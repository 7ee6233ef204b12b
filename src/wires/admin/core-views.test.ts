import { describe, expect, it } from "vitest";
import { recordedRun } from "../../../test/support/study/replay/recorded.cases.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { InferenceCore } from "../../picker/core/inference-core.ts";
import { DecisionRecords } from "../../picker/scheduling/records.ts";
import { EndpointRegistry } from "../../pool/endpoints/registry.ts";
import { EndpointsView, type PoolView } from "../../pool/endpoints/view.ts";
import { pluginStates, viewsOf } from "./core-views.ts";

/** Views of a process whose ring holds `records`, oldest first. */
function viewsWith(records: readonly { readonly sequence: number }[]) {
  const latest = (count: number, since = 0) =>
    records
      .filter(({ sequence }) => sequence > since)
      .reverse()
      .slice(0, count);
  const core = { clock: new VirtualClock(), records: { latest } } as unknown as InferenceCore;
  return viewsOf(core, { unready: () => undefined });
}

const sequences = (lines: readonly string[]): number[] => lines.map((line) => JSON.parse(line).sequence as number);

describe("a decision that is asked for", () => {
  const ids = ["0aa11bb2-first", "0aa11bb2-second", "12345678-number", "short"];
  const records = new DecisionRecords();
  const core = { clock: new VirtualClock(), records } as unknown as InferenceCore;
  for (const record of recordedRun({ decisions: ids.length }))
    records.add(Object.assign(record, { requestId: ids[record.sequence - 1]! }) as never);
  const views = viewsOf(core, { unready: () => undefined });
  const found = (id: string) => (views.decision(id) as { requestId?: string } | undefined)?.requestId;

  it("is found by its number, its ID, or the first eight characters of its ID if no other ID begins with them", () => {
    expect(found("2")).toBe(ids[1]);
    expect(found("0aa11bb2-first")).toBe(ids[0]);
    expect(found("12345678")).toBe(ids[2]);
    expect(found("0aa11bb2-s")).toBe(ids[1]);
    expect(found("short")).toBe("short");
  });

  it("is not found when several IDs begin with the characters, or with fewer than eight", () => {
    expect(found("0aa11bb2")).toBeUndefined();
    expect(views.requestIds("0aa11bb2")).toEqual([ids[1], ids[0]]);
    expect([found("1234567"), views.requestIds("1234567")]).toEqual([undefined, []]);
    expect(views.requestIds("ffffffff")).toEqual([]);
  });
});

describe("the endpoints of a pool", () => {
  it("are listed in order of their IDs, at most 1,000, with the total and the limit of the pool (api-resources 6A.6)", () => {
    const clock = new VirtualClock();
    const registry = new EndpointRegistry({ clock, random: new SeededRandom(1), maxEndpoints: 2000 });
    const names = Array.from({ length: 1001 }, (_, i) => `pod-${1000 + i}`);
    for (const name of names.toReversed())
      registry.upsert({ namespace: "default", name, address: name, port: 8000, rank: 0, labels: {} });
    const core = { clock, records: new DecisionRecords(), endpointsView: new EndpointsView(registry, clock) };
    const shown = viewsOf(core as unknown as InferenceCore, { unready: () => undefined }).endpoints() as PoolView;
    expect(shown.endpoints.map(({ id }) => id)).toEqual(names.slice(0, 1000).map((name) => `default/${name}`));
    expect(shown).toMatchObject({ totalEndpoints: 1001, maxEndpoints: 2000, states: { up: 1001 } });
  });
});

describe("the decisions that are kept", () => {
  it("are counted, with their limit and the time of the oldest", () => {
    const records = new DecisionRecords(3);
    const core = { clock: new VirtualClock(), records } as unknown as InferenceCore;
    const { keptDecisions } = viewsOf(core, { unready: () => undefined });
    expect(keptDecisions()).toEqual({ count: 0, most: 3, oldest: undefined });
    const made = recordedRun({ decisions: 5 });
    for (const record of made) records.add(record as never);
    expect(keptDecisions()).toEqual({ count: 3, most: 3, oldest: new Date(made[2]!.at).toISOString() });
  });
});

describe("the full records that an admin port gives", () => {
  const records = recordedRun({ decisions: 12, fullEvery: 3 });

  it("are those of decisions that were kept in full, oldest first, behind a number if one is given", () => {
    const views = viewsWith(records);
    expect(sequences(views.fullDecisions(0))).toEqual([3, 6, 9, 12]);
    expect(sequences(views.fullDecisions(6))).toEqual([9, 12]);
    expect(views.fullDecisions(12)).toEqual([]);
  });

  it("are the newest of them where all would be too much, and at least one (bound)", () => {
    const long = "x".repeat(2 << 20);
    const wide = recordedRun({ decisions: 4 }).map((record) => ({
      ...JSON.parse(JSON.stringify(record)),
      model: long,
    }));
    expect(sequences(viewsWith(wide).fullDecisions(0))).toEqual([3, 4]);
    const huge = wide.map((record) => ({ ...record, model: long.repeat(4) }));
    expect(sequences(viewsWith(huge).fullDecisions(0))).toEqual([4]);
  });
});

describe("the queues of flow control", () => {
  it("are those of the core", () => {
    const queues = { requests: 1 };
    const core = { clock: new VirtualClock(), queues: () => queues } as unknown as InferenceCore;
    expect(viewsOf(core, { unready: () => undefined }).queues()).toBe(queues);
  });
});

const made = (name: string, state?: () => unknown) => ({
  ...{ name, type: `${name}-type` },
  ...(state === undefined ? {} : { state }),
});

describe("states of plugins", () => {
  it("S-100: shows each plugin with its state, or with why there is none", () => {
    const states = pluginStates([
      made("prefixes", () => ({ pods: [{ pod: "default/a", blocks: 3 }], totalPods: 1, maxPods: 100 })),
      made("quiet"),
      made("empty", () => undefined),
      made("broken", () => {
        throw new Error("the index is gone");
      }),
      made("cyclic", () => {
        const state: { self?: unknown } = {};
        state.self = state;
        return state;
      }),
    ]);
    expect(states).toEqual({
      prefixes: {
        ...{ name: "prefixes", type: "prefixes-type" },
        state: { pods: [{ pod: "default/a", blocks: 3 }], totalPods: 1, maxPods: 100 },
      },
      quiet: { name: "quiet", type: "quiet-type", message: "the plugin reports no state" },
      empty: { name: "empty", type: "empty-type", message: "the plugin has no state at present" },
      broken: {
        name: "broken",
        type: "broken-type",
        message: "the plugin failed to report its state: the index is gone",
      },
      cyclic: {
        name: "cyclic",
        type: "cyclic-type",
        message: expect.stringMatching(/^the plugin failed to report its state: .*circular/),
      },
    });
  });

  it("shows the one with a state where one name stands for two", () => {
    const [with7, without] = [made("p", () => 7), made("p")];
    expect(pluginStates([with7, without])["p"]?.state).toBe(7);
    expect(pluginStates([without, with7])["p"]?.state).toBe(7);
  });

  it("shows no state of more than a million characters (bound)", () => {
    const sized = (length: number) => made(`p${length}`, () => "x".repeat(length - 2));
    const states = pluginStates([sized(1024 * 1024), sized(1024 * 1024 + 1)]);
    expect(states["p1048576"]?.state).toHaveLength(1024 * 1024 - 2);
    expect(states["p1048577"]?.message).toBe("the state is too long to show: 1048577 characters, at most 1048576");
  });
});
