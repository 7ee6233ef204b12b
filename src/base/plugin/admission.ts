import type { Random } from "../clock/random.ts";
import type { Endpoint } from "../inference/endpoint.ts";
import type { Rejection } from "../inference/outcomes.ts";
import type { InferenceRequest } from "../inference/request.ts";
import type { DecisionContext } from "./candidates.ts";

export interface RequestHeaderContext {
  /** With the fairness ID it has so far. */
  readonly request: InferenceRequest;
  /** Takes effect where the client names none. */
  setFairnessId(id: string): void;
}

/** Looks at a request after its model and objective are known and before its fairness ID is final (scheduling 3.2). */
export interface RequestHeaderProcessor {
  /** @returns why the request is refused, if it is */
  process(context: RequestHeaderContext): Rejection | undefined;
}

export interface ScreenContext {
  readonly request: InferenceRequest;
  /** All candidates, whatever other screeners say of them. */
  readonly endpoints: readonly Endpoint[];
  /** Set `keep[i] = 0` to leave endpoint i out; arrives all ones. */
  readonly keep: Uint8Array;
}

/** Narrows the candidates before anything is computed for them: what several screeners leave is intersected. */
export interface Screener {
  /** @returns why the request is refused, if it is; when nobody is left it is answered with 503 */
  screen(context: ScreenContext): Rejection | undefined;
}

export interface AdmitContext extends DecisionContext {
  readonly random: Random;
}

/** Decides whether a request is served at all, after the producers have run. */
export interface Admitter {
  /** @returns undefined = admitted; a text = refused with 429 and that text; a rejection = refused as it says */
  admit(context: AdmitContext): Rejection | string | undefined;
}
