import { describe, expect, it } from "vitest";
import { agoText, entryRow, entryView, numberText } from "./queue-tools.ts";

describe("entries as people see them", () => {
  const entry = JSON.stringify({
    internal: { retry_count: 2 },
    request_kind: "redis",
    data: { id: "a", created: 1000, deadline: 5000, payload: { prompt: "é" } },
  });

  it("a waiting one has its id, times and size", () => {
    const view = entryView({ entry, score: 7 });
    expect(view).toEqual({
      ...{ id: "a", deadline: 5000, created: 1000, retryCount: 2, bytes: Buffer.byteLength(entry), score: 7 },
      entry: JSON.parse(entry),
    });
    expect(entryRow(view, 4000)).toEqual(["a", "in 16m 40s", "50m 0s ago", "2", String(view.bytes)]);
  });

  it("a dead one says when and why, and is shown even when nobody can read it", () => {
    const view = entryView({ entry: "garbage", reason: "the entry is not JSON", at: 3_940_000 });
    expect(view).toMatchObject({ id: null, deadline: null, died: 3940, entry: "garbage" });
    expect(entryRow(view, 4000)).toEqual(["(unreadable)", "-", "-", "0", "7", "1m 0s ago", "the entry is not JSON"]);
    expect(entryView({ entry: '{"request_kind":"x","data":{"id":"b"}}', reason: "r", at: 0 }).id).toBe("b");
  });

  it("writes times and figures", () => {
    expect([agoText(100, 100), agoText(101, 100), numberText(0), numberText(Number.NaN)]).toEqual([
      ...["0s ago", "in 1s", "0", "-"],
    ]);
  });
});
