import { expect, it } from "vitest";
import { clusterMark } from "./cluster-mark.ts";

it("differs between authorities, is the same for copies of one, and tells nothing of an unknown one", () => {
  expect(clusterMark("A\n")).toBe(clusterMark("A"));
  expect(clusterMark("A")).not.toBe(clusterMark("B"));
  expect(clusterMark("A")).toMatch(/^[\da-f]{16}$/);
  expect(clusterMark(undefined)).toBe("");
});
