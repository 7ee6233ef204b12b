import type { Clock } from "../../base/clock/clock.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import type { DispatchGate, GateMessage, GateVerdict } from "../../base/plugin/gate.ts";
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

const VERDICTS: ReadonlySet<unknown> = new Set<GateVerdict["kind"]>(["continue", "wait", "refuse", "drop"]);

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
  const said = (verdict: GateVerdict | undefined): Judged => {
    if (verdict === undefined || !VERDICTS.has(verdict.kind))
      return failed(new Error(`the gate gave no verdict, but ${JSON.stringify(verdict)?.slice(0, 100)}`));
    if (verdict.kind !== "continue") undo();
    return verdict;
  };
  try {
    const verdict = gate.apply(message, reservations);
    // Some promises are not of this kind.
    return "then" in verdict ? Promise.resolve(verdict).then(said).catch(failed) : said(verdict);
  } catch (error) {
    return failed(error);
  }
}

/** What messages with the same key share: their refusals. Never throws. */
export function refusalKey(gate: DispatchGate, message: GateMessage): string | undefined {
  try {
    return gate.refusalKey?.(message);
  } catch {
    return undefined;
  }
}

/** The answer, or undefined when it is not here in `ms` milliseconds, or `signal` is aborted first; it may still come. */
export function within<T>(clock: Clock, ms: number, answer: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const giveUp = (): void => {
      timer.cancel();
      signal.removeEventListener("abort", giveUp);
      resolve(undefined);
    };
    const timer = clock.after(ms, giveUp, true);
    signal.addEventListener("abort", giveUp, { once: true });
    if (signal.aborted) giveUp();
    answer.then(resolve, reject).finally(giveUp);
  });
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
        payload: Buffer.from(String(result.payload)),
        errorCode: result.errorCode === undefined ? "" : "GATE_DROPPED",
        errorMessage: result.errorCode === undefined ? "" : "Pool gating dropped request",
        contentType: "application/json",
      },
      "dropped",
    );
}
