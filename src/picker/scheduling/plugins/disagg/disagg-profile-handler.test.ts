import { describe, expect, it } from "vitest";
import { endpointOf, requestOf } from "../../../../../test/support/scheduling/fakes.cases.ts";
import {
  decide,
  deciderSaying,
  handlerOf,
  type Outcomes,
} from "../../../../../test/support/scheduling/plugins/profiles/handlers.cases.ts";
import { VirtualClock } from "../../../../base/clock/virtual.ts";
import { Rejection } from "../../../../base/inference/outcomes.ts";
import type { ProfileResult } from "../../../../base/plugin/kinds.ts";
import { silentLogger } from "../../../../base/telemetry/logger.ts";
import { disaggHeadersHandler } from "./disagg-headers-handler.ts";
import { disaggProfileHandler } from "./profile-handlers.ts";

const ALL: Outcomes = { decode: [2], prefill: [1], encode: [0, 3] };
const BOTH = { prefill: "pd", encode: "mm" };

/** A handler with two deciders, and what it does. */
function run(outcomes: Outcomes, says: { pd?: boolean; mm?: boolean }, parameters: object = { deciders: BOTH }) {
  const pd = deciderSaying("pd", says.pd ?? false);
  const mm = deciderSaying("mm", says.mm ?? false);
  const handler = handlerOf(disaggProfileHandler, parameters, [pd.definition, mm.definition]);
  return { ...decide(handler, outcomes, requestOf("x".repeat(41))), pd: pd.asked, mm: mm.asked };
}

/** What is wrong with parameters: path and message. */
function wrongIn(parameters: object): [string, string][] {
  const issues = disaggProfileHandler.parameters.safeParse(parameters).error?.issues ?? [];
  return issues.map(({ path, message }) => [path.join("."), message]);
}

const notesOf = (parameters: object) => disaggProfileHandler.notes!(disaggProfileHandler.parameters.parse(parameters));
const referencesOf = (parameters: object) =>
  disaggProfileHandler.references!(disaggProfileHandler.parameters.parse(parameters));

describe("disagg-profile-handler, decode first (scheduling 3.7.1)", () => {
  it.each([
    [{}, [["decode"]], "decode-only"],
    [{ pd: true }, [["decode"], ["prefill"]], "prefill-decode"],
    [{ mm: true }, [["decode"], ["encode"]], "encode-decode"],
    [{ pd: true, mm: true }, [["decode"], ["encode"], ["prefill"]], "encode-prefill-decode"],
  ])("S-47 deciders saying %j: %j, one step each, and %s", (says, steps, decision) => {
    const done = run(ALL, says);
    expect(done).toMatchObject({ steps, decision, primary: "decode" });
    // Asked once each, after decode, about the endpoint that it chose.
    for (const asked of [done.pd, done.mm]) {
      expect(asked).toHaveLength(1);
      expect(asked[0]!.result!.endpoints).toEqual([endpointOf(2)]);
      expect(asked[0]!.inputTokens).toBe(11);
    }
  });

  it("skips a stage without a decider, and one without a profile", () => {
    const yes = { pd: true, mm: true };
    expect(run(ALL, yes, {}).steps).toEqual([["decode"]]);
    expect(run(ALL, yes, { deciders: { encode: "mm" } }).steps).toEqual([["decode"], ["encode"]]);
    const without = run({ decode: [2], encode: [0] }, yes);
    expect(without).toMatchObject({ steps: [["decode"], ["encode"]], decision: "encode-decode" });
    expect(without.pd).toEqual([]);
    expect(run({ decode: [2] }, yes)).toMatchObject({ steps: [["decode"]], decision: "decode-only" });
  });

  it("S-48 no endpoint for decode: no further stage, 429, not counted", () => {
    const done = run({ ...ALL, decode: undefined }, { pd: true, mm: true });
    expect(done).toMatchObject({ steps: [["decode"]], decision: undefined, pd: [], mm: [] });
    expect((done.primary as Rejection).status).toBe(429);
    expect((done.primary as Rejection).detail).toBe("failed to find available decode workers: decode has none");
  });

  it("S-48 no endpoint for prefill, or for encode: the other stages serve", () => {
    const yes = { pd: true, mm: true };
    expect(run({ ...ALL, prefill: undefined }, yes)).toMatchObject({ primary: "decode", decision: "encode-decode" });
    expect(run({ ...ALL, encode: undefined }, yes)).toMatchObject({ primary: "decode", decision: "prefill-decode" });
    const none = run({ ...ALL, prefill: undefined, encode: undefined }, yes);
    expect(none).toMatchObject({ primary: "decode", decision: "decode-only" });
    expect(none.steps).toEqual([["decode"], ["encode"], ["prefill"]]);
  });

  it("says which profile is missing when decode does not exist", () => {
    const { steps, primary } = run({ prefill: [0], other: [1] }, { pd: true });
    expect(steps).toEqual([]);
    expect((primary as Rejection).status).toBe(429);
    expect((primary as Rejection).detail).toContain("no profile is called decode, there are prefill, other");
  });

  it("keeps the reason of a failure that is not ours to call a lack of endpoints", () => {
    const handler = handlerOf(disaggProfileHandler);
    const results = new Map<string, ProfileResult | Rejection>([["decode", new Rejection("internal", "picker broke")]]);
    const primary = handler.processResults({ request: requestOf(""), profiles: ["decode"], results });
    expect((primary as Rejection).status).toBe(500);
  });
});

