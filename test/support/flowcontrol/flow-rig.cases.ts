import { VirtualClock } from "../../../src/base/clock/virtual.ts";
import type { Endpoint } from "../../../src/base/inference/endpoint.ts";
import { Rejection } from "../../../src/base/inference/outcomes.ts";
import type { SaturationDetector, ServedTokens } from "../../../src/base/plugin/flow-kinds.ts";
import type { Waiter } from "../../../src/picker/flowcontrol/flow.ts";
import { FlowControl, type Ticket } from "../../../src/picker/flowcontrol/flow-control.ts";
import { NOT_YET_FINALIZED } from "../../../src/picker/flowcontrol/queue-outcomes.ts";
import type { FlowControlSettings } from "../../../src/picker/flowcontrol/settings.ts";
import { endpointOf, requestOf } from "../scheduling/fakes.cases.ts";
import { PLAIN, type PlainSettings, settingsOf } from "./plain-policies.cases.ts";

/** What a test says about a request. */
export interface RigRequest {
  readonly priority?: number;
  readonly flow?: string;
  readonly bytes?: number;
  /** What its waiter does, besides being logged. */
  readonly dispatched?: () => void;
  readonly evicted?: (rejection: Rejection) => void;
  readonly revoked?: () => void;
}

export const NO_USAGE: ServedTokens = { promptTokens: Number.NaN, completionTokens: Number.NaN };

/** Flow control in virtual time, with a pool and a saturation that the test sets. */
export class FlowRig {
  readonly clock = new VirtualClock();
  readonly flow: FlowControl;
  /** What happened, in order: `a Dispatched`, and the time where it is not 0: `b EvictedTTL 2000`. */
  readonly log: string[] = [];
  /** What the events of flow control reported. */
  readonly entered: string[] = [];
  readonly left: string[] = [];
  readonly enqueued: string[] = [];
  readonly strange: number[] = [];
  readonly revocations: string[] = [];
  readonly failures: string[] = [];
  cycles = 0;
  pool: readonly Endpoint[] = [endpointOf(0)];
  load = 1;
  /** What each request in flight adds to the load. */
  perRequest = 0;
  running = 0;
  readonly tickets = new Map<string, Ticket>();

  constructor(plain: Partial<PlainSettings> = {}, replaced: Partial<FlowControlSettings> = {}) {
    const note = (list: string[], what: string): void => void list.push(what);
    this.flow = new FlowControl({
      clock: this.clock,
      pool: () => this.pool,
      settings: this.settings(plain, replaced),
      events: {
        entered: ({ fairnessId, priority }, { bytes }) => note(this.entered, `${fairnessId} ${priority} ${bytes}`),
        left: ({ fairnessId, priority }, { bytes }, outcome, waited) =>
          note(this.left, `${fairnessId} ${priority} ${bytes} ${outcome} ${waited}`),
        passed: ({ fairnessId, priority }, { bytes }, took) => {
          note(this.entered, `${fairnessId} ${priority} ${bytes}`);
          note(this.enqueued, NOT_YET_FINALIZED);
          this.cycles++;
          note(this.left, `${fairnessId} ${priority} ${bytes} Dispatched ${took}`);
        },
        enqueued: (_flow, outcome) => note(this.enqueued, outcome),
        cycled: () => this.cycles++,
        revoked: (demand) => note(this.revocations, `for ${demand}`),
        revocationEnded: (outcome, took) => note(this.revocations, `${outcome} ${took}`),
        strangePriority: (priority) => this.strange.push(priority),
        failed: (policy, error) => note(this.failures, `${policy}: ${(error as Error).message}`),
      },
    });
  }

  readonly detector: SaturationDetector = {
    saturation: () => this.load,
    expected: (_endpoints, _now, further) => this.load + (this.running + further) * this.perRequest,
  };

  settings(plain: Partial<PlainSettings>, replaced: Partial<FlowControlSettings> = {}): FlowControlSettings {
    return { ...settingsOf({ ...PLAIN, ...plain }, this.detector), ...replaced };
  }

  enter(id: string, { priority = 0, flow = id, bytes = 1, ...told }: RigRequest = {}): Ticket | Rejection {
    const waiter: Waiter = {
      dispatched: () => {
        this.#log(`${id} Dispatched`);
        told.dispatched?.();
      },
      evicted: (rejection) => {
        this.#log(`${id} ${rejection.reason}`);
        told.evicted?.(rejection);
      },
      revoke: () => {
        this.#log(`${id} revoked`);
        told.revoked?.();
      },
    };
    const request = { ...requestOf(""), id, priority, fairnessId: flow };
    const reply = this.flow.enter(request, bytes, this.clock.now(), waiter);
    if (reply instanceof Rejection) this.#log(`${id} refused ${reply.reason}`);
    else {
      this.tickets.set(id, reply);
      if (!reply.waiting) this.#log(`${id} goes on`);
    }
    return reply;
  }

  /** Each of the names enters on its own. */
  enterAll(names: string, request: RigRequest = {}): void {
    for (const id of names.split(" ")) this.enter(id, request);
  }

  ticket(id: string): Ticket {
    return this.tickets.get(id)!;
  }

  /** Sets the load and says so. */
  loadIs(load: number): this {
    this.load = load;
    this.flow.changed();
    this.clock.advance(0);
    return this;
  }

  poolIs(...endpoints: readonly Endpoint[]): this {
    this.pool = endpoints;
    this.flow.changed();
    this.clock.advance(0);
    return this;
  }

  /** The log since the last call. */
  news(): string[] {
    return this.log.splice(0);
  }

  get counters(): { requests: number; bytes: number; undecided: number } {
    const { requests, bytes, undecided } = this.flow;
    return { requests, bytes, undecided };
  }

  #log(what: string): void {
    const at = this.clock.now();
    this.log.push(at === 0 ? what : `${what} ${at}`);
  }
}
