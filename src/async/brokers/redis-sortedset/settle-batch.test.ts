import { describe, expect, it } from "vitest";
import { queueOf } from "../../../../test/support/brokers/broker.cases.ts";
import type { Claim } from "../broker.ts";
import { readEntry } from "../intake.ts";
import { parseEnvelope } from "../messages/envelope.ts";
import { errorResult, parseResult } from "../messages/result.ts";
import { SettleBatch } from "./settle-batch.ts";

const q = queueOf("q");
const other = queueOf("other", { resultQueueName: "theirs" });
const names = { queues: [q, other], resultQueueName: "results", retryQueueName: "retries" };

function claimOf(id: string, queue = q, internal: object = {}): Claim {
  const entry = JSON.stringify({ internal, request_kind: "redis", data: { id, deadline: 9, payload: {} } });
  const message = readEntry(entry, queue);
  return { id: `claim-${id}`, queue, message, cancelled: false, publishedAt: Number.NaN, lost: false };
}

/** Arguments per settlement, with keys in place of their numbers. */
function rows({ args, keys }: SettleBatch): string[][] {
  const found: string[][] = [];
  for (let at = 2; at < args.length; at += SETTLE_WIDTH) {
    const row = args.slice(at, at + SETTLE_WIDTH);
    row[1] = keys[Number(row[1]) - 1]!;
    row[3] = row[3] === "0" ? "" : keys[Number(row[3]) - 1]!;
    found.push(row);
  }
  return found;
}

/** Arguments of settle.lua per settlement. */
const SETTLE_WIDTH = 8;

describe("SettleBatch", () => {
  it("A-52 names every key once: five per queue in a row, and each place that something goes to", () => {
    const batch = new SettleBatch(names);
    const result = errorResult("r", "CANCELLED", "cancelled");
    const named = claimOf("c", q, { result_queue_name: "named" });
    for (const claim of [claimOf("a"), claimOf("b"), named, claimOf("d", other)])
      batch.add({ kind: "result", claim, result });
    batch.add({ kind: "retry", claim: claimOf("e"), due: 12.5, retryCount: 1, labels: {} });
    expect(batch.keys.slice(0, 6)).toEqual(["results", "q", "{q}:claims", "{q}:leases", "q:dead", "{q}:owners"]);
    expect([...batch.keys].sort()).toEqual(
      ["other", "other:dead", "q", "q:dead", "results", "named", "theirs", "retries"]
        .concat("{q}:claims", "{q}:leases", "{other}:claims", "{other}:leases", "{q}:owners", "{other}:owners")
        .sort(),
    );
    expect(rows(batch).map(([what, queue, , target]) => [what, queue, target])).toEqual([
      ["result", "q", "results"],
      ["result", "q", "results"],
      ["result", "q", "named"],
      ["result", "other", "theirs"],
      ["retry", "q", "retries"],
    ]);
    expect(batch.size).toBe(5);
  });

  it("a retry carries its count and labels, and when it is due", () => {
    const batch = new SettleBatch(names);
    const claim = claimOf("a", q, { request_token: "t", labels: { tier: "1" } });
    batch.add({ kind: "retry", claim, due: 1_800_000_000.25, retryCount: 3, labels: { tier: "2" } });
    const [, , , , text, due, id, token] = rows(batch)[0]!;
    expect([due, id, token]).toEqual(["1800000000.25", "a", "t"]);
    expect(parseEnvelope(text!)).toMatchObject({
      routing: { retryCount: 3, labels: { tier: "2" }, requestQueueName: "q", requestToken: "t" },
      text: claim.message.text,
    });
  });

  it("A-51 a refusal leaves the entry as it is unless gates have changed the labels", () => {
    const claim = claimOf("a", q, { labels: { tier: "1", team: "x" } });
    const textOf = (labels: Record<string, string>): string => {
      const batch = new SettleBatch(names);
      batch.add({ kind: "refuse", claim, labels });
      return rows(batch)[0]![4]!;
    };
    expect(textOf(claim.message.routing.labels)).toBe("");
    expect(textOf({ team: "x", tier: "1" })).toBe("");
    for (const labels of [{ tier: "1" }, { tier: "1", team: "y" }, { tier: "1", team: "x", more: "z" }])
      expect(parseEnvelope(textOf(labels)).routing.labels).toEqual(labels);
  });

  it("a result of a claim that was put back says so", () => {
    const batch = new SettleBatch(names);
    const claim = { ...claimOf("a"), recovered: true };
    batch.add({ kind: "result", claim, result: errorResult("a", "CANCELLED", "cancelled") });
    const [what, , , , text] = rows(batch)[0]!;
    expect(what).toBe("recovered");
    expect(parseResult(text!)).toMatchObject({ id: "a", recovered: true });
  });

  it("buries with or without somebody to tell", () => {
    const batch = new SettleBatch(names);
    batch.bury(q, "1", "no JSON", { named: "", runOut: false });
    const result = errorResult("a", "INVALID_REQUEST", "no");
    batch.bury(other, "2", "odd", { named: "mine", result, token: "t", runOut: true });
    expect(rows(batch).map((row) => [...row.slice(0, 4), ...row.slice(5)])).toEqual([
      ["dead", "q", "1", "", "no JSON", "", ""],
      ["bury", "other", "2", "theirs", "odd", "a", "t"],
    ]);
  });

  it("H-17 no message has its result written over a queue, the retries, or what belongs to them", () => {
    const result = errorResult("r", "CANCELLED", "cancelled");
    const keys = ["q", "other", "retries", "{other}:claims", "{q}:leases", "other:dead", "retries:dead", "{q}:owners"];
    for (const result_queue_name of keys) {
      const batch = new SettleBatch(names);
      batch.add({ kind: "result", claim: claimOf("a", q, { result_queue_name }), result });
      batch.bury(q, "claim-b", "unreadable", { named: result_queue_name, result, runOut: false });
      expect(rows(batch).map((row) => row[3])).toEqual(["results", "results"]);
    }
  });
});
