import { describe, expect, it } from "vitest";
import { columnsOf, endpointOf, scoresOf } from "../../../../../test/support/scheduling/fakes.cases.ts";
import { IN_FLIGHT_REQUESTS } from "../../../../base/plugin/keys.ts";
import { activeRequestScorer } from "./active-request-scorer.ts";

const inFlight = (...counts: number[]) =>
  columnsOf(
    counts.map((_, slot) => endpointOf(slot)),
    [[IN_FLIGHT_REQUESTS, counts]],
  );

describe("active-request-scorer", () => {
  it("S-37: {0, 2, 4} scores 1, 0.5, 0; with idleThreshold 2 and maxBusyScore 0.5 it scores 1, 1, 0", () => {
    expect(scoresOf(activeRequestScorer, inFlight(0, 2, 4))).toEqual([1, 0.5, 0]);
    expect(scoresOf(activeRequestScorer, inFlight(0, 2, 4), { idleThreshold: 2, maxBusyScore: 0.5 })).toEqual([
      1, 1, 0,
    ]);
    expect(scoresOf(activeRequestScorer, inFlight(3, 4), { idleThreshold: 2, maxBusyScore: 0.5 })).toEqual([0.125, 0]);
    expect(scoresOf(activeRequestScorer, inFlight(0, 0))).toEqual([1, 1]);
  });

  it("corrects parameters out of range and ignores requestTimeout", () => {
    const parameters = { idleThreshold: -5, maxBusyScore: 7, requestTimeout: "2m", inFlightLoadProducerName: "" };
    expect(scoresOf(activeRequestScorer, inFlight(0, 2, 4), parameters)).toEqual([1, 0.5, 0]);
    expect(activeRequestScorer.parameters.safeParse({ idle: 1 }).success).toBe(false);
  });
});
