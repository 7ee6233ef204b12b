import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { instanceOf, requestOf } from "../../../../test/support/scheduling/fakes.cases.ts";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import type { FairnessPolicy, FlowChoice, QueuedFlow } from "../../../base/plugin/flow-kinds.ts";
import { programAwareFairness } from "./program-aware.ts";

/** A flow whose first request has waited since a time. */
function flowOf(fairnessId: string, enqueuedAt = 0): QueuedFlow {
  const head = { request: requestOf("p"), receivedAt: 0, enqueuedAt, ttl: 1, bytes: 1, tokens: 1 };
  return { fairnessId, head, length: 1 };
}

function choiceOf(policy: FairnessPolicy, flows: readonly QueuedFlow[]): FlowChoice {
  const choice = policy.choice();
  for (const flow of flows) choice.joined(flow);
  return choice;
}

const next = (policy: FairnessPolicy, flows: readonly QueuedFlow[], now: number): string =>
  choiceOf(policy, flows).next(now, 0)!.fairnessId;
const tokens = (promptTokens: number, completionTokens: number) => ({ promptTokens, completionTokens });

/** The formula of the reference (scheduling 6.6), as it is written there: decay first, then ranges, then the best score. */
class Model {
  readonly #service = new Map<string, { service: number; at: number }>();
  readonly #halfLife: number;

  constructor(halfLifeSeconds: number) {
    this.#halfLife = halfLifeSeconds * 1000;
  }

  of(id: string, now: number): number {
    const { service, at } = this.#service.get(id) ?? { service: 0, at: now };
    return this.#halfLife === 0 ? service : service * 2 ** (-(now - at) / this.#halfLife);
  }

  ended(id: string, cost: number, now: number): void {
    this.#service.set(id, { service: this.of(id, now) + cost, at: now });
  }

  /** The scores of flows. */
  scores(flows: readonly QueuedFlow[], now: number, [weightService, weightWait]: readonly [number, number]): number[] {
    const place = (values: readonly number[], value: number): number => {
      const [least, most] = [Math.min(...values), Math.max(...values)];
      return least === most ? 0.5 : (value - least) / (most - least);
    };
    const services = flows.map(({ fairnessId }) => this.of(fairnessId, now));
    const waits = flows.map(({ head }) => now - head.enqueuedAt);
    return flows.map(
      (_, i) => weightService * (1 - place(services, services[i]!)) + weightWait * place(waits, waits[i]!),
    );
  }
}

