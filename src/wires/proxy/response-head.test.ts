import { describe, expect, it } from "vitest";
import { HeaderList } from "../../base/inference/headers.ts";
import { changedHeaders } from "./response-head.ts";

const HEADERS = HeaderList.of([
  ["set-cookie", "a"],
  ["content-length", "10"],
  ["set-cookie", "b"],
  ["x-old", "1"],
]);
const lines = (list: HeaderList) => list.keys.map((key, i) => `${key}: ${list.values[i]}`);

describe("changedHeaders", () => {
  it("hands back the same list when nothing changes", () => {
    expect(changedHeaders(HEADERS, undefined, false)).toBe(HEADERS);
  });

  it("drops a length that will not hold, and keeps repeated headers", () => {
    expect(lines(changedHeaders(HEADERS, undefined, true))).toEqual(["set-cookie: a", "set-cookie: b", "x-old: 1"]);
  });

  it("lets what a plugin sets replace what the server said", () => {
    const set = HeaderList.of([
      ["x-old", "2"],
      ["x-new", "3"],
    ]);
    expect(lines(changedHeaders(HEADERS, set, true))).toEqual([
      "set-cookie: a",
      "set-cookie: b",
      "x-old: 2",
      "x-new: 3",
    ]);
  });
});
