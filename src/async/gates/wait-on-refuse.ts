import { z } from "zod";
import { type DispatchGate, defineGate, type GateVerdict, WAIT } from "../../base/plugin/gate.ts";
import { gateParameter } from "./parameters.ts";

/**
 * Turns the refusals of the gate inside into waiting (async-processor 3.3): a message that has come this far stays there.
 * While a capacity of the inner gate is used up nothing is claimed for it, so it need not judge when closed.
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
  describe: "Lets messages wait where the gate inside would refuse them.",
  parameters: z.strictObject({
    gate: gateParameter().describe("The gate inside, with `gate_type` and `gate_params`."),
  }),
  create: (parameters, context) => waitOnRefuse(context.gate(parameters.gate)),
});
