import type { ConfigSource } from "../../picker/core/config-source.ts";

/** What decides where requests go in a simulation: a configuration that the scheduler runs, or a rule without one. */
export interface Policy {
  /** As given on the command line and shown in tables, such as `sticky-until-saturated`. */
  readonly name: string;
  /** A sentence for people. */
  readonly about: string;
  /** The configuration; undefined = the policy chooses by itself. */
  readonly source?: ConfigSource | undefined;
  /** A rule of its own for each run. */
  readonly rule?: (() => Rule) | undefined;
}

/**
 * Chooses without any scheduler, as a plain proxy does.
 * @param loads requests at each server that it knows of: sent and not ended
 * @param draw uniform integer in [0, bound)
 * @returns index of a server
 */
export type Rule = (loads: readonly number[], draw: (bound: number) => number) => number;