describe("disagg-profile-handler, prefill first (scheduling 3.7.1)", () => {
  const parameters = { stageOrder: "prefill-first", deciders: { encode: "mm" } };

  it.each([
    [{ mm: true }, ALL, [["prefill"], ["encode"], ["decode"]], "encode-prefill-decode"],
    [{}, ALL, [["prefill"], ["decode"]], "prefill-decode"],
    [{}, { ...ALL, prefill: undefined }, [["prefill"], ["decode"]], "decode-only"],
    [{ mm: true }, { decode: [2], encode: [0] }, [["encode"], ["decode"]], "encode-decode"],
    [{ mm: true }, { decode: [2] }, [["decode"]], "decode-only"],
  ] as const)("deciders saying %j of %j: %j", (says, outcomes, steps, decision) => {
    const done = run(outcomes, says, parameters);
    expect(done).toMatchObject({ steps, decision, primary: "decode" });
    // The encode decider is called without an endpoint.
    for (const { result } of done.mm) expect(result).toBeUndefined();
  });

  it("asks the encode decider once also when it declines", () => {
    expect(run(ALL, {}, parameters).mm).toHaveLength(1);
  });

  it("S-48 no endpoint for decode: 429", () => {
    const { primary, decision } = run({ ...ALL, decode: undefined }, {}, parameters);
    expect((primary as Rejection).status).toBe(429);
    expect(decision).toBeUndefined();
  });

  it("has no place for a prefill decider", () => {
    for (const [deciders, path] of [
      [{ deciders: { prefill: "pd" } }, "deciders.prefill"],
      [{ prefillDeciderPluginName: "pd" }, "prefillDeciderPluginName"],
      [{ deciderPluginName: "pd" }, "deciderPluginName"],
    ] as const)
      expect(wrongIn({ stageOrder: "Prefill_First", ...deciders })).toEqual([
        [path, expect.stringContaining("has no effect with stageOrder prefill-first")],
      ]);
  });
});

