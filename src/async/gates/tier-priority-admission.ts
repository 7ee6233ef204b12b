import { z } from "zod";
import {
  CONTINUE,
  type DispatchGate,
  defineGate,
  type GateMessage,
  type GateVerdict,
  REFUSE,
  WAIT,
} from "../../base/plugin/gate.ts";
import { objectParameter, stringParameter } from "./parameters.ts";

const TOO_MANY: GateVerdict = {
  kind: "drop",
  result: {
    payload: '{"error": "Too Many Requests", "code": 429}',
    statusCode: 429,
    errorCode: "GATE_DROPPED",
  },
};

/**
 * Says who goes first when there is no room (async-processor 3.6): reserved work waits where it is, interactive work over
 * its quota ends with a 429, the rest goes back into its queue. While there is room everything passes.
 *
 * No room is when the gate inside refuses or lets wait. The reference counts only the refusal, so around `wait-on-refuse`
 * it never sees saturation and lets everything through. What the inner gate drops is dropped: it has decided already.
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
    // Without it nobody would be told 429 while the capacity is used up.
    judgesWhenClosed: true,
    budget: () => inner.budget(),
    apply(message, reservations) {
      const verdict = inner.apply(message, reservations);
      return verdict instanceof Promise
        ? verdict.then((settled) => decide(settled, message))
        : decide(verdict, message);
    },
    // No refusal key: a gate before this one in a chain may change the labels it goes by.
  };
}

export const tierPriorityAdmissionGate = defineGate({
  type: "tier-priority-admission",
  describe:
    "When the gate inside has no room, lets reserved work wait, ends interactive overflow with status 429 and refuses the rest.",
  parameters: z.strictObject({
    saturation_gate: stringParameter().describe("Type of the gate that says whether there is room."),
    saturation_gate_params: objectParameter({ default: {} }).describe("Parameters of that gate."),
    tier_label: stringParameter({ default: "tier" }).describe("Label of the message that names its tier."),
  }),
  create: (parameters, context) =>
    tierPriorityAdmission(
      context.gate({ type: parameters.saturation_gate, parameters: parameters.saturation_gate_params }),
      parameters.tier_label,
    ),
});
