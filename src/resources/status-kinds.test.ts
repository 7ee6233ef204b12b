import { describe, expect, it } from "vitest";
import { formatPath } from "../document/document.ts";
import type { Violation } from "../document/validate.ts";
import { GROUP } from "./objects.ts";
import { readConditions, readImportStatus, readPoolStatus, type StatusReading } from "./status-kinds.ts";

function problems(reading: { readonly violations?: readonly Violation[] }): string {
  return (reading.violations ?? []).map(({ path, problem }) => `${formatPath(path)}: ${problem}`).join("\n");
}

describe("status (R-3: P25, S, I)", () => {
  const accepted = {
    type: "Accepted",
    status: "True",
    reason: "Accepted",
    message: "",
    lastTransitionTime: "2026-01-31T12:00:00Z",
  };
  const parents = (...list: unknown[]) => readPoolStatus(GROUP.stable, { parents: list });
  const gateway = { parentRef: { name: "gw", namespace: "infra" } };

  it("accepts what controllers write, with its defaults", () => {
    expect(parents({ ...gateway, controllerName: "example.com/gw", conditions: [accepted] })).toEqual({
      status: [
        {
          parentRef: { group: "gateway.networking.k8s.io", kind: "Gateway", name: "gw", namespace: "infra" },
          controllerName: "example.com/gw",
          conditions: [accepted],
        },
      ],
    });
    const controller = { name: "example.com/gw", exportingClusters: [{ name: "west" }] };
    expect(readImportStatus({ controllers: [controller] })).toMatchObject({ status: [controller] });
    expect(readConditions("InferenceModel", { conditions: [accepted] })).toEqual({ status: [accepted] });
  });

  it.each<[string, StatusReading<unknown>, string]>([
    ["P25", readPoolStatus(GROUP.experimental, { parent: [{}] }), "status.parent[0].parentRef: is missing"],
    ["S1", parents({ ...gateway, controllerName: "example.com" }), "must be a domain, a slash and a path"],
    [
      "S2",
      parents({ ...gateway, conditions: [accepted, accepted] }),
      "status.parents[0].conditions[1].type: duplicate value `Accepted`",
    ],
    ["S3", parents({ ...gateway, conditions: [{ ...accepted, status: "Yes" }] }), "expected one of `True`, `False`"],
    ["S3", parents({ ...gateway, conditions: [{ ...accepted, reason: "" }] }), "reason: must not be empty"],
    [
      "S3",
      parents({ ...gateway, conditions: Array.from({ length: 9 }, (_, i) => ({ ...accepted, type: `T${i}` })) }),
      "conditions: must have at most 8 entries, has 9",
    ],
    ["S4", parents(...Array(33).fill(gateway)), "status.parents: must have at most 32 entries, has 33"],
    ["S5", parents({ parentRef: { name: "gw", namespace: "a.b" } }), "namespace: must be lower-case letters"],
    ["S6", parents({ conditions: [] }), "status.parents[0].parentRef: is missing"],
    ["I1", readImportStatus({}), "status.controllers: is missing"],
    ["I2", readImportStatus({ controllers: [{ name: "a.b/c" }, { name: "a.b/c" }] }), "duplicate value `a.b/c`"],
    [
      "I2",
      readImportStatus({ controllers: Array.from({ length: 9 }, (_, i) => ({ name: `a.b/${i}` })) }),
      "status.controllers: must have at most 8 entries, has 9",
    ],
    [
      "a time that isn't one",
      readConditions("InferenceModel", { conditions: [{ ...accepted, lastTransitionTime: "now" }] }),
      "must be a time such as",
    ],
  ])("%s is rejected", (_, reading, gist) => {
    expect(problems(reading as object)).toContain(gist);
  });

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
