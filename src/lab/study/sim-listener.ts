import type { SequenceListener } from "../simulator/sequence.ts";

/** What happens to one request. Exactly one of `finished` and `rejected` is called, later or from within the sending. */
export interface SimListener {
  /** It goes to this server, by number. */
  placed?: ((server: number) => void) | undefined;
  /** Its first token is there. */
  started?(): void;
  finished(): void;
  rejected(): void;
}

/**
 * The listener that an engine gets for a request.
 * @param first called at its first token, before `listener` is told
 * @param ended called when the engine is done with it, refused or answered, before `listener` is told
 */
export function sequenceListener(listener: SimListener, first: () => void, ended: () => void): SequenceListener {
  let started = false;
  return {
    onToken() {
      if (started) return;
      started = true;
      first();
      listener.started?.();
    },
    onFinish() {
      ended();
      listener.finished();
    },
    onReject() {
      ended();
      listener.rejected();
    },
  };
}
