import { describe, expect, it } from "vitest";
import { endpointOf, instanceOf, requestOf } from "../scheduling/fakes.cases.ts";
import { LegacyAdmission } from "./legacy-admission.ts";
import { utilizationDetector } from "./utilization-detector.ts";

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
