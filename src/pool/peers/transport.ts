/**
 * What carries messages between the replicas of one picker. Nothing here waits: every call returns at once, and every queue behind it
 * is bounded. A message may be lost, arrive twice, or arrive late; the receiving side heals (`PeerTable`).
 */
export interface PeerTransport {
  /** The whole load of this replica (`encodeLoad`). A newer message replaces an older one that still waits; any may be lost. */
  publishLoad(message: Uint8Array): void;
  /** Appends to the shared, capped log what decisions newly placed (`encodePlaced`). A full queue drops the message and counts it. */
  appendPlaced(message: Uint8Array): void;
  /** Called once, before any other call. */
  start(receiver: PeerReceiver): void;
  /** Ends the connections. No call to the receiver comes after it has resolved. */
  close(): Promise<void>;
}

/** The side that takes messages in. No call of it throws, whatever the bytes are. The bytes are read before the call returns. */
export interface PeerReceiver {
  /**
   * A load message of some replica, also of this one: the receiver skips its own.
   * @param ageMs milliseconds for which the store has kept it; absent = it has just been sent
   */
  load(message: Uint8Array, ageMs?: number): void;
  /** A message of the log, in the log's order for each sender. Replays are harmless. */
  placed(message: Uint8Array): void;
  /** The store became reachable or unreachable; `reason` says why it is not. */
  connection(up: boolean, reason?: string): void;
  /** The end that the log had when the connection began has been read. Called once for each connection. */
  caughtUp(): void;
}
