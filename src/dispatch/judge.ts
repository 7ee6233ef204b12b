import { messageOf, SluiceError } from "../inference/errors.ts";
import type { DispatchGate, GateMessage, GateVerdict } from "../plugin/gate.ts";
import type { Delivery } from "./delivery.ts";
import type { Endings } from "./endings.ts";

/** What a gate said, or that it failed. */
export type Judged =
  | GateVerdict
  | {
      readonly kind: "error";
      readonly problem: string;
      /** It may pass: what the gate asks is away. */
      readonly passing: boolean;
    };

/** Codes of failures that say nothing about the message. */
const PASSING: ReadonlySet<string> = new Set(["BROKER_UNAVAILABLE", "METRIC_SOURCE"]);

/** Asks a gate; whatever it reserved is given back unless the message may go on. Never throws. */
export function judge(gate: DispatchGate, message: GateMessage, delivery: Delivery): Judged | Promise<Judged> {
  const { reservations, undo } = delivery.reserve();
  const failed = (error: unknown): Judged => {
    undo();
    const passing = error instanceof SluiceError && PASSING.has(error.code);
    return { kind: "error", problem: messageOf(error), passing };
  };
  const said = (verdict: GateVerdict): Judged => {
    if (verdict.kind !== "continue") undo();
    return verdict;
  };
  try {
    const verdict = gate.apply(message, reservations);
    return verdict instanceof Promise ? verdict.then(said, failed) : said(verdict);
  } catch (error) {
    return failed(error);
  }
}

/** Ends a message that a gate dropped. */
export function drop(endings: Endings, delivery: Delivery, { result }: GateVerdict & { kind: "drop" }): void {
  if (result === undefined) endings.error(delivery, "GATE_DROPPED", "Pool gating dropped request");
  else
    endings.result(
      delivery,
      {
        id: delivery.claim.message.request.id,
        statusCode: result.statusCode ?? 0,
        payload: Buffer.from(result.payload),
        errorCode: result.errorCode === undefined ? "" : "GATE_DROPPED",
        errorMessage: result.errorCode === undefined ? "" : "Pool gating dropped request",
        contentType: "application/json",
      },
      "dropped",
    );
}
