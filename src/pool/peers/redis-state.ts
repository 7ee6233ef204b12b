import type { Clock, Timer } from "../../base/clock/clock.ts";
import { messageOf, oneLine } from "../../base/inference/errors.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { type StoreProblem, storeProblem } from "./redis-problem.ts";

/** The connections. */
const LINKS = ["writer", "listener", "reader"] as const;
export type Link = (typeof LINKS)[number];

/**
 * What can fail by itself: the three connections, and each command that a connection may refuse. Two commands are two parts: where
 * the store takes one and refuses the other, the success of the one must not hide the refusal of the other.
 */
export const PARTS = [
  ...LINKS,
  ...["PUBLISH", "SET", "SADD", "XADD", "PEXPIRE", "SRANDMEMBER", "MGET", "PTTL", "SREM", "XREAD"],
] as const;
export type Part = (typeof PARTS)[number];

/** The longest reason, in characters: the text of a server may have any length. */
const MAX_REASON = 300;
/** The least milliseconds between two warnings about the same problem: a store that comes and goes must not fill the log. */
const WARNING_INTERVAL = 30_000;

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
  readonly #warnedAt = new Map<StoreProblem, number>();
  /** The last line of the log said that the store works. */
  #toldUp = false;
  /** A warning that waits, because the last one about the same problem is not long ago. */
  #late: Timer | undefined;
  #closed = false;
  readonly #problems = new Map<Part, { readonly problem: StoreProblem; readonly reason: string }>();
  #state: StoreState;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#state = { state: "connecting", since: deps.clock.now(), reason: undefined };
    for (const part of LINKS) this.#problems.set(part, { problem: "connecting", reason: "not connected yet" });
  }

  get server(): string {
    return this.#deps.server;
  }

  get view(): StoreState {
    return this.#state;
  }

  /** Whether the last thing known of a part is that its answers come too late. */
  isSlow(part: Part): boolean {
    return this.#problems.get(part)?.problem === "slow";
  }

  /** A part works. */
  works(part: Part): void {
    if (this.#problems.delete(part)) this.#changed();
  }

  /** A part does not work. */
  fails(part: Part, error: unknown): void {
    const reason = oneLine(messageOf(error).slice(0, MAX_REASON));
    this.#problems.set(part, { problem: storeProblem(error), reason });
    this.#changed();
  }

  /** Tells nothing from now on. */
  close(): void {
    this.#late?.cancel();
    this.#closed = true;
  }

  #changed(): void {
    if (this.#closed) return;
    const { clock, log, server } = this.#deps;
    const [worst] = PARTS.flatMap((part) => this.#problems.get(part) ?? []).filter(
      ({ problem }, _, all) => problem !== "connecting" || all.every((other) => other.problem === "connecting"),
    );
    const state = worst?.problem ?? "up";
    if (state === this.#state.state) return;
    this.#state = { state, since: clock.now(), reason: worst?.reason };
    if (worst === undefined) {
      if (!this.#toldUp) log.info({ server }, "replicas share what they know through Redis");
      this.#toldUp = true;
      this.#deps.changed(true);
      return;
    }
    if (state === "connecting") return;
    this.#warn(worst);
    this.#deps.changed(false, worst.reason);
  }

  #warn({ problem, reason }: { readonly problem: StoreProblem; readonly reason: string }): void {
    const { clock, log, server } = this.#deps;
    const now = clock.now();
    const next = (this.#warnedAt.get(problem) ?? Number.NEGATIVE_INFINITY) + WARNING_INTERVAL;
    if (now < next) {
      this.#late ??= clock.after(next - now, () => this.#stillWrong(), true);
      return;
    }
    this.#warnedAt.set(problem, now);
    this.#toldUp = false;
    log.warn(
      { server, problem, reason },
      "replicas cannot share what they know: this replica decides alone until the store works again",
    );
  }

  #stillWrong(): void {
    this.#late = undefined;
    const { state, reason = "" } = this.#state;
    if (state !== "up" && state !== "connecting") this.#warn({ problem: state, reason });
  }
}
