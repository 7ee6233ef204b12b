import type { Clock } from "../../base/clock/clock.ts";
import type { Broker, Settlement, SettleOutcome } from "../brokers/broker.ts";

/** Settlements per call of the broker. */
const BATCH = 256;
/** Milliseconds between attempts while the broker is away or refuses a settlement; the pause doubles. */
const SHORTEST_PAUSE = 100;
const LONGEST_PAUSE = 2000;
/** Most settlements that may wait, and bytes of their answers; beyond them no message may begin. */
const MOST_WAITING = 10_000;
const MOST_BYTES = 256 * 1024 * 1024;

export interface SettlementWriterOptions {
  readonly broker: Pick<Broker, "settle">;
  readonly clock: Clock;
  /** Called with the outcome of one settlement; never with `{ failed }`, which is tried again. */
  onSettled(settlement: Settlement, outcome: Exclude<SettleOutcome, object>): void;
  /** A call is repeated. @param whole true: the broker wrote nothing of it; false: the broker took some settlements */
  onRetry(problem: unknown, whole: boolean): void;
}

/**
 * Writes results, retries and refusals, many per call. While one call is under way the next batch gathers, so a busy writer
 * needs fewer round trips per message. Each settlement is repeated until the broker has it, and its claim lasts until then. A
 * settlement that the broker refuses while it takes others waits apart and delays none of them. The claims bound what waits
 * here, and nothing is claimed while too much waits.
 */
export class SettlementWriter {
  readonly #options: SettlementWriterOptions;
  #queue: Settlement[] = [];
  /** Settlements that a reachable broker refused; tried again together after the pause. */
  #apart: Settlement[] = [];
  #waiting = false;
  #apartPause = SHORTEST_PAUSE;
  #writing = false;
  #waiters: (() => void)[] = [];
  #inCall = 0;
  #bytes = 0;

  constructor(options: SettlementWriterOptions) {
    this.#options = options;
  }

  /** Settlements that are not written yet. */
  get pending(): number {
    return this.#queue.length + this.#inCall + this.#apart.length;
  }

  /** True: too much waits. Memory is limited, and a broker may give out requests but take no results for hours. */
  get full(): boolean {
    return this.pending >= MOST_WAITING || this.#bytes >= MOST_BYTES;
  }

  add(settlement: Settlement): void {
    this.#queue.push(settlement);
    this.#bytes += bytesOf(settlement);
    this.#begin();
  }

  /** Resolves when everything that was added is written. */
  idle(): Promise<void> {
    if (this.pending === 0) return Promise.resolve();
    return new Promise((resolve) => this.#waiters.push(resolve));
  }

  #begin(): void {
    if (this.#writing) return;
    this.#writing = true;
    const { clock } = this.#options;
    // Settlements that end in the same turn of the event loop go together. The claim for the room that they freed goes first:
    // workers wait for that claim, and no part waits for the results.
    clock.soon(() => clock.soon(() => void this.#write()));
  }

  async #write(): Promise<void> {
    const { clock, broker, onSettled, onRetry } = this.#options;
    let pause = SHORTEST_PAUSE;
    while (this.#queue.length > 0) {
      const batch = this.#queue.splice(0, BATCH);
      this.#inCall = batch.length;
      let outcomes: readonly SettleOutcome[];
      try {
        outcomes = await broker.settle(batch);
      } catch (error) {
        this.#inCall = 0;
        this.#queue = [...batch, ...this.#queue];
        onRetry(error, true);
        // A process that ends does not wait for a broker that is away: leases bring the messages back.
        await new Promise<void>((resolve) => clock.after(pause, resolve, true));
        pause = Math.min(LONGEST_PAUSE, pause * 2);
        continue;
      }
      this.#inCall = 0;
      pause = SHORTEST_PAUSE;
      let problem = "";
      let taken = 0;
      for (const [i, settlement] of batch.entries()) {
        const outcome = outcomes[i] ?? { failed: "the broker returned no outcome" };
        if (typeof outcome === "string") {
          this.#bytes -= bytesOf(settlement);
          onSettled(settlement, outcome);
          taken++;
        } else {
          problem = outcome.failed;
          this.#apart.push(settlement);
        }
      }
      if (problem !== "") {
        onRetry(new Error(problem), taken === 0);
        this.#tryApart();
      }
    }
    this.#writing = false;
    if (this.#apart.length === 0) this.#apartPause = SHORTEST_PAUSE;
    if (this.pending === 0) for (const resolve of this.#waiters.splice(0)) resolve();
  }

  #tryApart(): void {
    if (this.#waiting) return;
    this.#waiting = true;
    this.#options.clock.after(
      this.#apartPause,
      () => {
        this.#waiting = false;
        this.#queue = this.#queue.concat(this.#apart.splice(0));
        this.#begin();
      },
      true,
    );
    this.#apartPause = Math.min(LONGEST_PAUSE, this.#apartPause * 2);
  }
}

function bytesOf(settlement: Settlement): number {
  return "result" in settlement ? settlement.result.payload.byteLength : 0;
}
