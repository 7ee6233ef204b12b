import { messageOf } from "../../base/inference/errors.ts";
import type { BandLoad, QueueLoad } from "./band.ts";
import type { FlowControl } from "./flow-control.ts";

/** The most characters of a fairness ID that are shown: clients choose it. */
const MAX_SHOWN = 256;

/** A load with its limits; null = no limit. */
interface ShownLoad {
  readonly requests: number;
  readonly bytes: number;
  readonly maxRequests: number | null;
  readonly maxBytes: number | null;
}

/** A band on the debug page. */
interface ShownBand extends ShownLoad {
  readonly priority: number;
  /** The band dispatches while the expected saturation is below this. */
  readonly ceiling: number;
  /** Whether it may dispatch now. */
  readonly open: boolean;
  /** Fairness IDs with queued requests. */
  readonly flows: number;
  /** The flows with the most requests, the longest first; waits in milliseconds. */
  readonly longest: readonly {
    readonly fairnessId: string;
    readonly requests: number;
    readonly headWaitMs: number;
  }[];
}

/** The state of flow control, as `/debug/queues` shows it. */
export interface QueuesView extends ShownLoad {
  /** Requests that were dispatched and count at no endpoint yet. */
  readonly undecided: number;
  /** The detector's figure for each stage and for the pool; `expected` counts what was sent at once. */
  readonly saturation:
    | { readonly prefill?: number; readonly decode?: number; readonly effective: number; readonly expected: number }
    | { readonly error: string };
  /** Highest priority first. */
  readonly bands: readonly ShownBand[];
}

/** Returns the present state of flow control, ready for JSON. */
export function queuesView(
  flowControl: Pick<FlowControl, "bands" | "expected" | "load" | "saturation" | "undecided">,
): QueuesView {
  const expected = flowControl.expected();
  return {
    ...shownLoad(flowControl.load()),
    undecided: flowControl.undecided,
    saturation: shownSaturation(flowControl, expected),
    bands: flowControl.bands().map((band) => ({
      priority: band.priority,
      ...shownLoad(band),
      ceiling: band.ceiling,
      open: expected < band.ceiling,
      flows: band.flows,
      longest: band.longest.map(({ fairnessId, requests, headWait }) => ({
        ...{ fairnessId: fairnessId.slice(0, MAX_SHOWN), requests },
        headWaitMs: Math.round(headWait),
      })),
    })),
  };
}

function shownLoad({ requests, bytes, maxRequests, maxBytes }: QueueLoad | BandLoad): ShownLoad {
  const limit = (max: number): number | null => (max === Number.POSITIVE_INFINITY ? null : max);
  return { requests, bytes, maxRequests: limit(maxRequests), maxBytes: limit(maxBytes) };
}

function shownSaturation(flowControl: Pick<FlowControl, "saturation">, expected: number): QueuesView["saturation"] {
  try {
    const { prefill, decode, effective } = flowControl.saturation();
    return {
      ...(prefill === undefined ? {} : { prefill }),
      ...(decode === undefined ? {} : { decode }),
      ...{ effective, expected },
    };
  } catch (error) {
    return { error: `the saturation detector failed: ${messageOf(error)}` };
  }
}
