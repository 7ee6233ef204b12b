import { describe, expect, it } from "vitest";
import {
  columnsOf,
  decisionContextOf,
  endpointOf,
  instanceOf,
  requestOf,
  unscraped,
} from "../../../../../test/support/scheduling/fakes.cases.ts";
import { SeededRandom } from "../../../../base/clock/random.ts";
import type { Endpoint, EndpointMetrics } from "../../../../base/inference/endpoint.ts";
import { probabilisticAdmitter } from "./probabilistic-admitter.ts";

const pods = (...metrics: readonly Partial<EndpointMetrics>[]) =>
  metrics.map((each, slot) => endpointOf(slot, { metrics: each }));

/** Share of `draws` requests of a priority that are refused, and what the last one was told. */
function refusals(endpoints: readonly Endpoint[], priority: number, parameters: object = {}, draws = 10_000) {
  const admitter = instanceOf(probabilisticAdmitter, parameters);
  const random = new SeededRandom(5);
  const context = { ...decisionContextOf(columnsOf(endpoints), requestOf("p", { priority })), random };
  let refused = 0;
  let told: unknown;
  for (let i = 0; i < draws; i++) {
    const answer = admitter.admit(context);
    if (answer === undefined) continue;
    refused++;
    told = answer;
  }
  return { share: refused / draws, told };
}

describe("probabilistic-admitter (scheduling 3.16)", () => {
  it("S-44: refuses sheddable requests at saturation 1 and says why; others never", () => {
    const full = pods({ waiting: 5, kvUsage: 0.1 });
    expect(refusals(full, -1)).toEqual({
      share: 1,
      told: "sheddable request refused at saturation 1.000, probability 1.00",
    });
    expect(refusals(full, 0).share).toBe(0);
    expect(refusals(full, 7).share).toBe(0);
    expect(refusals(pods({ waiting: 0, kvUsage: 0 }), -1).share).toBe(0);
  });

  it("S-44: the probability is k times saturation to the power, the mean over the worse of queue and KV cache", () => {
    // (0.2 + 0.4) / 2 = 0.3; 300 x 0.3^5 = 0.729. Three standard deviations are 1.3 %.
    const { share } = refusals(pods({ waiting: 1, kvUsage: 0 }, { waiting: 0, kvUsage: 0.32 }), -1);
    expect(Math.abs(share - 0.729)).toBeLessThan(0.014);
    const halved = refusals(pods({ waiting: 5, kvUsage: 0 }), -1, {
      queueDepthThreshold: 10,
      kvCacheUtilThreshold: 0.5,
      power: 1,
      k: 1,
    });
    expect(Math.abs(halved.share - 0.5)).toBeLessThan(0.016);
  });

  it("an endpoint without believable metrics counts as saturated, one without queue figures by its KV cache", () => {
    const parameters = { power: 1, k: 1 };
    expect(refusals([unscraped(0)], -1, parameters, 200).share).toBe(1);
    const stale = pods({ waiting: 0, kvUsage: 0, scrapedAt: -60_000 });
    expect(refusals(stale, -1, parameters, 200).share).toBe(1);
    const known = refusals(pods({ waiting: Number.NaN, kvUsage: 0.4 }), -1, parameters);
    expect(Math.abs(known.share - 0.5)).toBeLessThan(0.016);
  });

  it("draws nothing for requests that it admits anyway, and admits where there is no candidate", () => {
    const random = new SeededRandom(1);
    const { state } = random;
    const admitter = instanceOf(probabilisticAdmitter);
    const full = pods({ waiting: 50 });
    admitter.admit({ ...decisionContextOf(columnsOf(full), requestOf("p")), random });
    const none = { ...decisionContextOf(columnsOf([]), requestOf("p", { priority: -1 })), random };
    expect(admitter.admit(none)).toBeUndefined();
    expect(random.state).toBe(state);
  });

  it.each([
    [{ queueDepthThreshold: 0 }, "must be greater than 0"],
    [{ kvCacheUtilThreshold: 0 }, "must be greater than 0"],
    [{ power: -1 }, "must be greater than 0"],
    [{ k: 0 }, "must be greater than 0"],
    [{ queueDepthThreshold: 1.5 }, "int"],
    [{ threshold: 1 }, "threshold"],
  ])("refuses %j", (parameters, message) => {
    const { error } = probabilisticAdmitter.parameters.safeParse(parameters);
    expect(error?.issues.map((issue) => issue.message).join()).toContain(message);
  });
});
