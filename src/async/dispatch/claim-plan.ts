import type { QueueSettings } from "../brokers/settings.ts";

/** The activity of a queue's consumer, or the reason why it claims nothing. `/debug/queues` and `/debug/gates` show it. */
export type ConsumerState = keyof typeof STATES;

/** Something that happens to a consumer. */
export type ConsumerEvent =
  /** The queue may hold messages that it did not hold before. */
  | "announced"
  /** Room became free in a capacity or a gate. */
  | "room freed"
  /** A capacity that was closed is open. */
  | "gate opened"
  /** The time of the next check has come, without an announcement. */
  | "due"
  | "claim begun"
  /** A plan or a claim found no room in the capacities. */
  | "no room"
  /** The claim found the queue empty. */
  | "nothing waits"
  /** The broker says that something waits, but gives nothing. */
  | "nothing given"
  /** The claim ended, and more may wait. */
  | "more waits"
  /** A claimed message does not fit into the capacities, or the gate lets no message pass. */
  | "no fit"
  | "gate closed"
  | "gate failed"
  | "broker away"
  | "stop";

interface State {
  /** The reason, for users. */
  readonly because: string;
  /** The next state after each event; every other event changes nothing. */
  readonly on: { readonly [event in ConsumerEvent]?: string };
}

/** All states and transitions of a consumer. */
export const STATES = {
  flowing: {
    because: "a message goes out when a worker is free",
    on: {
      "claim begun": "claiming",
      "no room": "full",
      "no fit": "blocked",
      "gate failed": "failing",
      stop: "stopped",
    },
  },
  claiming: {
    because: "waits for messages from the broker, or for the verdict of the gate",
    on: {
      "more waits": "flowing",
      "nothing waits": "empty",
      "nothing given": "empty",
      "no room": "full",
      "no fit": "blocked",
      "gate closed": "closed",
      "gate failed": "failing",
      "broker away": "unavailable",
      stop: "stopped",
    },
  },
  empty: {
    because: "nothing waits",
    on: { announced: "flowing", due: "flowing", "no fit": "blocked", "gate failed": "failing", stop: "stopped" },
  },
  full: {
    because: "the requests in flight use the whole capacity, or too many results wait to be written",
    on: { "claim begun": "claiming", due: "flowing", "no fit": "blocked", "gate failed": "failing", stop: "stopped" },
  },
  blocked: {
    because: "waits until a request in flight ends: the next message needs room in the capacity or at its gate",
    on: { "room freed": "flowing", due: "flowing", "gate failed": "failing", stop: "stopped" },
  },
  closed: {
    because: "a gate is closed (see its capacity)",
    on: { "gate opened": "flowing", due: "flowing", "gate failed": "failing", stop: "stopped" },
  },
  failing: {
    because: "the gate of the queue failed (see the log)",
    on: { due: "flowing", stop: "stopped" },
  },
  unavailable: {
    because: "the store of the queue does not answer",
    on: { due: "flowing", stop: "stopped" },
  },
  stopped: {
    because: "the process ends",
    on: {},
  },
} as const satisfies Readonly<Record<string, State>>;

/** The state after an event; the same state where the event changes nothing. */
export function nextState(state: ConsumerState, event: ConsumerEvent): ConsumerState {
  const { on }: { readonly on: { readonly [event in ConsumerEvent]?: ConsumerState } } = STATES[state];
  return on[event] ?? state;
}

/** The facts about one queue that a plan needs. */
export interface QueueView {
  readonly state: ConsumerState;
  /** Messages on their way back into the queue: a claim before they arrive would miss them. */
  readonly returning: number;
  /** While `claiming`: the queue would use more room in its capacities if there were more. */
  readonly wantsRoom: boolean;
  /** The broker was not asked for a while: messages may have expired in the queue. */
  readonly overdue: boolean;
  readonly queue: Pick<QueueSettings, "maxQueueShare">;
  readonly gate: {
    /** Messages that wait at the gate; each takes one place of the queue's room. */
    readonly waiting: number;
    /** The gate must see messages even while the capacities are closed. */
    readonly judgesWhenClosed: boolean;
  };
  /** `full`: the hold has all the refused messages it can hold, so no more may be claimed. */
  readonly hold: { readonly full: boolean };
  /** The capacities that the messages spend. */
  readonly admission: {
    readonly capacities: readonly unknown[];
    readonly room: "free" | "full" | "closed";
    /** How many messages of the usual cost may go, at most `most`. */
    affordable(most: number): number;
  };
}

