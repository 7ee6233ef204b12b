import { describe, expect, it } from "vitest";
import { formatPath } from "../document/document.ts";
import type { Violation } from "../document/validate.ts";
import { GROUP, type InferenceModel, type InferencePool } from "./objects.ts";
import { type ResourceReading, readResource } from "./read.ts";
import { transitionViolations } from "./rules.ts";
import type { UnknownKeys } from "./scalars.ts";

// Every row on specs of the verdict table (api-resources 8.2; R-3); status-kinds.test.ts has those on status. Where
// releases differ, the newest counts.

type Spec = Record<string, unknown>;

const object = (kind: string, apiVersion: string, spec: unknown) => ({
  apiVersion,
  kind,
  metadata: { name: "x" },
  ...(spec !== undefined && { spec }),
});
const reader = (kind: string, apiVersion: string, base: Spec) => ({
  /** The base object with some keys of its spec changed; `undefined` removes one. */
  with: (change: Spec, unknownKeys: UnknownKeys = "refuse") => {
    const spec = Object.fromEntries(Object.entries({ ...base, ...change }).filter(([, value]) => value !== undefined));
    return readResource(object(kind, apiVersion, spec), { unknownKeys });
  },
  of: (spec: unknown) => readResource(object(kind, apiVersion, spec)),
});

const epp = { name: "epp" };
const P = reader("InferencePool", `${GROUP.experimental}/v1alpha2`, {
  selector: { app: "a" },
  targetPortNumber: 8000,
  extensionRef: epp,
});
const M = reader("InferenceModel", `${GROUP.experimental}/v1alpha2`, { modelName: "food", poolRef: { name: "p" } });
const V = reader("InferencePool", `${GROUP.stable}/v1`, {
  selector: { matchLabels: { app: "a" } },
  targetPorts: [{ number: 8000 }],
  endpointPickerRef: { name: "epp", port: { number: 9002 } },
});
const O = (group: string) => reader("InferenceObjective", `${group}/v1alpha2`, { priority: 1, poolRef: { name: "p" } });
const R = reader("InferenceModelRewrite", `${GROUP.llmd}/v1alpha2`, { poolRef: { name: "p" }, rules: [] });

function problems(reading: { readonly violations?: readonly Violation[] }): string {
  return (reading.violations ?? []).map(({ path, problem }) => `${formatPath(path)}: ${problem}`).join("\n");
}
const pool = (reading: ResourceReading): InferencePool => usable(reading) as InferencePool;
const model = (reading: ResourceReading): InferenceModel => usable(reading) as InferenceModel;
function usable(reading: ResourceReading) {
  if (reading.outcome !== "usable") throw new Error(`${reading.outcome}: ${problems(reading as object)}`);
  return reading.object;
}

const extension = (change: Spec) => ({ extensionRef: { ...epp, ...change } });
const picker = (change: Spec) => ({ endpointPickerRef: { name: "epp", port: { number: 9002 }, ...change } });
const target = (name: string, weight?: unknown) => (weight === undefined ? { name } : { name, weight });
const ports = (count: number) => ({ targetPorts: Array.from({ length: count }, (_, i) => ({ number: 8000 + i })) });
const matchLabels = (count: number) => ({
  selector: { matchLabels: Object.fromEntries(Array.from({ length: count }, (_, i) => [`l${i}`, "x"])) },
});

