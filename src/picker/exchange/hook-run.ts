import type { Endpoint } from "../../base/inference/endpoint.ts";
import type { HeaderList } from "../../base/inference/headers.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { SchedulingResult } from "../../base/inference/scheduling-result.ts";
import type { ResponseCompleteContext, ResponseReceivedContext } from "../../base/plugin/kinds.ts";
import { type HookAdditions, type RequestHooks, withoutBody } from "./request-hooks.ts";
import type { DynamicMetadata, EndCause } from "./wire.ts";

/** What hooks are told of an end (scheduling 3.2). */
const CAUSES: Record<EndCause, ResponseCompleteContext["cause"]> = {
  complete: "natural",
  "no-response-phase": "natural",
  "client-gone": "client-disconnect",
  interrupted: "error",
  rejected: "error",
  error: "error",
};

/** The stations of one exchange as the hooks hear of them, all from the same configuration whatever is in force later. */
export class HookRun {
  readonly #inForce: () => RequestHooks;
  #hooks: RequestHooks | undefined;
  /** The scheduled request without its body, where a hook may ask for it. */
  #request: InferenceRequest | undefined;

  /** @param inForce the hooks of the configuration at the moment */
  constructor(inForce: () => RequestHooks) {
    this.#inForce = inForce;
  }

  /** The request was scheduled. */
  routed(request: InferenceRequest, result: SchedulingResult): HookAdditions {
    const hooks = this.#take();
    if (!hooks.empty) this.#request = withoutBody(request);
    return hooks.preRequest(request, result);
  }

  /** Response headers have arrived, with or without a request phase before them. */
  received(
    endpoint: Endpoint | undefined,
    status: number,
    headers: HeaderList,
    metadata: ResponseReceivedContext["metadata"],
  ): HeaderList | undefined {
    const hooks = this.#take();
    if (hooks.empty) return undefined;
    return hooks.responseReceived({ request: this.#request, endpoint, status, headers, metadata });
  }

  /**
   * The exchange is over; only a scheduled one concerns the hooks.
   * @returns metadata for the last message of a complete response
   */
  ended(
    cause: EndCause,
    evicted: boolean,
    seen: Pick<ResponseCompleteContext, "endpoint" | "status" | "usage">,
  ): DynamicMetadata | undefined {
    if (this.#request === undefined || this.#hooks === undefined) return undefined;
    const { endpoint, status, usage } = seen;
    const told = evicted ? "evicted" : CAUSES[cause];
    const metadata = this.#hooks.responseComplete({ request: this.#request, endpoint, status, usage, cause: told });
    return cause === "complete" ? metadata : undefined;
  }

  #take(): RequestHooks {
    this.#hooks ??= this.#inForce();
    return this.#hooks;
  }
}
