import type { Claim, Settlement } from "../../../../src/async/brokers/broker.ts";
import { errorResult } from "../../../../src/async/brokers/messages/result.ts";
import { sqliteBroker } from "../../../../src/async/brokers/sqlite/broker.ts";
import { freshRandom } from "../../../../src/base/clock/random.ts";
import { realClock } from "../../../../src/base/clock/real.ts";
import { silentLogger } from "../../../../src/base/telemetry/logger.ts";
import { queueOf } from "../broker.cases.ts";

/** Milliseconds; short, so that what a killed process held is soon taken over. */
const CLAIM_TTL = 300;

/** How a process of its own works on a queue file: `path mode`. */
export type Mode =
  /** Claims only when it is told that there is something, and answers at once: proves the wake-up. */
  | "woken"
  /** Claims again and again, and answers, refuses or parks what it gets: to be killed in the middle. */
  | "busy";

const q = queueOf("q");

function settlement(claim: Claim, chance: number): Settlement {
  const { request, routing } = claim.message;
  if (chance < 0.2) return { kind: "refuse", claim, labels: routing.labels };
  const { retryCount, labels } = { ...routing, retryCount: routing.retryCount + 1 };
  if (chance < 0.4) return { kind: "retry", claim, due: realClock.wall() / 1000 + 0.01, retryCount, labels };
  return { kind: "result", claim, result: errorResult(request.id, "CANCELLED", "done") };
}

async function work(path: string, mode: Mode): Promise<void> {
  const random = freshRandom();
  const broker = sqliteBroker(
    {
      transport: "sqlite",
      path,
      queues: [q],
      resultQueueName: "results",
      pollInterval: 1000,
      batchCap: undefined,
      leases: { claimTtl: CLAIM_TTL, reclaimInterval: 50, maxAttempts: 0 },
    },
    { clock: realClock, random, log: silentLogger },
  );
  const round = async (max: number, chance: () => number): Promise<number> => {
    const { claims } = await broker.claim(q, { max, expired: 0 });
    await broker.settle(claims.map((claim) => settlement(claim, chance())));
    return claims.length;
  };
  const all = async (): Promise<void> => {
    for (let left = 1; left > 0; )
      // While another process holds the lock, and it may stand still meanwhile, there may be more.
      left = await round(16, () => 1).catch(() => 1);
  };
  broker.start({
    available: () => mode === "woken" && void all(),
    deadLettered() {},
    reclaimed() {},
    writeRetried() {},
    forgotten() {},
    async doubted() {},
  });
  // The process lives until it is killed.
  for (;;) {
    if (mode === "woken") await new Promise((resolve) => realClock.after(60_000, () => resolve(undefined)));
    try {
      await broker.moveDue();
      await broker.reclaim(new Set());
      if ((await round(1 + random.below(8), () => random.next())) === 0)
        await new Promise((resolve) => realClock.after(5, () => resolve(undefined)));
    } catch {
      // The file is locked by another process for the moment.
    }
  }
}

if (import.meta.main) await work(process.argv[2]!, process.argv[3] as Mode);