describe("R-3: accepted", () => {
  it("P1 with its defaults", () => {
    expect(pool(P.with({})).picker).toEqual({
      group: "",
      kind: "Service",
      name: "epp",
      port: undefined,
      failureMode: "FailClose",
    });
  });

  it("P15 a picker of another kind, as written", () => {
    const ref = { group: "apps.example.com", kind: "Picker", portNumber: 50051, failureMode: "FailOpen" };
    expect(pool(P.with(extension(ref))).picker).toEqual({
      group: "apps.example.com",
      kind: "Picker",
      name: "epp",
      port: 50051,
      failureMode: "FailOpen",
    });
  });

  it("M1 with its defaults", () => {
    const read = model(M.with({}));
    expect(read.poolRef).toEqual({ group: GROUP.experimental, kind: "InferencePool", name: "p" });
    expect([read.criticality, read.targets]).toEqual([undefined, []]);
  });

  it("V1 with its defaults", () => {
    const read = pool(V.with({}));
    expect([read.appProtocol, read.picker?.kind, read.picker?.failureMode, read.picker?.port]).toEqual([
      "http",
      "Service",
      "FailClose",
      9002,
    ]);
  });

  it("O1 with its defaults: the pool of an objective is one of v1, unset priorities stay unset", () => {
    for (const group of [GROUP.llmd, GROUP.experimental])
      expect(usable(O(group).with({ priority: undefined }))).toMatchObject({
        priority: undefined,
        poolRef: { group: GROUP.stable, kind: "InferencePool", name: "p" },
      });
  });

  it.each<[string, ResourceReading, Spec]>([
    ["P3 selector {}", P.with({ selector: {} }), { selector: {} }],
    ["P17 a label key nobody can have", P.with({ selector: { "example~": "x" } }), { selector: { "example~": "x" } }],
    ["P20 an empty label value", P.with({ selector: { app: "" } }), { selector: { app: "" } }],
    ["P23 targetPorts, dropped", P.with({ targetPorts: [{ number: 1 }] }, "drop"), { targetPorts: [8000] }],
    ["M5 modelName empty", M.with({ modelName: "" }), { modelName: "" }],
    [
      "M7 weights for both",
      M.with({ targetModels: [target("a", 50), target("b", 50)] }),
      { targets: [target("a", 50), target("b", 50)] },
    ],
    ["M12 no targets", M.with({ targetModels: [] }), { targets: [] }],
    ["M14 a target twice", M.with({ targetModels: [target("a"), target("a")] }), {}],
    ["M18 poolRef.namespace, dropped", M.with({ poolRef: { name: "p", namespace: "other" } }, "drop"), {}],
    ["M20 ten times the largest weight", M.with({ targetModels: Array(10).fill(target("a", 1_000_000)) }), {}],
    [
      "V3 another kind without port",
      V.with({ endpointPickerRef: { name: "epp", kind: "Picker", group: "ex.io" } }),
      { picker: { group: "ex.io", kind: "Picker", name: "epp", port: undefined, failureMode: "FailClose" } },
    ],
    ["V4 no endpointPickerRef (since v1.6)", V.with({ endpointPickerRef: undefined }), { picker: undefined }],
    ["V6 two ports", V.with(ports(2)), { targetPorts: [8000, 8001] }],
    ["V8 eight ports", V.with(ports(8)), {}],
    ["V12 64 labels", V.with(matchLabels(64)), {}],
    ["V13 h2c", V.with({ appProtocol: "kubernetes.io/h2c" }), { appProtocol: "kubernetes.io/h2c" }],
    ["O1 a negative priority", O(GROUP.llmd).with({ priority: -10 }), { priority: -10 }],
    ["O3 a priority beyond int32 in the older group", O(GROUP.experimental).with({ priority: 3e9 }), { priority: 3e9 }],
    ["R1 no rules", R.with({ rules: [] }), { rules: [] }],
    ["R1 an empty rule", R.with({ rules: [{}] }), { rules: [{ matches: [], targets: [] }] }],
    [
      "R3 weights for some",
      R.with({ rules: [{ targets: [{ modelRewrite: "a", weight: 10 }, { modelRewrite: "b" }] }] }),
      { rules: [{ matches: [], targets: [target("a", 10), { name: "b", weight: undefined }] }] },
    ],
  ])("%s", (_, reading, expected) => {
    expect(usable(reading)).toMatchObject(expected);
  });

  it.each([
    ["P24", P.of(undefined)],
    ["M21", M.of(undefined)],
    ["M21 as null", M.of(null)],
  ])("%s: without spec there is nothing to act on, and nobody falls over it (R-4)", (_, reading) => {
    expect(reading.outcome).toBe("empty");
  });

  it("M17: another criticality or pool is no transition that is refused", () => {
    const after = model(M.with({ criticality: "Critical", poolRef: { name: "other" } }));
    expect(transitionViolations(model(M.with({})), after)).toEqual([]);
  });
});

