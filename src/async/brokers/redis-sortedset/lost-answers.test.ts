import { describe, expect, it } from "vitest";
import { queueOf } from "../../../../test/support/brokers/broker.cases.ts";
import { LostAnswers } from "./lost-answers.ts";

const queue = queueOf("q");

describe("LostAnswers", () => {
  it("names claims until their lease would have run out anyway", () => {
    const lost = new LostAnswers();
    lost.claimed({ queue, claimIds: ["a"], until: 100 });
    lost.claimed({ queue, claimIds: ["b"], until: 200 });
    const at = (now: number) => [...lost.claims(now)].flatMap(({ claimIds }) => claimIds);
    expect(at(100)).toEqual(["a", "b"]);
    expect(at(101)).toEqual(["b"]);
    expect(at(201)).toEqual([]);
  });

  it("remembers 100 calls", () => {
    const lost = new LostAnswers();
    for (let i = 0; i < 250; i++) lost.claimed({ queue, claimIds: [String(i)], until: 1000 });
    const left = [...lost.claims(0)];
    expect(left).toHaveLength(100);
    expect(left[0]!.claimIds).toEqual(["150"]);
  });

  it("tells a settlement that was sent before, once", () => {
    const lost = new LostAnswers();
    lost.settled(["a", "b"]);
    expect([lost.takeSettled("a"), lost.takeSettled("a"), lost.takeSettled("c")]).toEqual([true, false, false]);
  });
});
