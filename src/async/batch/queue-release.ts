import { type Clock, delay } from "../../base/clock/clock.ts";
import { counted } from "../../base/document/words.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import type { HeldMessages, QueueReleaser } from "../brokers/queue-client.ts";
import { durationText } from "./batch-progress.ts";
import type { QueueStore } from "./queue-store.ts";

/** Milliseconds between two looks at the leases of a dispatcher that seems to have ended. */
const LOOK = 500;

export interface ReleaseOptions {
  /** Queue names; at least one. */
  readonly queues: readonly string[];
  /** True: takes messages from dispatchers that run, or may run. */
  readonly force: boolean;
  /** True: retries stay until they are due. */
  readonly keepRetries: boolean;
}

/**
 * Hands all messages of queues back that dispatchers have taken, and the retries: afterwards everything waits in its queue, as
 * programs without leases expect it. Waits until the leases of dispatchers that were killed have run out.
 * @param tell gets sentences for the user
 * @throws SluiceError QUEUE_IN_USE while a dispatcher works on a queue; errors of the store
 */
export async function releaseQueues(
  { client }: Pick<QueueStore, "client">,
  { queues, force, keepRetries }: ReleaseOptions,
  clock: Clock,
  tell: (text: string) => void,
): Promise<void> {
  const { releaser } = client;
  if (!force) {
    await refuseDispatchers(releaser, queues, client.place, tell);
    await leasesEnd(releaser, queues, clock, tell);
  }
  for (const queue of queues) {
    const claimed = await releaser.release(queue, force);
    const retries = keepRetries ? 0 : await releaser.unpark(queue);
    const left = await releaser.held(queue);
    if (left.claimed > 0 && !force) throw inUse(queue, "has claimed messages again");
    const { waiting, dead } = await client.backlog(queue);
    tell(
      `queue ${queue}: ${counted(claimed, "claimed message")} and ${counted(retries, "retry", "retries")} are back; ` +
        `${counted(waiting, "message")} wait`,
    );
    if (dead > 0)
      tell(
        `queue ${queue}: ${counted(dead, "dead letter")} stay; to put these back, too, run sluice queue requeue ${queue}`,
      );
  }
}

async function refuseDispatchers(
  releaser: QueueReleaser,
  queues: readonly string[],
  place: string,
  tell: (text: string) => void,
): Promise<void> {
  let unseen = false;
  for (const queue of queues) {
    const running = await releaser.dispatchers(queue);
    if (running === undefined) unseen = true;
    else if (running > 0) throw inUse(queue, `is connected to ${place} (${counted(running, "connection")})`);
  }
  if (unseen) tell(`${place} does not show which dispatchers are connected: make sure that no dispatcher runs`);
}

/** Waits until every lease has run out. A lease that is renewed meanwhile belongs to a dispatcher that runs. */
async function leasesEnd(
  releaser: QueueReleaser,
  queues: readonly string[],
  clock: Clock,
  tell: (text: string) => void,
): Promise<void> {
  const look = async (): Promise<readonly HeldMessages[]> => Promise.all(queues.map((queue) => releaser.held(queue)));
  const first = await look();
  let now = first;
  let told = false;
  for (;;) {
    for (const [at, { lastLease }] of now.entries())
      if (lastLease > first[at]!.lastLease) throw inUse(queues[at]!, "renews its leases");
    const longest = Math.max(...now.map(({ leaseLeft }) => leaseLeft));
    if (longest === 0) return;
    if (!told) {
      const claimed = now.reduce((sum, { leaseLeft, claimed }) => sum + (leaseLeft > 0 ? claimed : 0), 0);
      tell(
        `${counted(claimed, "message")} may still be at a dispatcher: waiting ${durationText(Math.ceil(longest / 1000))} ` +
          "for its leases to end; --force skips this wait",
      );
      told = true;
    }
    await delay(clock, Math.min(LOOK, longest));
    now = await look();
  }
}

function inUse(queue: string, what: string): SluiceError {
  return new SluiceError(
    "QUEUE_IN_USE",
    `a dispatcher of queue ${queue} ${what}: stop the dispatcher first, or give --force`,
  );
}