describe("R-3: rejected", () => {
  it.each<[string, ResourceReading, string]>([
    ["P2", P.with({ selector: undefined }), "spec.selector: is missing"],
    ["P4", P.with({ targetPortNumber: 0 }), "spec.targetPortNumber: must be at least 1, got 0"],
    ["P5", P.with({ targetPortNumber: 65_536 }), "spec.targetPortNumber: must be at most 65535, got 65536"],
    ["P6", P.with({ targetPortNumber: "8000" }), 'expected a whole number, got the string "8000"; remove the quotes'],
    ["P7", P.with({ extensionRef: undefined }), "spec.extensionRef: is missing"],
    ["P8", P.with({ extensionRef: {} }), "spec.extensionRef.name: is missing"],
    ["P9", P.with(extension({ name: "" })), "spec.extensionRef.name: must not be empty"],
    ["P10", P.with(extension({ name: "n".repeat(254) })), "name: must have at most 253 characters, has 254"],
    [
      "P11",
      P.with(extension({ failureMode: "failClose" })),
      'failureMode: expected one of `FailOpen`, `FailClose`, got the string "failClose"; did you mean `FailClose`?',
    ],
    [
      "P12",
      P.with(extension({ kind: "My/Kind" })),
      "kind: must be letters, digits and hyphens that begin with a letter",
    ],
    ["P13", P.with(extension({ kind: "" })), "spec.extensionRef.kind: must not be empty"],
    [
      "P14",
      P.with(extension({ group: "example.com/bar" })),
      'group: must be "" for the core group or a lower-case DNS',
    ],
    ["P16", P.with(extension({ portNumber: 70_000 })), "portNumber: must be at most 65535, got 70000"],
    ["P18", P.with({ selector: { app: "-bad" } }), "spec.selector.app: must be letters, digits, hyphens"],
    [
      "P19",
      P.with({ selector: { app: "v".repeat(64) } }),
      "spec.selector.app: must have at most 63 characters, has 64",
    ],
    ["P21", P.with({ selector: { n: 1 } }), "spec.selector.n: expected a string, got 1; put it in quotes"],
    [
      "P22",
      P.with({ selector: { matchLabels: { app: "a" } } }),
      "selector.matchLabels: expected a string, got a mapping; v1alpha2 takes the labels directly",
    ],
    ["P23 (kubectl)", P.with({ targetPorts: [] }), "spec.targetPorts: unknown key `targetPorts`; v1alpha2 has one"],
    ["M2", M.with({ modelName: undefined }), "spec.modelName: is missing"],
    ["M3", M.with({ poolRef: undefined }), "spec.poolRef: is missing"],
    ["M4", M.with({ modelName: "m".repeat(257) }), "spec.modelName: must have at most 256 characters, has 257"],
    ["M6", M.with({ criticality: "High" }), "spec.criticality: expected one of `Critical`, `Standard`, `Sheddable`"],
    ["M6", M.with({ criticality: "critical" }), "did you mean `Critical`?"],
    [
      "M8",
      M.with({ targetModels: [target("a", 50), target("b")] }),
      "spec.targetModels: Weights should be set for all models, or none of the models.",
    ],
    ["M9", M.with({ targetModels: [target("a", 0)] }), "spec.targetModels[0].weight: must be at least 1, got 0"],
    ["M10", M.with({ targetModels: [target("a", 1_000_001)] }), "weight: must be at most 1000000, got 1000001"],
    [
      "M11",
      M.with({ targetModels: Array(11).fill(target("a")) }),
      "targetModels: must have at most 10 entries, has 11",
    ],
    ["M13", M.with({ targetModels: [{ weight: 1 }] }), "spec.targetModels[0].name: is missing"],
    ["M15", M.with({ targetModels: [target("a", 1.5)] }), "targetModels[0].weight: expected a whole number, got 1.5"],
    ["M18 (kubectl)", M.with({ poolRef: { name: "p", namespace: "o" } }), "spec.poolRef.namespace: unknown key"],
    ["M19", M.with({ poolRef: { name: "" } }), "spec.poolRef.name: must not be empty"],
    [
      "V2",
      V.with({ endpointPickerRef: epp }),
      "spec.endpointPickerRef: port is required when kind is 'Service' or unspecified (defaults to 'Service')",
    ],
    ["V5", V.with({ targetPorts: [] }), "spec.targetPorts: must have at least 1 entries, has 0"],
    [
      "V7",
      V.with({ targetPorts: [{ number: 8000 }, { number: 8000 }] }),
      "spec.targetPorts: port number must be unique (8000 is listed again)",
    ],
    ["V8", V.with(ports(9)), "spec.targetPorts: must have at most 8 entries, has 9"],
    ["V9", V.with({ targetPorts: [{ number: 0 }] }), "spec.targetPorts[0].number: must be at least 1, got 0"],
    ["V9", V.with({ targetPorts: [{}] }), "spec.targetPorts[0].number: is missing"],
    ["V9", V.with({ targetPorts: [8000] }), "targetPorts[0]: expected a mapping, got 8000; write for example `{number"],
    ["V10", V.with(matchLabels(0)), "spec.selector.matchLabels: must have at least 1 label"],
    ["V11", V.with({ selector: {} }), "spec.selector.matchLabels: is missing"],
    ["V11", V.with({ selector: { app: "a" } }), "spec.selector.matchLabels: is missing"],
    ["V12", V.with(matchLabels(65)), "spec.selector.matchLabels: must have at most 64 labels, has 65"],
    ["V14", V.with({ appProtocol: "h2c" }), "spec.appProtocol: expected one of `http`, `kubernetes.io/h2c`"],
    ["V15", V.with(picker({ port: 9002 })), "port: expected a mapping, got 9002; write `port: {number: 9002}`"],
    ["V16", V.with(picker({ kind: "" })), "spec.endpointPickerRef.kind: must not be empty"],
    ["V17", V.of(undefined), "spec: is missing"],
    ["V17 as null", V.of(null), "spec: is missing"],
    [
      "V18",
      V.of({ selector: { app: "a" }, targetPortNumber: 8000, extensionRef: epp }),
      "spec.targetPorts: is missing; the ports of the model servers",
    ],
    ["O2", O(GROUP.llmd).with({ priority: "1" }), 'spec.priority: expected a whole number, got the string "1"'],
    ["O2", O(GROUP.experimental).with({ poolRef: undefined }), "spec.poolRef: is missing"],
    ["O3", O(GROUP.llmd).with({ priority: 3e9 }), "spec.priority: must be at most 2147483647, got 3000000000"],
    ["R2", R.with({ rules: [{ targets: [] }] }), "spec.rules[0].targets: must have at least 1 entries, has 0"],
    ["R2", R.with({ rules: [{ matches: [{ model: { value: "" } }] }] }), "model.value: must not be empty"],
    [
      "R2",
      R.with({ rules: [{ matches: [{ model: { type: "Prefix", value: "a" } }] }] }),
      "spec.rules[0].matches[0].model.type: expected `Exact`",
    ],
    ["R2", R.with({ rules: [{ matches: [{}] }] }), "spec.rules[0].matches[0].model: is missing"],
  ])("%s", (_, reading, gist) => {
    expect(problems(reading as object)).toContain(gist);
  });

  it("M16: a modelName that changes", () => {
    const found = transitionViolations(model(M.with({})), model(M.with({ modelName: "new" })));
    expect(problems({ violations: found })).toBe(
      'spec.modelName: modelName is immutable (it was "food"); keep it, or give the object with the new modelName ' +
        "another metadata.name",
    );
  });
});
