/** The answer of `/debug/peers`, as far as the page shows it. A process that shares nothing with other replicas answers 404. */
export interface PeersFeed {
  readonly self: { readonly id: string; readonly startedAt: string };
  /** `connecting`, `catching-up`, `in-step`, `away` or `closed`. */
  readonly state: string;
  /** The Redis or Valkey through which the replicas share. */
  readonly store: {
    readonly server: string;
    /** `up`, or the problem. */
    readonly state: string;
    /** ISO 8601. */
    readonly since: string;
    readonly reason: string | null;
    /** How long the last batch of messages took; null = there was none. */
    readonly answerMs: number | null;
  };
  /** The others. */
  readonly replicas: readonly PeerFeed[];
  readonly sent: { readonly loads: number; readonly placed: number; readonly bytes: number };
  readonly received: {
    readonly loads: number;
    readonly placed: number;
    readonly decisions: number;
    readonly blocks: number;
  };
  /** Messages about placed blocks that wait for the store, and those that were dropped. */
  readonly waiting: number;
  readonly dropped: number;
  /** Messages that do not count, by reason. */
  readonly refused: Readonly<Record<string, number>>;
}

/** Another replica. */
export interface PeerFeed {
  readonly id: string;
  /** `live`: heard within the last 3 s, so its load counts. */
  readonly state: "live" | "gone";
  /** By its own clock; ISO 8601. */
  readonly startedAt: string;
  /** Milliseconds since its last message. */
  readonly ageMs: number;
  readonly messages: number;
  /** In flight. */
  readonly requests: number;
  readonly tokens: number;
  /** The endpoints with its load, at most 100, and how many there are. */
  readonly endpoints: readonly { readonly endpoint: string; readonly requests: number; readonly tokens: number }[];
  readonly endpointCount: number;
}