describe("the parameters of disagg-profile-handler (scheduling 3.7)", () => {
  it.each([
    ["decode-first", "decode"],
    ["DecodeFirst", "decode"],
    ["decode_first", "decode"],
    ["decode", "decode"],
    ["", "decode"],
    ["prefill-first", "prefill"],
    ["PREFILL_FIRST", "prefill"],
    ["prefillfirst", "prefill"],
    ["Prefill", "prefill"],
  ])("stageOrder %j begins with %s", (stageOrder, first) => {
    expect(run(ALL, {}, { stageOrder }).steps[0]).toEqual([first]);
  });

  it("refuses another stageOrder, and says which there are", () => {
    expect(wrongIn({ stageOrder: "encode-first" })).toEqual([
      ["stageOrder", 'is "encode-first"; write decode-first or prefill-first'],
    ]);
  });

  it("renames profiles, for the stages and for the headers, nested or flat", () => {
    const renamed: Outcomes = { d: [2], p: [1], e: [0] };
    const yes = { pd: true, mm: true };
    for (const parameters of [
      { profiles: { decode: "d", prefill: "p", encode: "e" }, deciders: BOTH },
      {
        decodeProfile: "d",
        prefillProfile: "p",
        encodeProfile: "e",
        prefillDeciderPluginName: "pd",
        encodeDeciderPluginName: "mm",
      },
    ]) {
      expect(run(renamed, yes, parameters).steps).toEqual([["d"], ["e"], ["p"]]);
      const companions = disaggProfileHandler.companions!(disaggProfileHandler.parameters.parse(parameters));
      expect(companions).toEqual([
        { definition: disaggHeadersHandler, parameters: { prefillProfile: "p", encodeProfile: "e" } },
      ]);
    }
  });

  it("names its deciders with the place where each stands", () => {
    expect(referencesOf({ deciders: BOTH })).toEqual([
      { path: ["deciders", "prefill"], name: "pd", kind: "decider" },
      { path: ["deciders", "encode"], name: "mm", kind: "decider" },
    ]);
    expect(referencesOf({ prefillDeciderPluginName: "pd", encodeDeciderPluginName: "mm" })).toEqual([
      { path: ["prefillDeciderPluginName"], name: "pd", kind: "decider" },
      { path: ["encodeDeciderPluginName"], name: "mm", kind: "decider" },
    ]);
    expect(referencesOf({ deciderPluginName: "pd" })).toEqual([
      { path: ["deciderPluginName"], name: "pd", kind: "decider" },
    ]);
    expect(referencesOf({ deciders: { prefill: "" } })).toEqual([]);
  });

  it("does not start with a decider that the configuration lacks", () => {
    const make = () => handlerOf(disaggProfileHandler, { deciders: { prefill: "nobody" } });
    expect(make).toThrow("unregistered plugin nobody");
  });

  it.each([
    [{ profiles: {}, decodeProfile: "d" }, "decodeProfile", "cannot be mixed with profiles"],
    [
      { deciders: {}, deciderPluginName: "pd" },
      "deciderPluginName",
      "is the older form of deciders.prefill and cannot",
    ],
    [
      { prefillDeciderPluginName: "a", deciderPluginName: "b" },
      "deciderPluginName",
      "remove deciderPluginName (the old name)",
    ],
    [{ profiles: { prefill: "decode" } }, "profiles", "decode and prefill have the same profile, decode"],
    [{ encodeProfile: "prefill" }, "profiles", "encode has the same profile as another stage, prefill"],
  ])("%j is an error that says what to do", (parameters, path, text) => {
    expect(wrongIn(parameters)).toEqual([[path, expect.stringContaining(text)]]);
  });

  it("takes the two flat names of the prefill decider when they agree", () => {
    const both = { prefillDeciderPluginName: "pd", deciderPluginName: "pd" };
    expect(referencesOf(both).map(({ name }) => name)).toEqual(["pd"]);
    expect(run(ALL, { pd: true }, both).decision).toBe("prefill-decode");
  });

  it("notes the older form, and a handler that will never split a request", () => {
    expect(notesOf({ deciders: BOTH })).toEqual([]);
    expect(notesOf({ stageOrder: "prefill-first" })).toEqual([]);
    expect(notesOf({ deciderPluginName: "pd" })).toEqual(["deciderPluginName is the older form of deciders.prefill"]);
    expect(notesOf({})).toEqual([expect.stringContaining("only the decode profile runs")]);
  });
});

describe("a decider that fails", () => {
  it("says no, is told in the log now and then, and asks the other one no less", () => {
    const clock = new VirtualClock();
    const told: unknown[] = [];
    const log = { ...silentLogger, error: (_: unknown, text: string) => told.push(text), child: () => log };
    const failing = deciderSaying("pd", true).definition;
    const broken = { ...failing, create: () => ({ decide: (): boolean => JSON.parse("{") }) };
    // What is waited for would be a yes every time.
    const waiting = { ...broken, type: "mm", create: () => ({ decide: (async () => true) as never }) };
    const yes = deciderSaying("mm", true).definition;
    const of = (second: typeof yes) =>
      handlerOf(disaggProfileHandler, { deciders: BOTH }, [broken, second], { clock, log });
    const handler = of(yes);
    for (let i = 0; i < 3; i++)
      expect(decide(handler, ALL)).toMatchObject({ steps: [["decode"], ["encode"]], decision: "encode-decode" });
    // Encode comes first; where that ran the prefill decider is asked after it.
    expect(told).toEqual(["the prefill decider failed, so the stage does not run"]);
    clock.advance(10_000);
    expect(decide(handler, ALL).primary).toBe("decode");
    expect(told).toHaveLength(2);
    expect(decide(of(waiting), ALL)).toMatchObject({ steps: [["decode"]], decision: "decode-only" });
    expect(told.slice(2)).toEqual([
      "the encode decider failed, so the stage does not run",
      "the prefill decider failed, so the stage does not run",
    ]);
  });
});
