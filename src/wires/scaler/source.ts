/** The requests that wait, as far as autoscalers ask. */
export interface ScalerBacklog {
  /** @param from counts requests of this priority and above; default: all */
  figures(from?: number): {
    readonly requests: number;
    readonly bytes: number;
    readonly tokens: number;
    readonly waitSeconds: number;
  };
  /** Calls `listener` after every request that comes, until the returned function is called. */
  onEntered(listener: () => void): () => void;
}

/** The picker as the scaler sees it. */
export interface ScalerSource {
  /** Undefined = the configuration in force has no flow control. */
  readonly backlog: ScalerBacklog | undefined;
  /** Requests that model servers work on. */
  readonly inFlight: number;
}
