import type { EventRing } from "../../../base/telemetry/event-ring.ts";
import type { PeersState } from "../../../pool/peers/peers.ts";
import type { ReplicaState } from "../../../pool/peers/replica.ts";
import type { ProcessEventKind } from "./process-events.ts";

/** What is seen of the other replicas, and of the store between them. */
interface Seen {
  readonly state: PeersState;
  /** Why the store is away; "" = it is not. */
  readonly reason: string;
  readonly table: { readonly replicas: Iterable<{ readonly id: string; readonly state: ReplicaState }> };
}

/** Reports replicas that join and fall silent, and a store that is lost and comes back, as events of the page. */
export class ReplicaWatch {
  readonly #events: Pick<EventRing<ProcessEventKind>, "add">;
  /** As many as the table of replicas has. */
  #known: ReadonlyMap<string, ReplicaState> = new Map();
  #isAway = false;

  constructor(events: Pick<EventRing<ProcessEventKind>, "add">) {
    this.#events = events;
  }

  /** Compares with the last look. Call it once a second. */
  look({ state, reason, table }: Seen): void {
    const present = new Map<string, ReplicaState>();
    for (const replica of table.replicas) {
      present.set(replica.id, replica.state);
      const before = this.#known.get(replica.id);
      if (replica.state === "live" && before !== "live")
        this.#events.add("replica-joined", replica.id, `replica ${replica.id} joined`);
      else if (replica.state === "gone" && before === "live")
        this.#events.add("replica-gone", replica.id, `replica ${replica.id} is silent; its load no longer counts`);
    }
    this.#known = present;
    const isAway = state === "away";
    if (isAway && !this.#isAway)
      this.#events.add(
        "store-away",
        "",
        `the store of the replicas does not answer${reason === "" ? "" : `: ${reason}`}`,
      );
    else if (!isAway && this.#isAway && state !== "closed")
      this.#events.add("store-back", "", "the store of the replicas answers again");
    this.#isAway = isAway;
  }
}