describe("program-aware-fairness", () => {
  it("serves the flow with the least service; a completion token counts twice", () => {
    const policy = instanceOf(programAwareFairness);
    policy.choice().ended!("a", tokens(100, 0), 0, 0);
    policy.choice().ended!("b", tokens(0, 49), 0, 0);
    expect(next(policy, [flowOf("a"), flowOf("b")], 0)).toBe("b");
    policy.choice().ended!("b", tokens(0, 2), 0, 0);
    expect(next(policy, [flowOf("a"), flowOf("b")], 0)).toBe("a");
    expect(next(policy, [flowOf("a"), flowOf("b"), flowOf("new")], 0)).toBe("new");
  });

  it("counts what an answer does not report as nothing", () => {
    const policy = instanceOf(programAwareFairness);
    policy.choice().ended!("a", tokens(Number.NaN, Number.NaN), 0, 0);
    policy.choice().ended!("b", tokens(Number.NaN, 1), 0, 0);
    for (const ids of ["ab", "ba"]) {
      const flows = [...ids].map((id) => flowOf(id));
      expect(next(policy, flows, 0)).toBe("a");
    }
    policy.choice().ended!("a", tokens(3, Number.NaN), 0, 0);
    expect(next(policy, [flowOf("a"), flowOf("b")], 0)).toBe("b");
  });

  it("of equals serves the flow that waits longest, else the one that joined first", () => {
    const policy = instanceOf(programAwareFairness);
    expect(next(policy, [flowOf("a", 5), flowOf("b", 3), flowOf("c", 4)], 10)).toBe("b");
    expect(next(policy, [flowOf("b"), flowOf("a"), flowOf("c")], 10)).toBe("b");
    const choice = choiceOf(policy, [flowOf("x"), flowOf("y")]);
    const first = choice.next(10, 0)!;
    choice.served(first);
    expect(choice.next(10, 0)!).toBe(first);
    choice.left(first);
    expect(choice.next(10, 0)!.fairnessId).toBe("y");
  });

  it("keeps the service of a fairness ID for all bands", () => {
    const policy = instanceOf(programAwareFairness);
    const [one, other] = [flowOf("a"), flowOf("b")].map((flow) => flow);
    const bands = [choiceOf(policy, [one!, other!]), choiceOf(policy, [one!, other!])];
    policy.choice().ended!("a", tokens(10, 0), 0, 0);
    expect(bands.map((band) => band.next(0, 0)!.fairnessId)).toEqual(["b", "b"]);
  });

  it("forgets with the half life: old service weighs less than new; with 0 it stays", () => {
    for (const [lasHalfLifeSeconds, expected] of [
      [60, "old"],
      [0, "new"],
    ] as const) {
      const policy = instanceOf(programAwareFairness, { lasHalfLifeSeconds });
      policy.choice().ended!("old", tokens(100, 0), 0, 0);
      policy.choice().ended!("new", tokens(51, 0), 0, 60_000);
      expect(next(policy, [flowOf("old"), flowOf("new")], 60_000)).toBe(expected);
    }
  });

  it("weighs service and wait as configured; 0 switches one off", () => {
    const flows = [flowOf("served", 0), flowOf("fresh", 10)];
    for (const [parameters, expected] of [
      [{}, "fresh"],
      [{ lasWeightService: 0 }, "served"],
      [{ lasWeightHeadWait: 0 }, "fresh"],
      [{ lasWeightService: 0.4, lasWeightHeadWait: 0.5 }, "served"],
      [{ lasWeightService: 0, lasWeightHeadWait: 0 }, "served"],
    ] as const) {
      const policy = instanceOf(programAwareFairness, parameters);
      policy.choice().ended!("served", tokens(1, 0), 0, 0);
      expect(next(policy, flows, 20)).toBe(expected);
    }
  });

  it("chooses as the formula of the reference does, over hours", () => {
    const step = fc.record({
      after: fc.oneof(fc.nat(2000), fc.nat(20_000_000)),
      id: fc.nat(5),
      cost: fc.nat(100_000),
      flows: fc.uniqueArray(fc.tuple(fc.nat(5), fc.nat(5000)), { minLength: 1, selector: ([id]) => id }),
    });
    const weights = fc.tuple(fc.constantFrom(0, 0.2, 1), fc.constantFrom(0, 0.2, 1));
    fc.assert(
      fc.property(fc.constantFrom(0, 1, 60, 3600), weights, fc.array(step, { maxLength: 40 }), (halfLife, w, steps) => {
        const parameters = { lasHalfLifeSeconds: halfLife, lasWeightService: w[0], lasWeightHeadWait: w[1] };
        const policy = instanceOf(programAwareFairness, { ...parameters, evictionTtlSeconds: 0 });
        const model = new Model(halfLife);
        let now = 0;
        for (const { after, id, cost, flows } of steps) {
          now += after;
          policy.choice().ended!(`f${id}`, tokens(cost, 0), 0, now);
          model.ended(`f${id}`, cost, now);
          const waiting = flows.map(([at, wait]) => flowOf(`f${at}`, now - wait));
          const scores = model.scores(waiting, now, w);
          const chosen = next(policy, waiting, now);
          const score = scores[waiting.findIndex(({ fairnessId }) => fairnessId === chosen)]!;
          // Both round: of flows that differ by less, either may be chosen.
          expect(score).toBeGreaterThanOrEqual(Math.max(...scores) - 1e-9);
        }
      }),
    );
  });

  it("forgets fairness IDs without an answer for long, at the next sweep, and never with 0", () => {
    const clock = new VirtualClock(0);
    const parameters = { lasHalfLifeSeconds: 0, evictionTtlSeconds: 100, evictionSweepSeconds: 30 };
    const policy = instanceOf(programAwareFairness, parameters, { clock });
    const flows = [flowOf("a"), flowOf("b")];
    policy.choice().ended!("a", tokens(10, 0), 0, 0);
    policy.choice().ended!("b", tokens(5, 0), 0, 90_000);
    expect(next(policy, flows, 100_000)).toBe("b");
    policy.choice().ended!("c", tokens(1, 0), 0, 100_000);
    expect(next(policy, flows, 110_000)).toBe("b");
    policy.choice().ended!("c", tokens(1, 0), 0, 119_999);
    expect(next(policy, flows, 120_000)).toBe("b");
    policy.choice().ended!("c", tokens(1, 0), 0, 120_000);
    expect(next(policy, flows, 120_000)).toBe("a");
    expect(policy).toMatchObject({ debugState: expect.any(Function) });
    const never = instanceOf(programAwareFairness, { ...parameters, evictionTtlSeconds: 0 }, { clock });
    never.choice().ended!("a", tokens(10, 0), 0, 0);
    for (const at of [1e6, 1e9]) never.choice().ended!("b", tokens(1, 0), 0, at);
    expect(next(never, flows, 1e9)).toBe("b");
  });

  it("knows the service of 4,096 fairness IDs: the one whose answer is longest ago leaves", () => {
    const policy = instanceOf(programAwareFairness, { lasHalfLifeSeconds: 0 });
    for (let i = 0; i < 4096; i++) policy.choice().ended!(`f${i}`, tokens(10, 0), 0, i);
    const flows = [flowOf("f0"), flowOf("f1"), flowOf("f2")];
    policy.choice().ended!("f0", tokens(1, 0), 0, 5000);
    const state = () => (policy as unknown as { debugState(): unknown }).debugState();
    expect(state()).toEqual({ fairnessIds: 4096 });
    policy.choice().ended!("one more", tokens(1, 0), 0, 5001);
    expect(state()).toEqual({ fairnessIds: 4096 });
    expect(next(policy, flows, 5001)).toBe("f1");
    expect(next(policy, [flows[0]!, flows[2]!], 5001)).toBe("f2");
  });

  it.each([
    [{ strategy: "turn-priority" }, /^strategy turn-priority is not supported yet: use las, least attained service$/],
    [{ strategy: "drr" }, /^strategy must be las$/],
    [{ evictionTtlSeconds: -1 }, /^evictionTtlSeconds must not be negative$/],
    [{ evictionSweepSeconds: 0 }, /^evictionSweepSeconds must be greater than 0$/],
    [{ lasWeightService: -0.1 }, /^lasWeightService must not be negative$/],
    [{ lasWeightHeadWait: "1" }, /^lasWeightHeadWait must be a number$/],
    [{ lasHalfLifeSeconds: -1 }, /^lasHalfLifeSeconds must not be negative$/],
    [{ halfLife: 1 }, /halfLife/],
  ])("refuses %j", (parameters, message) => {
    const issues = programAwareFairness.parameters.safeParse(parameters).error?.issues ?? [];
    expect(issues.map((issue) => issue.message)).toEqual([expect.stringMatching(message)]);
  });
});
