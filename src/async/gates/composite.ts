import { z } from "zod";
import {
  CONTINUE,
  type DispatchGate,
  defineGate,
  type GateMessage,
  type GatePart,
  type GateSpec,
  type GateVerdict,
  REFUSE,
  type Reservations,
  WAIT,
} from "../../base/plugin/gate.ts";
import { gateListParameter, gateParameter, objectParameter, stringParameter } from "./parameters.ts";

/**
 * Several gates as one (async-processor 3.1, 3.3). The budget is the smallest of theirs, and each gate sees a message in order.
 * The first gate that does not say continue decides. The reservations of the gates before it are given back as unsent, rate
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
    // As long as gates answer synchronously, there is nothing to wait for.
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

  /** The keys of all gates together. One gate that judges each message by itself makes the key unknown. */
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

/** A gate that only guards capacities refuses all messages or none. */
function unkeyed(gate: DispatchGate): string | undefined {
  return gate.capacities.length > 0 && gate.judgesWhenClosed !== true ? "" : undefined;
}

/** The reservations that one run through the chain has made so far. */
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

/** @param at place of the inner gate in the parameters of the outer one */
function innerGate({ type, parameters }: GateSpec, at: readonly (string | number)[]): GatePart {
  return { kind: "gate", type, parameters, typePath: [...at, "gate_type"], parametersPath: [...at, "gate_params"] };
}

export const compositeGate = defineGate({
  type: "composite",
  describe:
    "Asks the gates of the list in their order; a message passes when every gate lets it pass. The budget is the smallest budget of these gates.",
  parameters: z.strictObject({
    gates: gateListParameter().describe(
      "The gates, each with `gate_type` and `gate_params`; an empty list lets every message pass.",
    ),
  }),
  parts: ({ gates }) => gates.map((gate, at) => innerGate(gate, ["gates", at])),
  create: ({ gates }, context) => new CompositeGate(gates.map((spec) => context.gate(spec))),
});

/**
 * Turns the refusals of the inner gate into waiting (async-processor 3.3): a message at this gate stays here. While a capacity
 * of the inner gate is used up, nothing is claimed for it, so it need not judge when closed.
 */
export function waitOnRefuse(inner: DispatchGate): DispatchGate {
  return {
    capacities: inner.capacities,
    judgesWhenClosed: inner.judgesWhenClosed === true,
    budget: () => inner.budget(),
    apply(message, reservations) {
      const verdict = inner.apply(message, reservations);
      return verdict instanceof Promise ? verdict.then(patient) : patient(verdict);
    },
    refusalKey: (message) => inner.refusalKey?.(message),
  };
}

function patient(verdict: GateVerdict): GateVerdict {
  return verdict.kind === "refuse" ? WAIT : verdict;
}

export const waitOnRefuseGate = defineGate({
  type: "wait-on-refuse",
  describe: "Keeps a message waiting at this gate when the inner gate refuses the message.",
  parameters: z.strictObject({
    gate: gateParameter().describe("The inner gate, with `gate_type` and `gate_params`."),
  }),
  parts: ({ gate }) => [innerGate(gate, ["gate"])],
  create: (parameters, context) => waitOnRefuse(context.gate(parameters.gate)),
});

const TOO_MANY: GateVerdict = {
  kind: "drop",
  result: {
    payload: '{"error": "Too Many Requests", "code": 429}',
    statusCode: 429,
    errorCode: "GATE_DROPPED",
  },
};

/**
 * Decides the order when there is no room (async-processor 3.6): reserved work waits, interactive work over its quota ends with
 * a 429, and all other work goes back into its queue. While there is room, all messages pass.
 *
 * There is no room when the inner gate refuses or lets wait. The reference counts only the refusal, so around `wait-on-refuse`
 * it never sees saturation and lets all messages through. A message that the inner gate drops is dropped: that gate has decided
 * already.
 * @param tierLabel the label that names the tier
 */
export function tierPriorityAdmission(inner: DispatchGate, tierLabel: string): DispatchGate {
  const decide = (verdict: GateVerdict, message: GateMessage): GateVerdict => {
    if (verdict.kind === "continue") return CONTINUE;
    if (verdict.kind === "drop") return verdict;
    const { classification } = message.labels;
    if (classification === "reserved") return WAIT;
    if (classification === "overflow" && message.labels[tierLabel] === "interactive") return TOO_MANY;
    return verdict.kind === "refuse" ? verdict : REFUSE;
  };
  return {
    capacities: inner.capacities,
    // Without it no message would end with 429 while the capacity is used up.
    judgesWhenClosed: true,
    budget: () => inner.budget(),
    apply(message, reservations) {
      const verdict = inner.apply(message, reservations);
      return verdict instanceof Promise
        ? verdict.then((settled) => decide(settled, message))
        : decide(verdict, message);
    },
    // No refusal key: a gate before this one in a chain may change the labels that it depends on.
  };
}

export const tierPriorityAdmissionGate = defineGate({
  type: "tier-priority-admission",
  describe:
    "While the inner gate has no room, the label `classification` of a message decides; a gate such as redis-quota sets this label. A `reserved` message waits. An `overflow` message of the tier `interactive` ends with 429. Every other message returns to its queue.",
  parameters: z.strictObject({
    saturation_gate: stringParameter().describe("Type of the inner gate, which says whether there is room."),
    saturation_gate_params: objectParameter({ default: {} }).describe("Parameters of the inner gate."),
    tier_label: stringParameter({ default: "tier" }).describe("Message label that names the tier."),
  }),
  parts: ({ saturation_gate, saturation_gate_params }) => [
    {
      ...{ kind: "gate", type: saturation_gate, parameters: saturation_gate_params },
      typePath: ["saturation_gate"],
      parametersPath: ["saturation_gate_params"],
    },
  ],
  create: (parameters, context) =>
    tierPriorityAdmission(
      context.gate({ type: parameters.saturation_gate, parameters: parameters.saturation_gate_params }),
      parameters.tier_label,
    ),
});
