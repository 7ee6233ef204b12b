import type { Sender } from "./message.ts";
import type { Heard, SharedLoad } from "./shared-load.ts";

/**
 * `live`: heard within the last 3 s, so its load counts. `gone`: silent for longer. Its load counts no more, and its numbers are
 * remembered, so that a late message of its past does not count as news.
 */
export type ReplicaState = "live" | "gone";
/** `news`: a message that is newer than all before. `silence`: none for 3 s. */
export type ReplicaEvent = "news" | "silence";

export const REPLICA_STATES: Readonly<Record<ReplicaState, Readonly<Record<ReplicaEvent, ReplicaState>>>> = {
  live: { news: "live", silence: "gone" },
  gone: { news: "live", silence: "gone" },
};

/** The part of a replica's load at one address. */
export interface HeldLoad {
  readonly shared: SharedLoad;
  requests: number;
  tokens: number;
  /** The number of the message that named it last. */
  round: number;
}

/** Another replica, as its messages describe it. `PeerTable` alone changes it. */
export class Replica implements Heard {
  readonly id: string;
  epoch: number;
  sequence: number;
  state: ReplicaState = "live";
  heardAt: number;
  /** Monotonic milliseconds at which it last had load. At first, when it was first heard: a new replica is there to get traffic. */
  busyAt: number;
  /** Messages that counted. */
  messages = 0;
  /** By address. */
  readonly loads = new Map<string, HeldLoad>();

  constructor({ id, epoch }: Sender, now: number) {
    this.id = id;
    this.epoch = epoch;
    this.sequence = 0;
    this.heardAt = now;
    this.busyAt = now;
  }

  /**
   * Whether a message is newer than all before. While the replica lives, an older epoch is a late message of its past. Once it is
   * gone, any other epoch is a new life: the clock of a machine may have been set back before a restart.
   */
  isNews({ epoch, sequence }: Sender): boolean {
    if (epoch === this.epoch) return sequence > this.sequence;
    return epoch > this.epoch || this.state === "gone";
  }
}
