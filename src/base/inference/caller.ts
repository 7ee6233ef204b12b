/** A client of the gateway, as its key or token names it. */
export interface Caller {
  /** Stable id of the key, or issuer and subject of a token: what limits count by. */
  readonly id: string;
  /** The name for logs and metrics. */
  readonly name: string;
  /** Models that the caller may use; undefined = every model. */
  readonly models: ReadonlySet<string> | undefined;
  /** The InferenceObjective of its requests; undefined = none, and then `priority` counts. */
  readonly objective: string | undefined;
  /** The priority of its requests where `objective` names none that exists. */
  readonly priority: number | undefined;
  /** The flow of its requests; undefined = `name`. */
  readonly fairnessId: string | undefined;
  /** Whether objective and fairness headers of the client count. */
  readonly choosesFlow: boolean;
  /** Whether its requests use only the room that other requests leave, as the lines of batches do; absent = no. */
  readonly background?: boolean | undefined;
}
