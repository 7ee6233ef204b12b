import type { Clock } from "../../base/clock/clock.ts";
import { messageOf } from "../../base/inference/errors.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { type StoreProblem, storeProblem } from "./redis-problem.ts";

/** What can fail by itself: the three connections, and the commands that a connection may refuse. */
export const PARTS = ["writer", "listener", "reader", "PUBLISH", "SET", "XADD", "MGET", "XREAD"] as const;
export type Part = (typeof PARTS)[number];

/** The state of the store, for people. */
export interface StoreState {
  /** "up", or the problem. */
  readonly state: "up" | StoreProblem;
  /** Of the present state, milliseconds of the clock. */
  readonly since: number;
  /** The text of the problem. */
  readonly reason: string | undefined;
}

interface Deps {
  readonly clock: Clock;
  readonly log: Logger;
  readonly server: string;
  changed(up: boolean, reason?: string): void;
}

/** Joins the problems of all parts into one state, and tells each change of it once. */
export class RedisState {
  readonly #deps: Deps;
  readonly #problems = new Map<Part, { readonly problem: StoreProblem; readonly reason: string }>();
  #state: StoreState;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#state = { state: "connecting", since: deps.clock.now(), reason: undefined };
    for (const part of ["writer", "listener", "reader"] as const)
      this.#problems.set(part, { problem: "connecting", reason: "not connected yet" });
  }

  get server(): string {
    return this.#deps.server;
  }

  get view(): StoreState {
    return this.#state;
  }

  /** A part works. */
  works(part: Part): void {
    if (this.#problems.delete(part)) this.#changed();
  }

  /** A part does not work. */
  fails(part: Part, error: unknown): void {
    this.#problems.set(part, { problem: storeProblem(error), reason: messageOf(error) });
    this.#changed();
  }

  #changed(): void {
    const { clock, log, server } = this.#deps;
    const [worst] = PARTS.flatMap((part) => this.#problems.get(part) ?? []).filter(
      ({ problem }, _, all) => problem !== "connecting" || all.every((other) => other.problem === "connecting"),
    );
    const state = worst?.problem ?? "up";
    if (state === this.#state.state) return;
    this.#state = { state, since: clock.now(), reason: worst?.reason };
    if (worst === undefined) {
      log.info({ server }, "replicas share what they know through Redis");
      this.#deps.changed(true);
      return;
    }
    if (state === "connecting") return;
    log.warn(
      { server, problem: state, reason: worst.reason },
      "replicas cannot share what they know: this one decides alone until the store works again",
    );
    this.#deps.changed(false, worst.reason);
  }
}
