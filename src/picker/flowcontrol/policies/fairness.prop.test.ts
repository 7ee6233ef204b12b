import fc from "fast-check";
import { expect, it } from "vitest";
import { instanceOf, requestOf } from "../../../../test/support/scheduling/fakes.cases.ts";
import type { QueuedFlow } from "../../../base/plugin/flow-kinds.ts";
import { globalStrictFairnessPolicy, roundRobinFairnessPolicy } from "./fairness.ts";

function flowOf(fairnessId: string): QueuedFlow {
  const head = { request: requestOf("p"), receivedAt: 0, enqueuedAt: 0, ttl: 1, bytes: 1, tokens: 1 };
  return { fairnessId, head, length: 1 };
}

it("global-strict-fairness-policy has one queue, and nothing to choose", () => {
  const policy = instanceOf(globalStrictFairnessPolicy);
  expect(policy.oneQueue).toBe(true);
  expect(() => policy.choice()).toThrow(TypeError);
});

/** Each step with the flow that it is about. */
const STEPS = fc.array(fc.tuple(fc.constantFrom("join", "leave", "serve", "look"), fc.nat(3)), {
  ...{ maxLength: 60, size: "max" as const },
});

it("round-robin-fairness-policy serves flows in turn; a flow that joins comes after all others", () => {
  fc.assert(
    fc.property(STEPS, (steps) => {
      const choice = instanceOf(roundRobinFairnessPolicy).choice();
      const flows = Array.from({ length: 4 }, (_, i) => flowOf(`flow-${i}`));
      // The model: the next flow is first.
      const turns: QueuedFlow[] = [];
      for (const [step, at] of steps) {
        const flow = flows[at]!;
        const isIn = turns.includes(flow);
        if (step === "join" && !isIn) {
          turns.push(flow);
          choice.joined(flow);
        } else if (step === "leave" && isIn) {
          turns.splice(turns.indexOf(flow), 1);
          choice.left(flow);
        } else if (step === "serve" && turns.length > 0) {
          const served = turns.shift()!;
          expect(choice.next(0, 0)!).toBe(served);
          choice.served(served);
          turns.push(served);
        }
        if (turns.length > 0) expect(choice.next(0, 0)!).toBe(turns[0]);
      }
      // A whole round serves each flow once, in the order of the model.
      const round = turns.map(() => {
        const flow = choice.next(0, 0)!;
        choice.served(flow);
        return flow;
      });
      expect(round).toEqual(turns);
    }),
  );
});

it("round-robin-fairness-policy keeps a choice for each band, and does not know flows that never joined", () => {
  const policy = instanceOf(roundRobinFairnessPolicy);
  const [one, other] = [policy.choice(), policy.choice()];
  const [a, b] = [flowOf("a"), flowOf("b")];
  one.joined(a);
  other.joined(b);
  one.left(b);
  one.served(b);
  expect([one.next(0, 0)!, other.next(0, 0)!]).toEqual([a, b]);
});
