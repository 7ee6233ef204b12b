import { expect } from "vitest";
import { parseResult } from "../../src/async/brokers/messages/result.ts";
import type { SubmitRequest } from "../../src/async/brokers/queue-client.ts";
import { freshRandom, SeededRandom } from "../../src/base/clock/random.ts";
import { type DispatchStore, NOTHING_LEFT } from "../support/dispatch-store.ts";
import type { GatewayProcess } from "../support/gateway-process.ts";
import { poll } from "../support/poll.ts";
import type { TestProcess } from "../support/process.ts";

/** Small enough that a killed process is missed soon; the smallest lease that a configuration may have. */
export const LEASES = { claim_ttl_ms: 2000, reclaim_interval_ms: 200 };

/** Chance of a test: CHAOS_SEED repeats a run. The seed is printed. */
export function chance(what: string): SeededRandom {
  const random = new SeededRandom(Number(process.env["CHAOS_SEED"] ?? freshRandom().below(1e9)));
  tell(`${what}: CHAOS_SEED=${random.state}`);
  return random;
}

/** Prints past the test runner, which would set its own lines around each. */
export function tell(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** Requests `m0`, `m1`, ... with `seconds` to live. */
export function messages(count: number, seconds = 3600): SubmitRequest[] {
  const deadline = Math.floor(Date.now() / 1000) + seconds;
  return Array.from({ length: count }, (_, i) => ({
    id: `m${i}`,
    deadline,
    payload: { model: "sim", prompt: `${i}` },
  }));
}

/** Waits until the gateway has had so many requests in all. */
export async function requestsReach(gateway: GatewayProcess, requests: number, dispatcher: TestProcess): Promise<void> {
  try {
    await gateway.reaches(requests);
  } catch (error) {
    const { exit, stderr } = dispatcher;
    throw new Error(`the dispatcher (exit ${JSON.stringify(exit)}) said: ${stderr.slice(-2000)}`, { cause: error });
  }
}

/** Waits until there are so many results. */
export async function resultsReach(store: DispatchStore, count: number, limitMs = 60_000): Promise<void> {
  await poll(`${count} results`, async () => (await store.countResults()) >= count, limitMs);
}

/** Submits more where so few of `count` messages are without a result that a process that has time might run out of work. @returns how many there are then */
export async function replenish(store: DispatchStore, count: number, least: number): Promise<number> {
  if (count - (await store.countResults()) >= least) return count;
  await store.submit(messages(count + least).slice(count));
  return count + least;
}

export interface Account {
  readonly lost: number;
  readonly duplicates: number;
  /** Results by HTTP status; 0 = none. */
  readonly statuses: Readonly<Record<string, number>>;
}

/**
 * Counts the results of `messages(count)` where they stand, prints them with how often the gateway was asked, and expects
 * exactly one per message, and nothing left behind. Called when no dispatcher runs any more.
 */
export async function expectOneEach(
  what: string,
  store: DispatchStore,
  gateway: GatewayProcess,
  count: number,
): Promise<Account> {
  const byId = new Map<string, number>();
  const statuses: Record<string, number> = {};
  for (const text of await store.results()) {
    const { id, statusCode } = parseResult(text);
    byId.set(id, (byId.get(id) ?? 0) + 1);
    statuses[statusCode] = (statuses[statusCode] ?? 0) + 1;
  }
  const ids = messages(count).map(({ id }) => id);
  const lost = ids.filter((id) => !byId.has(id)).length;
  const duplicates = [...byId.values()].reduce((sum, times) => sum + times - 1, 0);
  const repeated = [...(await gateway.sent()).values()].filter((times) => times > 1).length;
  tell(
    `${what}: ${count} messages, ${lost} lost, ${duplicates} duplicate results, ${repeated} sent more than once, ` +
      `statuses ${JSON.stringify(statuses)}`,
  );
  const account = { lost, duplicates, statuses };
  expect(account).toMatchObject({ lost: 0, duplicates: 0 });
  expect([...byId.keys()].sort()).toEqual(ids.sort());
  expect(await store.leftovers()).toEqual(NOTHING_LEFT);
  return account;
}
