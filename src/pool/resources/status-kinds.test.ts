import { describe, expect, it } from "vitest";
import { GROUP } from "./objects.ts";
import { readConditions, readPoolStatus, type StatusReading } from "./status-kinds.ts";

// verdicts.test.ts has what is refused, and what is accepted as the server hands it out.
describe("status", () => {
  const gateway = { parentRef: { name: "gw", namespace: "infra" } };

  it("fills defaults only into what exists (1.10)", () => {
    const reasons = (reading: StatusReading<readonly { type: string; reason: string }[]>) =>
      "status" in reading ? reading.status.map(({ type, reason }) => `${type} ${reason}`) : [];
    expect(reasons(readConditions("InferenceModel", undefined))).toEqual([]);
    expect(reasons(readConditions("InferenceObjective", {}))).toEqual(["Ready Pending"]);
    expect(reasons(readConditions("InferenceModelRewrite", {}))).toEqual(["Accepted Pending"]);
    expect(readPoolStatus(GROUP.stable, undefined)).toEqual({ status: [] });
    expect(readPoolStatus(GROUP.stable, { parents: [gateway] })).toEqual({
      status: [{ parentRef: { group: "gateway.networking.k8s.io", kind: "Gateway", ...gateway.parentRef } }],
    });
    expect(readPoolStatus(GROUP.experimental, undefined)).toMatchObject({
      status: [{ parentRef: { kind: "Status", name: "default" }, conditions: [{ reason: "Pending" }] }],
    });
    expect(readPoolStatus(GROUP.experimental, {})).toEqual({ status: [] });
    expect(readPoolStatus(GROUP.experimental, { parent: [gateway] })).toMatchObject({
      status: [{ conditions: [{ type: "Accepted", status: "Unknown", reason: "Pending" }] }],
    });
  });
});
