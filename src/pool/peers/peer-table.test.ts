import { describe, expect, it } from "vitest";
import type { LoadMessage } from "./message.ts";
import { MAX_REPLICAS, PeerTable } from "./peer-table.ts";
import { REPLICA_STATES } from "./replica.ts";

const idOf = (n: number): string => n.toString(16).padStart(16, "0");

function message(n: number, change: Partial<LoadMessage> = {}): LoadMessage {
  const loads = [{ key: "a:1", requests: n, tokens: 10 * n }];
  return { id: idOf(n), epoch: 1000, sequence: 1, loads, facts: undefined, ...change };
}

function setUp(): { table: PeerTable; changes: unknown[]; at: (key: string) => readonly [number, number] } {
  const changes: unknown[] = [];
  const table = new PeerTable(idOf(0), ({ key }, requests, tokens) => changes.push([key, requests, tokens]));
  const at = (key: string): readonly [number, number] => {
    const { requests, tokens } = table.loadAt(key);
    return [requests, tokens];
  };
  return { table, changes, at };
}

describe("PeerTable", () => {
  it("adds up what replicas said last, and tells each change", () => {
    const { table, changes, at } = setUp();
    expect(table.hear(message(2), 0)).toBeUndefined();
    expect(table.hear(message(3), 0)).toBeUndefined();
    expect(at("a:1")).toEqual([5, 50]);
    expect(table.hear(message(2, { sequence: 2, loads: [{ key: "b:1", requests: 1, tokens: 0 }] }), 0)).toBeUndefined();
    expect([at("a:1"), at("b:1"), table.live]).toEqual([[3, 30], [1, 0], 2]);
    expect(changes).toEqual([
      ["a:1", 2, 20],
      ["a:1", 3, 30],
      ["b:1", 1, 0],
      ["a:1", -2, -20],
    ]);
  });

  it("adds up endpoints that share an address", () => {
    const { table, at } = setUp();
    const twice = [1, 4].map((requests) => ({ key: "a:1", requests, tokens: 0 }));
    table.hear(message(2, { loads: twice }), 0);
    table.hear(message(2, { loads: twice, sequence: 2 }), 0);
    expect(at("a:1")).toEqual([5, 0]);
  });

  it("ignores what is old: repeated, overtaken, or of an earlier life", () => {
    const { table, at } = setUp();
    table.hear(message(2, { sequence: 7 }), 0);
    for (const late of [{ sequence: 7 }, { sequence: 3 }, { epoch: 999, sequence: 90 }])
      expect(table.hear(message(2, { ...late, loads: [] }), 1)).toBe("old");
    expect(at("a:1")).toEqual([2, 20]);
    expect(table.hear(message(2, { epoch: 1001, sequence: 1, loads: [] }), 2)).toBeUndefined();
    expect(at("a:1")).toEqual([0, 0]);
  });

  it("drops the load of a replica after 3 s of silence, and not before; then an older epoch is a new life", () => {
    const { table, at } = setUp();
    table.hear(message(2), 100);
    expect([table.nextExpiry, table.expire(3099), at("a:1")[0]]).toEqual([3100, 0, 2]);
    expect([table.expire(3100), at("a:1")[0], table.live]).toEqual([1, 0, 0]);
    expect(table.hear(message(2), 3200)).toBe("old");
    expect(table.hear(message(2, { epoch: 5 }), 3200)).toBeUndefined();
    expect([at("a:1")[0], table.live]).toEqual([2, 1]);
  });

  it("keeps the age of the replica with load that was silent longest", () => {
    const { table } = setUp();
    table.hear(message(2), 100);
    table.hear(message(3), 400);
    table.hear(message(4, { loads: [] }), 0);
    const shared = table.loadAt("a:1");
    expect(shared.ageMs(500)).toBe(400);
    table.hear(message(2, { sequence: 2 }), 450);
    expect(shared.ageMs(500)).toBe(100);
    expect(table.loadAt("b:1").ageMs(500)).toBe(0);
  });

  it("knows at most 64 replicas: living ones stay, and those that are gone make room", () => {
    const { table } = setUp();
    for (let n = 1; n <= MAX_REPLICAS; n++) table.hear(message(n), n === 9 ? -5000 : 0);
    expect(table.hear(message(99), 1)).toBe("crowded");
    table.expire(2);
    expect(table.hear(message(99), 3)).toBeUndefined();
    expect([table.replica(idOf(9)), table.live]).toEqual([undefined, MAX_REPLICAS]);
    expect(table.hear(message(100), 4)).toBe("crowded");
  });

  it("forgets a replica after a minute, and addresses that nobody needs", () => {
    const { table } = setUp();
    for (let n = 1; n <= 5; n++) table.hear(message(n, { loads: [{ key: `e${n}`, requests: 1, tokens: 1 }] }), 0);
    expect(table.addresses).toBe(5);
    table.expire(3000);
    expect([table.addresses, [...table.replicas].length, table.nextExpiry]).toEqual([0, 5, 60_000]);
    table.expire(60_000);
    expect([[...table.replicas].length, table.nextExpiry]).toEqual([0, Number.POSITIVE_INFINITY]);
  });

  it("counts no traffic of a replica that is forgotten as soon as it falls silent, after a long pause of this process", () => {
    const { table } = setUp();
    table.hear(message(2), 0);
    expect(table.pace.busy).toBe(1);
    expect([table.expire(60_000), [...table.replicas].length, table.pace.busy]).toEqual([1, 0, 0]);
  });

  it("keeps at most 8,192 addresses: more are left out and counted", () => {
    const { table } = setUp();
    for (let n = 1; n <= 3; n++) {
      const loads = Array.from({ length: 4096 }, (_, i) => ({ key: `${n} ${i}`, requests: 1, tokens: 1 }));
      table.hear(message(n, { loads }), 0);
    }
    expect([table.addresses, table.ignored]).toEqual([8192, 4096]);
  });

  it("has a way from each state by each event", () => {
    expect(REPLICA_STATES).toEqual({
      live: { news: "live", silence: "gone" },
      gone: { news: "live", silence: "gone" },
    });
  });
});
