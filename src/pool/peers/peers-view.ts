import type { Clock } from "../../base/clock/clock.ts";
import type { PeerRefusal } from "./message.ts";
import type { Peers, PeersState } from "./peers.ts";
import type { StoreProblem } from "./redis-problem.ts";
import type { StoreView } from "./redis-transport.ts";
import type { ReplicaState } from "./replica.ts";

/** The most endpoints that are shown of one replica. */
const MOST_ENDPOINTS = 100;

/** One other replica, as `/debug/peers` shows it. Ages are milliseconds. */
export interface ReplicaView {
  readonly id: string;
  readonly state: ReplicaState;
  /** When the replica started, by its own clock; ISO 8601. */
  readonly startedAt: string;
  /** Since its last message. */
  readonly ageMs: number;
  /** Messages of it that counted. */
  readonly messages: number;
  readonly requests: number;
  readonly tokens: number;
  /** The endpoints with its load, at most 100, and how many there are. */
  readonly endpoints: readonly { readonly endpoint: string; readonly requests: number; readonly tokens: number }[];
  readonly endpointCount: number;
}

/** `/debug/peers`. */
export interface PeersView {
  readonly self: { readonly id: string; readonly startedAt: string };
  readonly state: PeersState;
  readonly store: {
    readonly server: string;
    readonly state: "up" | StoreProblem;
    readonly since: string;
    readonly reason: string | null;
    /** How long the last batch of messages took; null = there was none. */
    readonly answerMs: number | null;
  };
  readonly replicas: readonly ReplicaView[];
  /** Loads of replicas that were left out, because all together name too many endpoints. */
  readonly ignoredLoads: number;
  readonly sent: { readonly loads: number; readonly placed: number; readonly bytes: number };
  readonly received: {
    readonly loads: number;
    readonly placed: number;
    readonly decisions: number;
    readonly blocks: number;
  };
  /** Messages about placed blocks. */
  readonly waiting: number;
  readonly dropped: number;
  readonly refused: Readonly<Record<PeerRefusal | "damaged", number>>;
}

/** Everything that this replica knows of the others, and of the way to them. */
export function peersView(peers: Peers, store: StoreView, clock: Clock): PeersView {
  const now = clock.now();
  const at = (ms: number): string => new Date(ms).toISOString();
  const replicas = [...peers.table.replicas].map((replica): ReplicaView => {
    const loads = [...replica.loads].map(([endpoint, { requests, tokens }]) => ({ endpoint, requests, tokens }));
    return {
      id: replica.id,
      state: replica.state,
      startedAt: at(startOf(replica.epoch)),
      ageMs: Math.round(now - replica.heardAt),
      messages: replica.messages,
      requests: loads.reduce((sum, { requests }) => sum + requests, 0),
      tokens: Math.round(loads.reduce((sum, { tokens }) => sum + tokens, 0)),
      endpoints: loads.slice(0, MOST_ENDPOINTS),
      endpointCount: loads.length,
    };
  });
  return {
    self: { id: peers.self.id, startedAt: at(startOf(peers.self.epoch)) },
    state: peers.state,
    store: {
      server: store.server,
      state: store.state,
      since: at(clock.wall() - (now - store.since)),
      reason: store.reason ?? null,
      answerMs: store.answerMs ?? null,
    },
    replicas,
    ignoredLoads: peers.table.ignored,
    sent: { loads: store.loads, placed: store.placed, bytes: store.bytes },
    received: {
      loads: store.loadsRead,
      placed: store.placedRead,
      decisions: peers.placedLog.counts.decisions,
      blocks: peers.placedLog.counts.blocks,
    },
    waiting: store.waiting,
    dropped: store.dropped,
    refused: { ...peers.refused, damaged: store.damaged },
  };
}

/** The wall-clock milliseconds in an epoch, as far as they are a time. */
function startOf(epoch: number): number {
  return Math.min(Math.floor(epoch / 1024), 8.64e15);
}
