import { describe, expect, it } from "vitest";
import { madeClaim, madeQueues } from "../../../../test/support/dispatch/merge/made.cases.ts";
import { FairnessStamp } from "./merge-policy.ts";

const [queue] = madeQueues(1);
const stamp = new FairnessStamp("x-fair", "userid");
const of = (metadata: Readonly<Record<string, string>>) => stamp.stamp(madeClaim(queue!, "1", metadata));

describe("FairnessStamp", () => {
  it("names who is charged", () => {
    for (const userid of ["alice", "a b", "ä".repeat(128), "x".repeat(256), "0"])
      expect(of({ userid })).toEqual([{ name: "x-fair", value: userid }]);
  });

  it("leaves the caller's headers alone without a value that fits a header (A-70)", () => {
    for (const userid of ["", "x".repeat(257), "ä".repeat(129), "a\r\nx-evil: 1", "a\u0000", "a\u007f", " alice", "\t"])
      expect(of({ userid }), JSON.stringify(userid)).toEqual([]);
    expect(of({ userid: "\ud800" })).toEqual([]);
    expect(of({ user: "alice" })).toEqual([]);
  });

  it("takes nothing from where every object has something", () => {
    expect(new FairnessStamp("x-fair", "constructor").stamp(madeClaim(queue!, "1", {}))).toEqual([]);
  });
});
