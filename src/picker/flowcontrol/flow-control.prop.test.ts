import fc from "fast-check";
import { describe, it } from "vitest";
import type { FlowOp, FlowPlan } from "../../../test/support/flowcontrol/flow-op.cases.ts";
import { FlowTwins } from "../../../test/support/flowcontrol/flow-twins.cases.ts";
import type { PlainBand, PlainSettings } from "../../../test/support/flowcontrol/plain-policies.cases.ts";

const NONE = Number.POSITIVE_INFINITY;
const priority = fc.constantFrom(-7, -1, 0, 0, 1, 5);
/** Half a millisecond, so that no deadline falls together with another event. */
const ttl = fc.constantFrom(NONE, 20.5, 1000.5, 5000.5, 60_000.5);

const plan: fc.Arbitrary<FlowPlan> = fc.record({
  priority,
  flow: fc.constantFrom("a", "b", "c", "d"),
  bytes: fc.nat(40),
  dispatched: fc.constantFrom("nothing", "nothing", "decide", "end", "enter", "cancel"),
  evicted: fc.constantFrom("nothing", "nothing", "enter"),
  tokens: fc.record({
    prompt: fc.constantFrom(0, 1, 50, 700),
    most: fc.constantFrom(Number.NaN, 16, 1000),
    answer: fc.constantFrom(Number.NaN, 0, 16, 400),
  }),
});

const band: fc.Arbitrary<PlainBand> = fc.record({
  maxBytes: fc.constantFrom(NONE, NONE, 100, 0),
  maxRequests: fc.constantFrom(NONE, NONE, 20, 3),
  ttl,
  ordering: fc.constantFrom("arrival", "deadline", "size", "nan"),
  fairness: fc.constantFrom("one-queue", "turns", "tokens"),
});

const line = fc.constantFrom(
  [1, 1] as const,
  [1, 0.5] as const,
  [0.5, 0.5] as const,
  [0.25, 1] as const,
  [1, 0.25] as const,
);
const settingsWith = (ceilings: fc.Arbitrary<PlainSettings["ceilings"]>): fc.Arbitrary<PlainSettings> =>
  fc.record({
    maxBytes: fc.constantFrom(NONE, NONE, 300),
    maxRequests: fc.constantFrom(NONE, NONE, 30),
    noEndpointTtl: ttl,
    bands: fc.uniqueArray(fc.tuple(priority, band), { maxLength: 3, selector: ([number]) => number }),
    template: band,
    negativeTemplate: band,
    ceilings,
  });
const settings = settingsWith(fc.oneof(line, fc.constant("reflective" as const)));

const which = fc.nat(1000);
const op: fc.Arbitrary<FlowOp> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({ kind: fc.constant("enter"), times: fc.constantFrom(1, 1, 1, 2, 9, 100), plan }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("cancel"), which }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("decide"), which }) },
  { weight: 8, arbitrary: fc.record({ kind: fc.constant("end"), which }) },
  {
    weight: 2,
    arbitrary: fc.record({
      ...{ kind: fc.constant("poke"), which },
      method: fc.constantFrom("cancel", "decide", "end"),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("load"),
      loads: fc.array(fc.constantFrom(0, 0.25, 0.5, 0.75, 1, 2), { minLength: 1, maxLength: 3 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("detector"), detector: fc.constantFrom("works", "throws", "nan") }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("pool"),
      roles: fc.oneof(
        fc.constantFrom([], [""], ["", ""]),
        fc.array(fc.constantFrom("", "prefill", "decode", "both", "encode", "encode-prefill", "other"), {
          maxLength: 4,
        }),
      ),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("priorities"), wanted: fc.uniqueArray(priority, { maxLength: 3 }) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("configure"), settings }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("letGo") }) },
  {
    weight: 5,
    arbitrary: fc.record({ kind: fc.constant("advance"), ms: fc.constantFrom(1, 19, 500, 1000, 30_000, 600_000) }),
  },
);

/** How the engine and the slow model go on together. One step in 256 or so may be the end: the others come after it. */
const play = (chosen: PlainSettings, perRequest: number, ops: readonly FlowOp[], close: boolean): void => {
  const twins = new FlowTwins(chosen, perRequest);
  for (const one of ops) twins.run(one);
  twins.finish(close);
};

describe("flow control against a slow model", () => {
  const agrees = (first: fc.Arbitrary<PlainSettings>, numRuns: number): void =>
    fc.assert(
      fc.property(
        first,
        fc.constantFrom(1, 0.25, 0.125, 0.03125),
        fc.array(op, { minLength: 1, maxLength: 60, size: "max" }),
        fc.boolean(),
        play,
      ),
      { numRuns },
    );

  it("agrees on every outcome, its order and time, and on every counter", () => agrees(settingsWith(line), 300));

  it("agrees where the ceilings alternate from look to look, and asks for them each millisecond", () =>
    agrees(settingsWith(fc.constant("reflective")), 150));
});
