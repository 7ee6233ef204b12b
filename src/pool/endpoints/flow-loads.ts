import type { Endpoint } from "../../base/inference/endpoint.ts";
import { InFlightCounts } from "./pool-endpoint.ts";

/** Most entries, those at zero included. */
export const MAX_FLOW_LOADS = 4096;

/** The flow that the requests belong to; of bounded variety, as it becomes label values. */
export interface Flow {
  readonly fairnessId: string;
  readonly priority: string;
}

/** The load of one flow in flight at one endpoint. */
export class FlowLoad extends InFlightCounts {
  readonly endpoint: Endpoint;
  readonly flow: Flow;

  constructor(endpoint: Endpoint, flow: Flow) {
    super();
    this.endpoint = endpoint;
    this.flow = flow;
  }
}

/** The shared entry, for flows that have no entry of their own. */
const OTHERS: Flow = { fairnessId: "other", priority: "other" };

/**
 * Splits the load in flight by flow, for the gauges (scheduling 3.12, 8.5). An entry at zero stays until another one needs its
 * place, so that the gauge shows 0 rather than nothing. When all places are taken, further flows share one entry of the
 * endpoint.
 */
export class FlowLoads {
  /** By endpoint, then fairness ID and priority; the first of the map is the oldest. */
  readonly #loads = new Map<Endpoint, Map<string, FlowLoad>>();
  #size = 0;

  /**
   * Counts one more request.
   * @returns the entry that counts it, for `leave`
   */
  enter(endpoint: Endpoint, flow: Flow, tokens: number): FlowLoad {
    const load = this.#loads.get(endpoint)?.get(keyOf(flow)) ?? this.#add(endpoint, flow);
    load.requests++;
    load.tokens += tokens;
    return load;
  }

  /** The endpoint has left: its entries are no longer shown. Requests on their way to it still count in them, unseen. */
  forget(endpoint: Endpoint): void {
    this.#size -= this.#loads.get(endpoint)?.size ?? 0;
    this.#loads.delete(endpoint);
  }

  *[Symbol.iterator](): Iterator<FlowLoad> {
    for (const loads of this.#loads.values()) yield* loads.values();
  }

  #add(endpoint: Endpoint, flow: Flow): FlowLoad {
    if (this.#size >= MAX_FLOW_LOADS) this.#makeRoom();
    if (this.#size >= MAX_FLOW_LOADS && flow !== OTHERS)
      return this.#loads.get(endpoint)?.get(keyOf(OTHERS)) ?? this.#add(endpoint, OTHERS);
    let loads = this.#loads.get(endpoint);
    if (loads === undefined) {
      loads = new Map();
      this.#loads.set(endpoint, loads);
    }
    const load = new FlowLoad(endpoint, flow);
    loads.set(keyOf(flow), load);
    this.#size++;
    return load;
  }

  /** Removes every entry at zero: to search for one at a time would cost as much each time. */
  #makeRoom(): void {
    for (const [endpoint, loads] of this.#loads) {
      for (const [key, load] of loads) {
        if (load.requests > 0) continue;
        loads.delete(key);
        this.#size--;
      }
      if (loads.size === 0) this.#loads.delete(endpoint);
    }
  }
}

function keyOf({ fairnessId, priority }: Flow): string {
  return `${priority}\n${fairnessId}`;
}
