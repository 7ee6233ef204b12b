/** The event that the exchange waits for. */
export type ExchangePhase =
  /** The rest of the client's body. */
  | "receiving"
  /** Room in the byte budget. */
  | "held"
  /** The decision. */
  | "deciding"
  /** The first byte of an endpoint's answer, or the time of the next attempt. */
  | "waiting"
  /** The rest of the answer. */
  | "answering"
  /** Nothing: the exchange has ended. */
  | "done";

/** Whether more of the client's body may come. */
export function receives(phase: ExchangePhase): boolean {
  return phase === "receiving" || phase === "held";
}
