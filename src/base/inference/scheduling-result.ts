import type { DecisionRecord } from "./decision-record.ts";
import type { Endpoint } from "./endpoint.ts";

export type * from "./decision-record.ts";

/** Load that a request puts on an endpoint besides the one that answers it. */
export interface SideLoad {
  readonly endpoint: Endpoint;
  /** Prompt tokens it must compute. */
  readonly uncachedTokens: number;
}

/** What scheduling answers: endpoints in order of preference, at least one, at most eight. */
export interface SchedulingResult {
  readonly endpoints: readonly Endpoint[];
  /** Prompt tokens the first endpoint must compute, by the estimate of the in-flight load producer. */
  readonly uncachedTokens: number;
  /** They stay with it until the end of the answer: they include what is yet to be generated. Else until its first byte. */
  readonly keepsTokens?: boolean | undefined;
  readonly record: DecisionRecord;
  /** Where several profiles may run: what each that ran chose, by its name, the primary one included. */
  readonly profiles?: ReadonlyMap<string, readonly Endpoint[]> | undefined;
  /** The first endpoints of the other profiles: they work for this request too, until the answer begins. */
  readonly sideLoads?: readonly SideLoad[] | undefined;
  /** Weighted sum of every endpoint that was scored, by `ip:port`, where the scheduler was told to keep them. */
  readonly scores?: Readonly<Record<string, number>> | undefined;
  /** Tells the plugins that another endpoint than the first got the request. */
  readonly moved?: ((endpoint: Endpoint) => void) | undefined;
}
