import { z } from "zod";
import {
  CONTINUE,
  type DispatchGate,
  defineGate,
  type GateMessage,
  type GateVerdict,
  type Reservations,
} from "../../base/plugin/gate.ts";
import { gateListParameter } from "./parameters.ts";

/**
 * Several gates as one (async-processor 3.1, 3.3): the budget is the smallest of them, and messages are shown to each in
 * order. The first that does not say continue decides, and what those before it had taken is given back as unsent, rate
 * limit tokens included: otherwise a closed gate behind a quota would burn the quota.
 */
export class CompositeGate implements DispatchGate {
  readonly capacities;
  readonly judgesWhenClosed: boolean;
  readonly #gates: readonly DispatchGate[];

  constructor(gates: readonly DispatchGate[]) {
    this.#gates = gates;
    this.capacities = gates.flatMap((gate) => gate.capacities);
    this.judgesWhenClosed = gates.some((gate) => gate.judgesWhenClosed === true);
  }

  async budget(): Promise<number> {
    return Math.min(1, ...(await Promise.all(this.#gates.map((gate) => gate.budget()))));
  }

  apply(message: GateMessage, reservations: Reservations): GateVerdict | Promise<GateVerdict> {
    const taken = new Taken();
    // As long as gates answer at once there is nothing to wait for.
    for (let at = 0; at < this.#gates.length; at++) {
      let verdict: GateVerdict | Promise<GateVerdict>;
      try {
        verdict = this.#gates[at]!.apply(message, taken);
      } catch (error) {
        taken.giveBack();
        throw error;
      }
      if (verdict instanceof Promise) return this.#rest(verdict, at + 1, message, taken, reservations);
      if (verdict.kind !== "continue") {
        taken.giveBack();
        return verdict;
      }
    }
    taken.moveTo(reservations);
    return CONTINUE;
  }

  async #rest(
    first: Promise<GateVerdict>,
    next: number,
    message: GateMessage,
    taken: Taken,
    reservations: Reservations,
  ): Promise<GateVerdict> {
    try {
      let verdict = await first;
      for (let at = next; verdict.kind === "continue" && at < this.#gates.length; at++)
        verdict = await this.#gates[at]!.apply(message, taken);
      if (verdict.kind === "continue") taken.moveTo(reservations);
      else taken.giveBack();
      return verdict;
    } catch (error) {
      taken.giveBack();
      throw error;
    }
  }

  /** Messages fare alike when they do so at each gate; one gate that looks at every message by itself makes it unknown. */
  refusalKey(message: GateMessage): string | undefined {
    const keys: string[] = [];
    for (const gate of this.#gates) {
      const key = gate.refusalKey === undefined ? unkeyed(gate) : gate.refusalKey(message);
      if (key === undefined) return undefined;
      keys.push(key);
    }
    return JSON.stringify(keys);
  }
}

/** A gate that does nothing but guard capacities refuses everybody or nobody. */
function unkeyed(gate: DispatchGate): string | undefined {
  return gate.capacities.length > 0 && gate.judgesWhenClosed !== true ? "" : undefined;
}

/** What one run through the chain has taken so far. */
class Taken implements Reservations {
  readonly #releases: ((unsent?: boolean) => void)[] = [];

  add(release: (unsent?: boolean) => void): void {
    this.#releases.push(release);
  }

  giveBack(): void {
    for (let release = this.#releases.pop(); release !== undefined; release = this.#releases.pop()) release(true);
  }

  moveTo(reservations: Reservations): void {
    for (const release of this.#releases) reservations.add(release);
  }
}

export const compositeGate = defineGate({
  type: "composite",
  describe: "Lets a message pass when all its gates do, asked in their order; its budget is the smallest of theirs.",
  parameters: z.strictObject({
    gates: gateListParameter().describe(
      "The gates, each with `gate_type` and `gate_params`; an empty list lets everything pass.",
    ),
  }),
  create: ({ gates }, context) => new CompositeGate(gates.map((spec) => context.gate(spec))),
});
