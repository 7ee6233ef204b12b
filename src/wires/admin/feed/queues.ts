/** The answer of `/debug/feed/queues`. */
export type QueuesFeed = FlowControlFeed | NoFlowControl | DispatchFeed;

/** Flow control is off: no request waits. */
export interface NoFlowControl {
  readonly kind: "off";
  readonly at: number;
  /** How to turn it on. */
  readonly text: string;
}

/** The queues of flow control in a gateway or picker. */
export interface FlowControlFeed {
  readonly kind: "flow-control";
  readonly at: number;
  readonly requests: number;
  readonly bytes: number;
  readonly maxRequests: number | null;
  readonly maxBytes: number | null;
  /** 1 = full; null = the detector failed, see `problem`. */
  readonly saturation: number | null;
  /** With what was sent since the last scrape. */
  readonly expected: number | null;
  readonly stages: Readonly<Partial<Record<"prefill" | "decode", number>>>;
  readonly problem: string | null;
  /** Requests per second that left the queues, and of those refused, over the last minute. */
  readonly leftPerSecond: number;
  readonly refusedPerSecond: number;
  /** Highest priority first. */
  readonly bands: readonly BandFeed[];
}

export interface BandFeed {
  readonly priority: number;
  readonly requests: number;
  readonly bytes: number;
  readonly maxRequests: number | null;
  readonly maxBytes: number | null;
  /** Saturation from which it holds back. */
  readonly ceiling: number;
  readonly open: boolean;
  /** What holds it back, in one sentence; null = it is open or empty. */
  readonly heldBy: string | null;
  /** Fairness IDs with waiting requests. */
  readonly flowCount: number;
  /** The longest flows, at most 8. */
  readonly flows: readonly { readonly fairnessId: string; readonly requests: number; readonly headWaitMs: number }[];
}

/** The queues, gates and capacities of a dispatcher. */
export interface DispatchFeed {
  readonly kind: "dispatch";
  readonly at: number;
  /** Messages under a lease of this dispatcher, and results that the broker does not have yet. */
  readonly claims: number;
  readonly unwritten: number;
  /** Why messages cannot be claimed or results cannot be written; null = they can. The counts are then the last known ones. */
  readonly brokerProblem: string | null;
  readonly capacities: readonly CapacityFeed[];
  readonly queues: readonly QueueFeed[];
  /** Why the messages of this transport cannot be listed and cancelled here, and what to do; null = they can. */
  readonly noMessages: string | null;
  readonly pools: readonly {
    readonly pool: string;
    readonly gate: string;
    readonly workers: number;
    readonly running: number;
  }[];
}

export interface CapacityFeed {
  readonly capacity: string;
  readonly state: "unknown" | "unreadable" | "latched" | "closed" | "open";
  readonly because: string;
  readonly D: number | null;
  readonly B: number | null;
  /** A number in `unit`, or a text such as `the pool's workers (64)`. */
  readonly maxSys: number | string;
  readonly unit: "requests" | "tokens" | "bytes";
  readonly N: number;
  /** Own work in flight, in `unit`. */
  readonly own: number;
  readonly moreMayStart: number | null;
  readonly sampleAgeSeconds: number | null;
  /** Changes of `state` in the last 15 minutes, the oldest first, at most 64. */
  readonly timeline: readonly {
    readonly at: number;
    readonly state: CapacityFeed["state"];
    readonly because: string;
  }[];
}

export interface QueueFeed {
  readonly queue: string;
  readonly pool: string;
  readonly gate: string;
  readonly state: string;
  readonly because: string;
  readonly heldByGate: number;
  readonly capacities: readonly string[];
  /** Null = not known: the broker was not asked yet, or cannot tell. */
  readonly waiting: number | null;
  readonly claimed: number | null;
  readonly retries: number | null;
  readonly dead: number | null;
  readonly oldestAgeSeconds: number | null;
  readonly endedPerSecond: number | null;
  readonly etaSeconds: number | null;
  /** The nearest deadline of a waiting message, Unix seconds. */
  readonly nextDeadline: number | null;
  /** Whether the backlog ends before the nearest deadline at the present rate; null = not known. */
  readonly makesIt: boolean | null;
  /** Messages that ended in this process. */
  readonly ended: number;
}
