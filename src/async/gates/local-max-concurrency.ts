import { z } from "zod";
import { SluiceError } from "../../base/inference/errors.ts";
import {
  CONTINUE,
  type DispatchGate,
  defineGate,
  type GateMessage,
  type GateVerdict,
  REFUSE,
  type Reservations,
  WAIT,
} from "../../base/plugin/gate.ts";
import { choiceParameter, intParameter } from "./parameters.ts";

/** Most messages that wait in place for a slot of one gate; later messages are asked about again. */
export const MAX_WAITERS = 10_000;

interface Waiter {
  readonly admit: () => void;
  readonly fail: (reason: unknown) => void;
}

/**
 * Lets at most `limit` messages of this process through at a time (async-processor 3.5). It counts whole messages, not a share
 * of a batch, so it fills to the last slot.
 */
export class LocalMaxConcurrency implements DispatchGate {
  readonly capacities = [];
  readonly #limit: number;
  readonly #blocking: boolean;
  #inFlight = 0;
  #closed = false;
  /** In the order of arrival: a set keeps it, and a message that gives up can leave. */
  readonly #waiters = new Set<Waiter>();
  /** The same function for every message: a message that leaves frees only the slot. */
  readonly #release = (): void => {
    const [first] = this.#waiters;
    if (first === undefined) this.#inFlight--;
    else first.admit();
  };

  /**
   * @param limit whole, >= 1
   * @param blocking true: a message without a slot waits in place until there is one, or until the verdict is no longer wanted
   */
  constructor(limit: number, blocking: boolean) {
    this.#limit = limit;
    this.#blocking = blocking;
  }

  async budget(): Promise<number> {
    return (this.#limit - this.#inFlight) / this.#limit;
  }

  apply(message: GateMessage, reservations: Reservations): GateVerdict | Promise<GateVerdict> {
    if (this.#inFlight < this.#limit) {
      this.#inFlight++;
      reservations.add(this.#release);
      return CONTINUE;
    }
    if (!this.#blocking) return REFUSE;
    return this.#waiters.size < MAX_WAITERS ? this.#wait(message, reservations) : WAIT;
  }

  #wait({ signal }: GateMessage, reservations: Reservations): Promise<GateVerdict> {
    if (signal.aborted) return Promise.reject(signal.reason);
    if (this.#closed) return Promise.reject(closedError());
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        this.#waiters.delete(waiter);
        signal.removeEventListener("abort", onAbort);
      };
      const waiter: Waiter = {
        admit() {
          leave();
          // The slot passes to the next message: the count in flight stays as it is.
          reservations.add(release);
          resolve(CONTINUE);
        },
        fail(reason) {
          leave();
          reject(reason);
        },
      };
      const release = this.#release;
      const onAbort = (): void => waiter.fail(signal.reason);
      signal.addEventListener("abort", onAbort, { once: true });
      this.#waiters.add(waiter);
    });
  }

  /** At its limit it refuses every message. */
  refusalKey(): string {
    return "";
  }

  /** Messages that wait in place are no longer let in. */
  close(): void {
    this.#closed = true;
    for (const waiter of [...this.#waiters]) waiter.fail(closedError());
  }
}

function closedError(): SluiceError {
  return new SluiceError("GATE_CLOSED", "the gate closed while a message waited, because the dispatcher stops");
}

export const localMaxConcurrencyGate = defineGate({
  type: "local-max-concurrency",
  describe: "Allows at most `limit` messages of this process in flight at the same time.",
  parameters: z.strictObject({
    limit: intParameter({ min: 1 }).describe("The most messages in flight, 1 or more."),
    gating_mode: choiceParameter(["classifying", "blocking"], { default: "classifying" }).describe(
      "At the limit, `classifying` returns a message to its queue, and `blocking` keeps the message waiting at the gate.",
    ),
  }),
  create: ({ limit, gating_mode }) => new LocalMaxConcurrency(limit, gating_mode === "blocking"),
});
