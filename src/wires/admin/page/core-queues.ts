import type { InferenceCore } from "../../../picker/core/inference-core.ts";
import { HISTOGRAM, SUM } from "../../../picker/core/watch/traffic-watch.ts";
import type { BandFeed, QueuesFeed } from "../feed/queues.ts";
import { shown } from "./process.ts";

/** Why there are no queues, and how to get some. */
export const NO_QUEUES =
  "flow control is off, so no request waits in a queue. Turn it on with the feature gate flowControl of the configuration. An InferenceModel of a v1alpha2 pool turns it on, too.";

/** The queues of a gateway or picker. */
export function coreQueues(core: InferenceCore): QueuesFeed {
  const at = core.clock.wall();
  const view = core.queues();
  if (view === undefined) return { kind: "off", at, text: NO_QUEUES };
  const { saturation } = view;
  const failed = "error" in saturation;
  const { left, refused } = rates(core);
  return {
    kind: "flow-control",
    at,
    requests: view.requests,
    bytes: view.bytes,
    maxRequests: view.maxRequests,
    maxBytes: view.maxBytes,
    saturation: failed ? null : shown(saturation.effective),
    expected: failed ? null : shown(saturation.expected),
    stages: failed
      ? {}
      : {
          ...(saturation.prefill === undefined ? {} : { prefill: saturation.prefill }),
          ...(saturation.decode === undefined ? {} : { decode: saturation.decode }),
        },
    problem: failed ? saturation.error : null,
    leftPerSecond: left,
    refusedPerSecond: refused,
    bands: view.bands.map(
      (band): BandFeed => ({
        priority: band.priority,
        requests: band.requests,
        bytes: band.bytes,
        maxRequests: band.maxRequests,
        maxBytes: band.maxBytes,
        ceiling: band.ceiling,
        open: band.open,
        heldBy: band.requests === 0 ? null : heldBy(band, failed ? undefined : saturation.expected, core),
        flowCount: band.flows,
        flows: band.longest,
      }),
    ),
  };
}

/** Why requests of a band wait, in one sentence; null when the band is open. */
function heldBy(
  { ceiling, open }: { readonly ceiling: number; readonly open: boolean },
  expected: number | undefined,
  core: InferenceCore,
): string | null {
  if (core.endpoints.size === 0) return "the pool has no endpoint";
  if (expected === undefined) return "the saturation detector failed";
  if (open) return null;
  return `the expected saturation ${expected.toFixed(2)} has reached the ceiling ${ceiling.toFixed(2)}`;
}

/** Requests a second over the last full minute: those that left the queues to an endpoint, and those refused in them. */
function rates({ watch }: InferenceCore): { left: number; refused: number } {
  const { ring } = watch;
  const to = watch.second() - 1;
  const from = Math.max(ring.oldest, to - 59);
  let waited = 0;
  let refused = 0;
  const buckets = ring.buckets(from, to, HISTOGRAM.queued);
  for (const count of buckets) waited += count;
  for (let second = from; second <= to; second++) refused += ring.sum(second, SUM.refusedInQueue) || 0;
  const seconds = Math.max(1, to - from + 1);
  return { left: shown((waited - refused) / seconds) ?? 0, refused: shown(refused / seconds) ?? 0 };
}
