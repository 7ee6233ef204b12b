import { describe, expect, it } from "vitest";
import { queueOf } from "../../../../test/support/brokers/broker.cases.ts";
import type { Redis } from "../../../base/redis/connection.ts";
import type { Claim } from "../broker.ts";
import { readEntry } from "../intake.ts";
import type { RedisSortedSetSettings } from "../settings.ts";
import { HeldClaims } from "./held-claims.ts";
import { LostAnswers } from "./lost-answers.ts";
import { REINSTATE, REINSTATED, RENEW } from "./scripts.ts";
import type { QueueServer } from "./server.ts";
import { MOST_BYTES } from "./settle-batch.ts";

const q = queueOf("q");

function claimOf(id: string, text = ""): Claim {
  const entry = JSON.stringify({ internal: {}, request_kind: "redis", data: { id, deadline: 9, payload: { text } } });
  return { id, queue: q, message: readEntry(entry, q), cancelled: false, publishedAt: Number.NaN, lost: false };
}

/** A store that has lost all claims; `answers` are those of the calls that put claims back. */
function emptied(answers: (number[] | Error)[]): { readonly held: HeldClaims; readonly reported: number[] } {
  const reported: number[] = [];
  let there = 0;
  const run = async (script: unknown, _keys: unknown, args: readonly string[]): Promise<unknown> => {
    // A claim has two arguments of RENEW, and six of REINSTATE.
    if (script === RENEW) return [0, ...Array.from({ length: (args.length - 1) / 2 - there }, (_, i) => there + i)];
    expect(script).toBe(REINSTATE);
    const answer = answers.shift()!;
    there += (args.length - 2) / 6;
    if (answer instanceof Error) throw answer;
    return answer;
  };
  const events = { forgotten: (_queue: unknown, count: number) => void reported.push(count) };
  const server = { usable: () => ({ run }) as unknown as Redis, events } as unknown as QueueServer;
  const settings = { queues: [q], retryQueueName: "retries", leases: { claimTtl: 1000 } };
  return { held: new HeldClaims(server, settings as unknown as RedisSortedSetSettings, new LostAnswers()), reported };
}

describe("claims that the store has lost", () => {
  it("are recovered and reported, once for each loss", async () => {
    const claims = [claimOf("a"), claimOf("b")];
    const { held, reported } = emptied([[REINSTATED, REINSTATED]]);
    expect(await held.renew(claims)).toEqual([]);
    await held.renew(claims);
    expect(claims.map(({ recovered }) => recovered)).toEqual([true, true]);
    expect(reported).toEqual([2]);
  });

  it("are recovered and reported also when the answer of the call that put them back is lost", async () => {
    const claims = [claimOf("a"), claimOf("b")];
    const { held, reported } = emptied([new Error("the connection broke")]);
    await expect(held.renew(claims)).rejects.toThrow("the connection broke");
    expect(await held.renew(claims)).toEqual([]);
    expect(claims.map(({ recovered }) => recovered)).toEqual([true, true]);
    expect(reported).toEqual([2]);
  });

  it("are recovered and reported once, also when the answer of a later call is lost", async () => {
    const long = "x".repeat(MOST_BYTES);
    const claims = [claimOf("a", long), claimOf("b", long), claimOf("c", long)];
    const { held, reported } = emptied([[REINSTATED], new Error("the connection broke"), [REINSTATED]]);
    await expect(held.renew(claims)).rejects.toThrow("cannot be restored: Error: the connection broke");
    expect(claims.map(({ recovered }) => recovered ?? false)).toEqual([true, true, false]);
    // The first and the second: the third was not sent.
    expect(reported).toEqual([2]);
    expect(await held.renew(claims)).toEqual([]);
    expect(claims.map(({ recovered }) => recovered)).toEqual([true, true, true]);
    expect(reported).toEqual([2, 1]);
  });
});
