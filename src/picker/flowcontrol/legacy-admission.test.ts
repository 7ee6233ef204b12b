import { describe, expect, it } from "vitest";
import { endpointOf, instanceOf, requestOf } from "../../../test/support/scheduling/fakes.cases.ts";
import { LegacyAdmission } from "./legacy-admission.ts";
import { utilizationDetector } from "./saturation-detectors.ts";

const admission = new LegacyAdmission(instanceOf(utilizationDetector));
const pool = (waiting: number) => [endpointOf(0, { metrics: { waiting } })];
const admit = (priority: number, waiting: number) => admission.admit(requestOf("p", { priority }), pool(waiting), 0);

describe("admission without flow control", () => {
  it("S-72: drops a negative priority at saturation 1 with 429 and the reason header", () => {
    const refused = admit(-1, 5);
    expect(refused?.status).toBe(429);
    expect(refused?.text).toBe("inference error: ResourceExhausted - system saturated, sheddable request dropped");
    expect(refused?.droppedHeader).toEqual(["x-llm-d-request-dropped-reason", "rejected-saturated"]);
    expect(admit(-1, 4)).toBeUndefined();
  });

  it("S-72: serves priority 0 and above whatever the saturation", () => {
    expect([admit(0, 500), admit(3, 500)]).toEqual([undefined, undefined]);
  });

  it("sheds Sheddable, then Standard, and Critical never; legacy criticality knows two levels (R-18, E-111)", () => {
    const levels = {
      critical: [1, Number.POSITIVE_INFINITY],
      standard: [0, 2],
      legacy: [0, 1],
      batch: [-1, 1],
    } as const;
    const served = (waiting: number) =>
      Object.entries(levels)
        .filter(([, [priority, shedAt]]) => !admission.admit(requestOf("p", { priority, shedAt }), pool(waiting), 0))
        .map(([name]) => name);
    expect([4, 5, 9, 10, 5000].map(served)).toEqual([
      ["critical", "standard", "legacy", "batch"],
      ["critical", "standard"],
      ["critical", "standard"],
      ["critical"],
      ["critical"],
    ]);
    expect(admission.admit(requestOf("p", { priority: 0, shedAt: 2 }), pool(10), 0)?.text).toBe(
      "inference error: ResourceExhausted - system saturated, request of standard criticality dropped",
    );
  });

  it("looks at the candidates of the request only", () => {
    const sheddable = requestOf("p", { priority: -5 });
    expect(admission.admit(sheddable, [...pool(9), endpointOf(1)], 0)).toBeUndefined();
    expect(admission.admit(sheddable, pool(9), 0)).toBeDefined();
  });

  it("takes a detector that answers NaN for saturated", () => {
    const broken = new LegacyAdmission({ saturation: () => Number.NaN });
    expect(broken.admit(requestOf("p", { priority: -1 }), pool(0), 0)?.reason).toBe("saturated");
  });
});
