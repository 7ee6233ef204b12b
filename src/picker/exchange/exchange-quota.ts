import { HeaderList } from "../../base/inference/headers.ts";
import type { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { Grant, Outcome, OverLimit, Quotas } from "../limits/quotas.ts";
import { addressIn } from "./body-account.ts";
import type { ResponseObserver } from "./response-observer.ts";
import type { EndCause, Wire } from "./wire.ts";

/** Bytes of an event with one token in OpenAI's format, rounded up: a stream without usage counts by its length. */
const BYTES_PER_EVENT = 256;
/** Bytes of text with one token. */
const BYTES_PER_TOKEN = 4;
/** Bytes of text in the longest usual answer. What is longer has log probabilities, several choices or data. */
const TEXT = 64 * 1024;

/** What a request without a body counts as: it names no model and has no tokens. */
const BARE: InferenceRequest = {
  ...{ id: "", headers: new HeaderList(), body: new Uint8Array(0), model: "", targetModel: "", objective: "" },
  ...{ modelRange: undefined, modelInsertAt: -1, answerFormat: "opaque", streaming: false, cacheSalt: "" },
  ...{ prompts: [], maxTokens: 0, priority: 0, shedAt: Number.POSITIVE_INFINITY, fairnessId: "" },
};

/** The limits of one exchange: from its admission to its end. */
export class ExchangeQuota {
  readonly #quotas: Quotas;
  readonly #wire: Pick<Wire, "caller" | "peer">;
  #grant: Grant | undefined;
  #over: OverLimit | undefined;
  #bare = false;

  constructor(quotas: Quotas, wire: Pick<Wire, "caller" | "peer">) {
    this.#quotas = quotas;
    this.#wire = wire;
  }

  /**
   * Asks once whether the request is within its limits.
   * @param request absent = it has no body
   * @returns the refusal where it is not
   */
  admit(request = BARE): Rejection | undefined {
    this.#bare = request === BARE;
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
    if (grant === undefined) return;
    const outcome = outcomeOf(response, cause, routed, grant.promptTokens);
    grant.settle(this.#bare ? { ...outcome, promptTokens: 0, completionTokens: 0, atLeast: false } : outcome);
  }
}

/**
 * What counts for the limits. Sluice's own refusals cost nothing. A request that a client gave up counts with its reservation or
 * more: the model server may have worked on it. An answer without usage counts by its length.
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
  const none = { sent, promptTokens: 0, completionTokens: 0, measured: false, atLeast: false };
  // Who gets an error got no tokens.
  if (!sent || status >= 400) return none;
  const unknown = { ...none, promptTokens: Number.NaN, completionTokens: Number.NaN };
  if (status === 0) return unknown;
  const streamed = response.isEventStream ? Math.max(response.chunks, Math.ceil(response.bytes / BYTES_PER_EVENT)) : 0;
  const complete = cause === "complete";
  // Else a client could choose answers whose usage nobody reads: compressed, very long, of another API, or given up.
  if (response.isEncoded || (usage === undefined && !response.isEventStream))
    return {
      ...none,
      promptTokens: prompt,
      completionTokens: tokensIn(response.bytes),
      atLeast: !complete || response.isEncoded,
    };
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
    atLeast: false,
  };
}

/** The tokens of an answer by its length. */
function tokensIn(bytes: number): number {
  return Math.ceil(Math.min(bytes, TEXT) / BYTES_PER_TOKEN + Math.max(0, bytes - TEXT) / BYTES_PER_EVENT);
}
