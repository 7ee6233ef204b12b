import { afterEach, expect, it } from "vitest";
import { freshRandom, type Random, SeededRandom } from "../../src/base/clock/random.ts";
import { tell } from "../chaos/account.ts";
import { chat } from "../support/client.ts";
import { Load, type Seen } from "../support/load.ts";
import { poll } from "../support/poll.ts";
import { Pickers, peersOf } from "./pickers.ts";

/** Milliseconds of each load. */
const LASTS = 60_000;
/** Milliseconds for which the store is away, and for which it is there before. */
const AWAY = 10_000;
const ROUNDS = Number(process.env["SLUICE_ROUNDS"]) || 3;
const STRANDS = 16;
const DOCUMENTS = 60;
const SESSIONS = 24;
const MOST_TURNS = 8;

/** @param blocks in the prefix cache of each server */
const cached = (blocks: number): string[] => [
  ...["--max-model-len", "100000", "--kv-cache-size", String(blocks), "--block-size", "16"],
  ...["--prefill-time-per-token", "40us", "--inter-token-latency", "4ms"],
];
/** Room for what the requests of a minute have, twice. */
const ROOMY = 8192;
/** Together, the servers cannot hold all of it: each prompt that is in two places pushes another one out. */
const TIGHT = 2048;
/** The most that the part of found tokens may be smaller. */
const LESS = 0.03;
/** The answer costs next to nothing, so that a decision is a large part of it. */
const QUICK = ["--max-model-len", "100000", "--time-to-first-token", "0s", "--inter-token-latency", "0s"];

const seed = Number(process.env["SLUICE_SEED"]) || freshRandom().state;
const clause = (n: number): string => `clause ${n} of the contract says so. `.repeat(160);

/** Questions about documents, of which some are asked for far more often, conversations that grow, and short requests. */
function mixed(random: Random): () => string {
  const turns = new Array<number>(SESSIONS).fill(1);
  let unique = 0;
  return () => {
    const kind = random.next();
    const stream = random.next() < 0.5;
    const more = { stream, max_tokens: 8 + random.below(16) };
    if (kind < 0.55) {
      const n = Math.floor(DOCUMENTS ** random.next()) - 1;
      return chat(`document ${n}: ${clause(n)} question ${unique++}`, more);
    }
    if (kind < 0.85) {
      const session = random.below(SESSIONS);
      const turn = turns[session]!;
      turns[session] = turn === MOST_TURNS ? 1 : turn + 1;
      return chat(`session ${session}: ${`turn of ${session} that says a little more. `.repeat(30 * turn)}`, more);
    }
    return chat(`short ${unique++}`, more);
  };
}

let pickers: Pickers | undefined;
afterEach(() => pickers?.stop());

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
/** Milliseconds that 99 % of the requests did not exceed. */
const p99 = (seen: readonly Seen[]): number => {
  const sorted = seen.map(({ ms }) => ms).sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length * 0.99)] ?? Number.NaN;
};
const lostOf = (seen: readonly Seen[]): Seen[] => seen.filter(({ status }) => status !== 200);

it.each([
  ["caches have room", ROOMY],
  ["caches are too small", TIGHT],
])("three pickers find prefixes as often as one: %s", async (_, blocks) => {
  const rates: number[] = [];
  for (const count of [1, 3]) {
    pickers = await Pickers.start(count, cached(blocks));
    await pickers.allHear(count - 1);
    const load = new Load(pickers.origin, { strands: STRANDS, body: mixed(new SeededRandom(seed)) });
    await sleep(LASTS);
    await load.stop();
    const { asked, found } = await pickers.lookedUp();
    rates.push(found / asked);
    tell(`${count} picker(s): ${load.seen.length} requests, prefix hit rate ${(found / asked).toFixed(4)}`);
    expect(load.failed).toEqual([]);
    await pickers.countsAgree(0);
    await pickers.stop();
  }
  const [one, three] = rates as [number, number];
  expect({ seed, one, three, near: three >= one - LESS }).toMatchObject({ near: true });
});

it("a store that is away for 10 s costs no request and no time, and then all count the same", async () => {
  pickers = await Pickers.start(3, QUICK);
  await pickers.allHear(2);
  const load = new Load(pickers.origin, { strands: 4, pause: 15, body: mixed(new SeededRandom(seed)) });
  await sleep(AWAY);
  const ratios: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const up = load.mark;
    await sleep(AWAY);
    const away = load.mark;
    await pickers.store.kill();
    await sleep(AWAY);
    const back = load.mark;
    for (const epp of pickers.replicas) expect((await peersOf(epp)).store.state).toBe("away");
    await pickers.store.restart();
    await pickers.allHear(2);
    const [before, during] = [load.seen.slice(up, away), load.seen.slice(away, back)];
    ratios.push(p99(during) / p99(before));
    tell(
      `round ${round}: ${before.length} and ${during.length} requests, p99 ${p99(before).toFixed(1)} ms with the store, ${p99(during).toFixed(1)} ms without`,
    );
  }
  await load.stop();
  expect(load.failed).toEqual([]);
  ratios.sort((a, b) => a - b);
  expect(ratios[Math.floor(ROUNDS / 2)]).toBeLessThanOrEqual(1.2);
  await pickers.countsAgree(0);
  const long = pickers.begin(18, (n) => `story ${n}`);
  await pickers.countsAgree(18);
  long.end();
  await pickers.countsAgree(0);
});

it("a picker that is killed costs only what Envoy had in flight there", async () => {
  pickers = await Pickers.start(3, cached(ROOMY));
  await pickers.allHear(2);
  const load = new Load(pickers.origin, { strands: STRANDS, body: mixed(new SeededRandom(seed)) });
  for (let round = 0; round < ROUNDS; round++) {
    await poll("some load", () => load.mark > 200 * (round + 1));
    const victim = pickers.replicas[round % 3]!;
    const { self } = await peersOf(victim);
    // The load is sent by this thread, so what is sent later is sent after the signal.
    const before = load.mark;
    const begun = performance.now();
    await victim.process.stop("SIGKILL");
    // What the others heard last, at most 20 ms before.
    const heard = (await peersOf(pickers.live[0]!)).replicas.find(({ id }) => id === self.id)?.requests;
    await pickers.allHear(1);
    const lost = lostOf(load.seen.slice(before));
    tell(`round ${round}: lost ${lost.length}, with ${heard} in flight at the picker, of ${load.mark - before}`);
    expect({ seed, lost: lost.filter(({ at, ms }) => at > begun || at + ms < begun) }).toEqual({ seed, lost: [] });
    await pickers.restart(round % 3);
    await pickers.envoy.findsPickers(3);
    await pickers.allHear(2);
  }
  await load.stop();
  await pickers.countsAgree(0);
});
