import type { RecordedCache } from "../../base/inference/decision-record.ts";
import type { Sequence, SequenceListener } from "../simulator/sequence.ts";

/** Receives the events of one request. Exactly one of `finished` and `rejected` is called, later or during the send. */
export interface SimListener {
  /** The request goes to this server, by number. @param waited milliseconds in flow control; undefined = it passed none */
  placed?: ((server: number, waited: number | undefined) => void) | undefined;
  /** The first token appeared. */
  started?(): void;
  /** So many tokens appeared; after `started`. */
  produced?(count: number): void;
  /** It is answered: what the picker expected in the cache of its server, and what was there. Only with one stage; before `finished`. */
  cached?(cache: Readonly<RecordedCache>): void;
  /** @param work tokens that servers computed for it: its prompt but for what a cache had, and its answer */
  finished(work: number): void;
  /**
   * The request was refused, or ended in flight. @param reason of a refusal by the picker (`OUTCOMES`), `evicted`, or `server`
   * @param work as in `finished`; a prompt that a server has begun counts whole
   */
  rejected(reason: string, work: number): void;
}

/** The same events with the work of an earlier server. */
export function withWork(listener: SimListener, before: number): Pick<SimListener, "finished" | "rejected"> {
  return {
    finished: (work) => listener.finished(before + work),
    rejected: (reason, work) => listener.rejected(reason, before + work),
  };
}

/** Tells what the picker expected in the cache of the server, where it expected something. */
export function tellCache(listener: SimListener, expected: RecordedCache | undefined, sequence: Sequence): void {
  if (expected === undefined) return;
  listener.cached?.({ ...expected, reported: sequence.cachedTokens, prompt: sequence.promptTokens });
}

/** Tokens that its server computes for a sequence, as far as it has come; a prompt that has been begun counts whole. */
function workOf({ startedAt, promptTokens, cachedTokens, produced }: Sequence): number {
  return Number.isNaN(startedAt) ? 0 : promptTokens - cachedTokens + produced;
}

/**
 * The listener that an engine gets for a request.
 * @param first called at its first token, before `listener`
 * @param ended called when the engine refused or answered it, before `listener`
 * @param failed called in place of `ended` when the engine did not answer it
 */
export function sequenceListener(
  listener: SimListener,
  first: () => void,
  ended: (sequence?: Sequence) => void,
  failed: () => void = () => ended(),
): SequenceListener {
  let started = false;
  return {
    onToken(_, count) {
      if (!started) {
        started = true;
        first();
        listener.started?.();
      }
      listener.produced?.(count);
    },
    onFinish(sequence) {
      ended(sequence);
      listener.finished(workOf(sequence));
    },
    onReject() {
      failed();
      listener.rejected("server", 0);
    },
    onAbort(sequence) {
      failed();
      listener.rejected("evicted", workOf(sequence));
    },
  };
}