/** The facts about a pool that a plan needs. */
export interface WorkerPoolView<Q extends QueueView> {
  /** In the order of their turns, for queues of equal urgency. */
  readonly queues: readonly Q[];
  readonly policy: {
    /** How many more messages of the queue the policy takes. */
    room(queue: Q["queue"], freeWorkers: number): number;
    /** A queue with a smaller number comes first. */
    urgency?(queue: Q["queue"]): number;
  };
  /** Idle workers, and workers that end their message in a moment; without the workers that running claims will use. */
  readonly freeWorkers: number;
  /** True: too many results wait to be written, so no more messages may be claimed. */
  readonly writerFull: boolean;
  /** Most messages of one claim; undefined = no limit. */
  readonly batchCap: number | undefined;
}

/** The next step of one consumer. */
export interface ClaimAction<Q> {
  readonly queue: Q;
  /**
   * `claim`: claims messages. `claim expired`: claims only expired messages, because their owners would otherwise get no result
   * before there is room. `wait`: claims nothing, because there is no room.
   */
  readonly kind: "claim" | "claim expired" | "wait";
  /** The most messages that it may claim; 0 unless `claim`. */
  readonly room: number;
  /** Messages on their way, as the other queues of the pool count them; 0 unless `claim`. */
  readonly expected: number;
  /** True: the capacities are short. False: the workers are. */
  readonly full: boolean;
  /** The queue would use more room in its capacities: less urgent queues leave that room to it. */
  readonly wantsRoom: boolean;
}

/**
 * Decides what every queue of a pool claims now. Pure: equal views give equal plans. A queue without an action does nothing.
 * The most urgent queue is planned first. A queue waits when a more urgent queue wants room in the same capacities.
 */
export function planClaims<Q extends QueueView>(pool: WorkerPoolView<Q>): readonly ClaimAction<Q>[] {
  const plan: ClaimAction<Q>[] = [];
  const wanting: { readonly queue: Q; readonly urgency: number }[] = [];
  let free = pool.freeWorkers;
  for (const { queue, urgency } of byUrgency(pool)) {
    const yields = wanting.some((other) => other.urgency < urgency && shareCapacity(other.queue, queue));
    const action = actionOf(queue, yields, free, pool);
    if (action !== undefined) plan.push(action);
    free = Math.max(0, free - (action?.expected ?? 0));
    if (queue.state === "claiming" ? queue.wantsRoom : action?.wantsRoom) wanting.push({ queue, urgency });
  }
  return plan;
}

/** How many messages may be claimed that can leave; computed again after the capacities are read. @param room of the plan */
export function claimable({ admission, gate }: QueueView, room: number, batchCap: number | undefined): number {
  if (room <= 0) return 0;
  const most = Math.min(room, batchCap ?? room);
  // A gate that drops or keeps messages must see one even when none may go, and all of them when the capacities are closed.
  if (gate.judgesWhenClosed && admission.room === "closed") return most;
  return Math.max(gate.judgesWhenClosed ? 1 : 0, admission.affordable(most));
}

function actionOf<Q extends QueueView>(
  queue: Q,
  yields: boolean,
  free: number,
  { policy, writerFull, batchCap }: WorkerPoolView<Q>,
): ClaimAction<Q> | undefined {
  if ((queue.state !== "flowing" && queue.state !== "full") || queue.returning > 0) return undefined;
  const waits = { queue, room: 0, expected: 0, full: true, wantsRoom: false } as const;
  // Expired messages stay, too: their results would only wait here.
  if (writerFull) return { ...waits, kind: "wait" };
  const kind = queue.overdue ? "claim expired" : "wait";
  if (yields) return { ...waits, kind };
  const room = policy.room(queue.queue, free) - queue.gate.waiting;
  if (room <= 0 || queue.hold.full) return queue.overdue ? { ...waits, kind, full: false } : undefined;
  // A queue with a limited share does not want room beyond its share.
  const wantsRoom = queue.queue.maxQueueShare >= 1;
  const most = claimable(queue, room, batchCap);
  if (most === 0 && queue.admission.room !== "closed") return { ...waits, kind, wantsRoom };
  return { queue, kind: "claim", room, expected: Math.max(1, most), full: false, wantsRoom };
}

function byUrgency<Q extends QueueView>({ queues, policy }: WorkerPoolView<Q>): { queue: Q; urgency: number }[] {
  const order = queues.map((queue) => ({ queue, urgency: policy.urgency?.(queue.queue) ?? 0 }));
  return policy.urgency === undefined ? order : order.sort((a, b) => a.urgency - b.urgency);
}

function shareCapacity(a: QueueView, b: QueueView): boolean {
  return a.admission.capacities.some((capacity) => b.admission.capacities.includes(capacity));
}
