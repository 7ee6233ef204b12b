/**
 * The controls of `sluice demo`, on the admin port of the demo alone (`FeedHello.demo`).
 *
 * | Route | Body | Answer |
 * |---|---|---|
 * | GET `/demo/state` | | `DemoState` |
 * | POST `/demo/server` | `ServerOrder` | `DemoState`; 404 `FeedError` for an unknown name, 409 when it would stop the last server |
 * | POST `/demo/traffic` | `TrafficOrder` | `DemoState` |
 * | POST `/demo/policy` | `PolicyOrder` | `DemoState` |
 * | POST `/demo/wave` | `WaveOrder` | `DemoState` |
 *
 * A POST needs `content-type: application/json` (no foreign page can send that without a preflight, which gets no permission),
 * a body of at most 1 KiB, and no unknown field; else 400, 403, 413 or 415 with `FeedError`.
 */
export interface DemoState {
  readonly at: number;
  /** Whether the controls have an effect now; else why not. */
  readonly ready: boolean;
  readonly because: string;
  readonly servers: readonly {
    readonly name: string;
    /** As `EndpointStatics.id`. */
    readonly endpoint: string;
    readonly state: "running" | "away";
    readonly pid: number | null;
  }[];
  readonly traffic: {
    /** Requests per second that the demo sends; `TrafficOrder` sets it. */
    readonly requestsPerSecond: number;
    readonly least: number;
    readonly most: number;
  };
  readonly policy: DemoPolicy;
  /** The figures of each policy, for the comparison side by side: of the last time that it ran, from its start. */
  readonly policies: readonly DemoPolicyFigures[];
  readonly wave: {
    /** Messages of the wave in the queue, and those that ended. */
    readonly waiting: number;
    readonly inFlight: number;
    readonly done: number;
    /** `none` = no wave was sent yet. */
    readonly state: "none" | "running" | "done";
    readonly gate: string;
    readonly because: string;
    readonly etaSeconds: number | null;
  };
}

export type DemoPolicy = "round-robin" | "sluice";

export interface DemoPolicyFigures {
  readonly policy: DemoPolicy;
  /** Seconds that it ran. */
  readonly seconds: number;
  readonly requests: number;
  readonly failed: number;
  readonly ttftMs: { readonly p50: number | null; readonly p90: number | null };
  readonly outputTokensPerSecond: number;
  /** 0..1, from the servers. */
  readonly cacheHitRate: number;
}

export interface ServerOrder {
  readonly name: string;
  readonly order: "kill" | "start";
}

export interface TrafficOrder {
  readonly requestsPerSecond: number;
}

export interface PolicyOrder {
  readonly policy: DemoPolicy;
}

export interface WaveOrder {
  /** Messages to put into the queue, 1 to 500. */
  readonly count: number;
}
