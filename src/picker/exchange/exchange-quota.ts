import type { HeaderList } from "../../base/inference/headers.ts";
import type { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { Grant, Outcome, OverLimit, Quotas } from "../limits/quotas.ts";
import { addressIn } from "./body-account.ts";
import type { ResponseObserver } from "./response-observer.ts";
import type { EndCause, Wire } from "./wire.ts";

/** Bytes of an event with one token in OpenAI's format, rounded up: a stream without usage counts by its length. */
const BYTES_PER_EVENT = 256;

/** The limits of one exchange: from its admission to its end. */
export class ExchangeQuota {
  readonly #quotas: Quotas;
  readonly #wire: Pick<Wire, "caller" | "peer">;
  #grant: Grant | undefined;
  #over: OverLimit | undefined;

  constructor(quotas: Quotas, wire: Pick<Wire, "caller" | "peer">) {
    this.#quotas = quotas;
    this.#wire = wire;
  }

  /** Asks once whether the request is within its limits. @returns the refusal where it is not */
  admit(request: InferenceRequest): Rejection | undefined {
    const { caller, peer } = this.#wire;
    const found = this.#quotas.admit(request, caller, () => addressIn(peer ?? ""));
    if (found === undefined) return undefined;
    if ("settle" in found) {
      this.#grant = found;
      return undefined;
    }
    this.#over = found;
    return found.rejection;
  }

  /** The state of the limits, for the answer; undefined = no limit is for this request. */
  headers(): HeaderList | undefined {
    return this.#over?.headers ?? this.#grant?.headers();
  }

  /** The exchange is over. @param routed it had endpoints */
  settle(response: ResponseObserver, cause: EndCause, routed: boolean): void {
    const grant = this.#grant;
    grant?.settle(outcomeOf(response, cause, routed, grant.promptTokens));
  }
}

/**
 * What counts for the limits. Sluice's own refusals cost nothing. A request that a client gave up counts with its reservation or
 * more: the model server may have worked on it. A stream without usage counts by its length.
 * @param prompt the estimated tokens of the prompt
 */
export function outcomeOf(
  response: Pick<ResponseObserver, "status" | "usage" | "isEventStream" | "isEncoded" | "chunks" | "bytes">,
  cause: EndCause,
  routed: boolean,
  prompt: number,
): Outcome {
  const { status, usage } = response;
  const sent = routed && (status !== 0 || (cause !== "rejected" && cause !== "error"));
  const none = { sent, promptTokens: 0, completionTokens: 0, measured: false };
  // Who gets an error got no tokens.
  if (!sent || status >= 400) return none;
  const unknown = { ...none, promptTokens: Number.NaN, completionTokens: Number.NaN };
  if (status === 0 || response.isEncoded) return unknown;
  const streamed = response.isEventStream ? Math.max(response.chunks, Math.ceil(response.bytes / BYTES_PER_EVENT)) : 0;
  const complete = cause === "complete";
  if (usage === undefined && !complete && !response.isEventStream) return unknown;
  const { promptTokens = Number.NaN, completionTokens = Number.NaN } = usage ?? {};
  const known = !Number.isNaN(completionTokens);
  // The usage of a stream that broke off is that of its beginning.
  const counted =
    known && complete
      ? completionTokens
      : Math.max(known ? completionTokens : 0, usage === undefined || !complete ? streamed : 0);
  return {
    sent,
    promptTokens: Number.isNaN(promptTokens) ? prompt : promptTokens,
    completionTokens: counted,
    measured: known && complete,
  };
}
