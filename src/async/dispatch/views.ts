import type { BudgetUnit } from "../../base/plugin/gate.ts";
import type { CapacityState, SharedCapacity } from "../gates/budget/capacity.ts";
import type { BacklogPoller } from "./backlog-poller.ts";
import { STATES } from "./claim-plan.ts";
import type { Dispatcher } from "./dispatcher.ts";

/** The content of `/debug/gates`: every capacity with its figures, and the reason why a queue claims nothing. */
export function gatesView(dispatcher: Dispatcher, wall: number): object {
  return {
    capacities: [...dispatcher.capacities.values()].map((capacity) => capacityView(capacity, dispatcher, wall)),
    // How tokens are estimated, where a capacity counts them.
    bytesPerToken: dispatcher.costs.list(),
    queues: dispatcher.consumers.map((consumer) => ({
      queue: consumer.queue.name,
      pool: consumer.queue.workerPoolId,
      gate: consumer.queue.gate?.type ?? "none",
      state: consumer.state,
      because: STATES[consumer.state].because,
      heldByGate: consumer.keptByGate,
      capacities: consumer.admission.capacities.map(({ source }) => source.key),
    })),
    pools: dispatcher.pools.map(({ settings, running }) => ({
      pool: settings.id,
      gate: settings.gate?.type ?? "none",
      workers: settings.workers,
      running,
    })),
  };
}

/** The content of `/debug/queues`. */
export function queuesView(dispatcher: Dispatcher, backlog: BacklogPoller): object {
  return {
    claims: dispatcher.claims,
    unwritten: dispatcher.writer.pending,
    queues: dispatcher.consumers.map((consumer) => {
      const view = backlog.views.get(consumer.queue.name);
      return {
        queue: consumer.queue.name,
        state: consumer.state,
        ...(view === undefined
          ? {}
          : {
              waiting: known(view.waiting),
              claimed: known(view.claimed),
              retries: known(view.retries),
              dead: known(view.dead),
              nextDeadline: known(view.nextDeadline),
              oldestAgeSeconds: known(view.age),
              endedPerSecond: known(view.rate),
              etaSeconds: known(view.eta),
            }),
        ended: consumer.outcomes.ended,
      };
    }),
  };
}

/** One capacity with its figures. JSON has neither NaN nor Infinity, so an unknown number is null. */
export interface CapacityView {
  readonly capacity: string;
  readonly state: CapacityState;
  readonly because: string;
  readonly D: number | null;
  readonly B: number | null;
  readonly maxSys: number | string;
  readonly unit: BudgetUnit;
  readonly N: number;
  /** Own work in flight, in `unit`. */
  readonly own: number;
  readonly moreMayStart: number | null;
  readonly kind: string;
  readonly sampleAgeSeconds: number | null;
  readonly latched: boolean;
}

/** @param wall the present time in Unix milliseconds */
export function capacityView(capacity: SharedCapacity, dispatcher: Dispatcher, wall: number): CapacityView {
  const { reading, state } = capacity;
  const workers = Math.max(0, ...dispatcher.pools.map(({ settings }) => settings.workers));
  return {
    capacity: capacity.source.key,
    state,
    because: reasons(capacity, wall),
    D: known(reading.budget),
    B: known(reading.baseline),
    maxSys: reading.maxSys ?? `the pool's workers (${workers})`,
    unit: reading.unit,
    N: capacity.total(workers),
    own: capacity.own,
    // N belongs to the sample, which contains the running messages; this figure is current.
    moreMayStart: known(capacity.allowance({ queueName: "", workers, share: 1 })),
    kind: reading.kind,
    sampleAgeSeconds: known((wall - reading.sampleTime) / 1000),
    latched: state === "latched",
  };
}

/** Why a capacity is in its state, for people. */
export function reasons({ reading, state, latchedAt, own }: SharedCapacity, wall: number): string {
  switch (state) {
    case "unknown":
      return "the metric has not been read yet";
    case "unreadable":
      return `the metric cannot be read: ${reading.problem}`;
    case "latched":
      return `the gateway reported overload ${((wall - latchedAt) / 1000).toFixed(1)} s ago, and no later sample has arrived`;
    case "closed":
      return own > 0
        ? `budget D ${reading.budget.toFixed(3)} is not above baseline B ${reading.baseline}; ${own} of the running requests are from this dispatcher`
        : `budget D ${reading.budget.toFixed(3)} is not above baseline B ${reading.baseline}`;
    case "open":
      return `budget D ${reading.budget.toFixed(3)} is above baseline B ${reading.baseline}`;
  }
}

/** JSON has neither NaN nor Infinity. */
function known(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}
