import type { Clock } from "../../base/clock/clock.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import type { Backlog } from "../flowcontrol/backlog.ts";
import { FlowControl } from "../flowcontrol/flow-control.ts";
import { type QueuesView, queuesView } from "../flowcontrol/queues-view.ts";
import type { FlowControlSettings } from "../flowcontrol/settings.ts";
import { FlowMetrics, type FlowMetricsParts } from "./flow-metrics.ts";

export interface QueuesParts extends FlowMetricsParts {
  readonly clock: Clock;
  /** All endpoints that may serve: the same array until one comes or goes. */
  readonly pool: () => readonly Endpoint[];
  /** The priorities that objectives and InferenceModels have. */
  readonly priorities: () => ReadonlySet<number>;
}

/** The queues of one process, from one configuration to the next, with their metrics. */
export class Queues {
  readonly #parts: QueuesParts;
  readonly #metrics: FlowMetrics;
  /** Exists once a configuration has had flow control; then it also holds what entered before another configuration. */
  #flowControl: FlowControl | undefined;
  /** Whether the configuration in force has flow control. */
  #inForce = false;

  constructor(parts: QueuesParts) {
    this.#parts = parts;
    this.#metrics = new FlowMetrics(parts);
  }

  /** The flow control of the configuration in force; undefined where it has none. */
  get current(): FlowControl | undefined {
    return this.#inForce ? this.#flowControl : undefined;
  }

  /** The requests that wait; undefined where the configuration in force has no flow control. */
  get backlog(): Backlog | undefined {
    return this.#inForce ? this.#metrics.backlog : undefined;
  }

  /** Requests that were dispatched and count at no endpoint yet. */
  get undecided(): number {
    return this.#flowControl?.undecided ?? 0;
  }

  /** The state of the queues; undefined where the configuration in force has none. */
  view(): QueuesView | undefined {
    return this.current && queuesView(this.current);
  }

  /** Puts the flow control of a configuration in force. Without settings all waiting requests go on, in their order. */
  use(settings: FlowControlSettings | undefined): void {
    this.#inForce = settings !== undefined;
    if (settings === undefined) this.#flowControl?.letGo();
    else if (this.#flowControl !== undefined) this.#flowControl.configure(settings);
    else {
      const { clock, pool } = this.#parts;
      this.#flowControl = new FlowControl({ clock, settings, events: this.#metrics, pool, rate: this.#metrics.rate });
      this.namePriorities();
    }
  }

  /** Endpoints came, went, were scraped or got room. Runs per request. */
  changed(): void {
    this.#flowControl?.changed();
  }

  /** The objects with priorities have changed. */
  namePriorities(): void {
    this.#flowControl?.usePriorities(this.#parts.priorities());
  }

  /** Brings the gauges up to date, for one rendering of the page. */
  show(): void {
    this.#metrics.refresh(this.current);
  }

  /** Refuses the requests that wait, and further ones. */
  close(): void {
    this.#flowControl?.close();
  }
}
