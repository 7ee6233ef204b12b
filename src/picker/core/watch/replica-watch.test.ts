import { expect, it } from "vitest";
import type { PeersState } from "../../../pool/peers/peers.ts";
import type { ReplicaState } from "../../../pool/peers/replica.ts";
import { ReplicaWatch } from "./replica-watch.ts";

function setUp() {
  const seen: string[] = [];
  const watch = new ReplicaWatch({ add: (kind, subject, text) => void seen.push(`${kind} ${subject}: ${text}`) });
  /** What is new after a look at these replicas. */
  const look = (replicas: Readonly<Record<string, ReplicaState>>, state: PeersState = "in-step", reason = "") => {
    const all = Object.entries(replicas).map(([id, of]) => ({ id, state: of }));
    watch.look({ state, reason, table: { replicas: all } });
    return seen.splice(0);
  };
  return look;
}

it("reports a replica once when it comes, when it falls silent, and when it comes back", () => {
  const look = setUp();
  expect(look({ a: "live" })).toEqual(["replica-joined a: replica a joined"]);
  expect(look({ a: "live", b: "live" })).toEqual(["replica-joined b: replica b joined"]);
  expect(look({ a: "gone", b: "live" })).toEqual(["replica-gone a: replica a is silent; its load no longer counts"]);
  expect(look({ a: "gone", b: "live" })).toEqual([]);
  expect(look({ a: "live", b: "live" })).toEqual(["replica-joined a: replica a joined"]);
});

it("says nothing of a replica that is forgotten, or was never seen alive", () => {
  const look = setUp();
  expect(look({ a: "gone" })).toEqual([]);
  look({ b: "live" });
  look({ b: "gone" });
  expect(look({})).toEqual([]);
  expect(look({ b: "live" })).toHaveLength(1);
});

it("reports the store when it is lost and when it is back, but not that it was never there or that the process ends", () => {
  const look = setUp();
  expect(look({}, "connecting")).toEqual([]);
  expect(look({}, "in-step")).toEqual([]);
  expect(look({}, "away", "connection refused")).toEqual([
    "store-away : the store of the replicas does not answer: connection refused",
  ]);
  expect(look({}, "away")).toEqual([]);
  expect(look({}, "catching-up")).toEqual(["store-back : the store of the replicas answers again"]);
  expect(look({}, "away")).toEqual(["store-away : the store of the replicas does not answer"]);
  expect(look({}, "closed")).toEqual([]);
});
