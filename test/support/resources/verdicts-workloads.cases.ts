import { GROUP } from "../../../src/pool/resources/objects.ts";
import {
  type Accepted,
  M,
  type Manifest,
  type Messages,
  O,
  R,
  type Refused,
  type Spec,
  says,
} from "./verdicts.cases.ts";

const target = (name: string, weight?: unknown) => (weight === undefined ? { name } : { name, weight });
const targets = (...list: unknown[]) => ({ targetModels: list });
const stable = { group: GROUP.stable, kind: "InferencePool", name: "p" };
const rule = (change: Spec) => ({ rules: [change] });
const bothWeighted = [target("a", 50), target("b", 50)];
const someWeighted = [{ modelRewrite: "a", weight: 10 }, { modelRewrite: "b" }];

export const ACCEPTED_WORKLOADS: readonly Accepted[] = [
  M.accepted(
    "M1 with its defaults",
    {},
    { poolRef: { ...stable, group: GROUP.experimental }, criticality: undefined, targets: [] },
  ),
  M.accepted("M5 modelName empty", { modelName: "" }, { modelName: "" }),
  M.accepted("M7 weights for both", targets(...bothWeighted), { targets: bothWeighted }),
  M.accepted("M12 no targets", targets(), { targets: [] }),
  M.accepted("M14 a target twice", targets(target("a"), target("a")), {}),
  M.accepted(
    "M18 poolRef.namespace, dropped",
    { poolRef: { name: "p", namespace: "other" } },
    { poolRef: { ...stable, group: GROUP.experimental } },
    { poolRef: { ...stable, group: GROUP.experimental } },
    says('unknown field "spec.poolRef.namespace"', "spec.poolRef.namespace: unknown key"),
  ),
  M.accepted("M20 ten times the largest weight", targets(...Array(10).fill(target("a", 1_000_000))), {}),
  { id: "M21 no spec", object: M.object(), stored: undefined, parsed: undefined },
  { id: "M21 as null", object: M.object(null), stored: undefined, parsed: undefined },
  ...[O.x, O.llmd].flatMap((objective) => [
    objective.accepted("O1 a negative priority", { priority: -10 }, { priority: -10, poolRef: stable }),
    objective.accepted("O1 no priority", { priority: undefined }, { priority: undefined, poolRef: stable }),
    { id: "O, no spec", object: objective.object(), stored: undefined, parsed: undefined },
  ]),
  O.x.accepted("O3 a priority beyond int32 in the older group", { priority: 3e9 }, { priority: 3e9 }),
  ...[R.x, R.llmd].flatMap((rewrite) => [
    rewrite.accepted("R1 no rules", { rules: [] }, { rules: [] }),
    rewrite.accepted("R1 an empty rule", rule({}), { rules: [{ matches: [], targets: [] }] }),
    rewrite.accepted(
      "a match with its default",
      rule({ matches: [{ model: { value: "a" } }] }),
      { rules: [{ matches: ["a"], targets: [] }] },
      rule({ matches: [{ model: { type: "Exact", value: "a" } }] }),
    ),
    rewrite.accepted("R3 weights for some", rule({ targets: someWeighted }), {
      rules: [{ matches: [], targets: [target("a", 10), { name: "b", weight: undefined }] }],
    }),
    { id: "R, no spec", object: rewrite.object(), stored: undefined, parsed: undefined },
  ]),
];

export const REFUSED_WORKLOADS: readonly Refused[] = [
  M.refused("M2", { modelName: undefined }, "spec.modelName: Required value", "spec.modelName: is missing"),
  M.refused("M3", { poolRef: undefined }, "spec.poolRef: Required value", "spec.poolRef: is missing"),
  M.refused(
    "M4",
    { modelName: "m".repeat(257) },
    ["Too long", "256"],
    "spec.modelName: must have at most 256 characters, has 257",
  ),
  M.refused(
    "M6",
    { criticality: "High" },
    'Unsupported value: "High": supported values: "Critical", "Standard", "Sheddable"',
    "spec.criticality: expected one of `Critical`, `Standard`, `Sheddable`",
  ),
  M.refused("M6", { criticality: "critical" }, 'Unsupported value: "critical"', "did you mean `Critical`?"),
  M.refused(
    "M8",
    targets(target("a", 50), target("b")),
    "Weights should be set for all models, or none of the models.",
    "spec.targetModels: Weights should be set for all models, or none of the models.",
  ),
  M.refused(
    "M9",
    targets(target("a", 0)),
    "should be greater than or equal to 1",
    "spec.targetModels[0].weight: must be at least 1, got 0",
  ),
  M.refused(
    "M10",
    targets(target("a", 1_000_001)),
    "should be less than or equal to 1000000",
    "weight: must be at most 1000000, got 1000001",
  ),
  M.refused(
    "M11",
    targets(...Array(11).fill(target("a"))),
    ["Too many: 11", "must have at most 10 items"],
    "targetModels: must have at most 10 entries, has 11",
  ),
  M.refused(
    "M13",
    targets({ weight: 1 }),
    "spec.targetModels[0].name: Required value",
    "spec.targetModels[0].name: is missing",
  ),
  M.refused(
    "M15",
    targets(target("a", 1.5)),
    "must be of type integer",
    "targetModels[0].weight: expected a whole number, got 1.5",
  ),
  M.refused("M19", { poolRef: { name: "" } }, "at least 1 chars long", "spec.poolRef.name: must not be empty"),
  ...[O.x, O.llmd].flatMap((objective) => [
    objective.refused(
      "O2",
      { priority: "1" },
      "must be of type integer",
      'spec.priority: expected a whole number, got the string "1"',
    ),
    objective.refused("O2", { poolRef: undefined }, "spec.poolRef: Required value", "spec.poolRef: is missing"),
  ]),
  O.llmd.refused(
    "O3",
    { priority: 3e9 },
    ["spec.priority", "int32"],
    "spec.priority: must be at most 2147483647, got 3000000000",
  ),
  ...[R.x, R.llmd].flatMap((rewrite) => [
    rewrite.refused(
      "R2",
      rule({ targets: [] }),
      "should have at least 1 items",
      "spec.rules[0].targets: must have at least 1 entries, has 0",
    ),
    rewrite.refused(
      "R2",
      rule({ matches: [{ model: { value: "" } }] }),
      "at least 1 chars long",
      "model.value: must not be empty",
    ),
    rewrite.refused(
      "R2",
      rule({ matches: [{ model: { type: "Prefix", value: "a" } }] }),
      'Unsupported value: "Prefix": supported values: "Exact"',
      "spec.rules[0].matches[0].model.type: expected `Exact`",
    ),
    rewrite.refused(
      "R2",
      rule({ matches: [{}] }),
      "spec.rules[0].matches[0].model: Required value",
      "spec.rules[0].matches[0].model: is missing",
    ),
  ]),
];

/** A row that changes an object. */
export interface Update {
  readonly id: string;
  readonly before: Manifest;
  readonly after: Manifest;
  /** Undefined = the change is made. */
  readonly says: Messages | undefined;
}

export const UPDATES: readonly Update[] = [
  {
    id: "M16 another modelName",
    before: M.with({}),
    after: M.with({ modelName: "new" }),
    says: says(
      "modelName is immutable",
      'spec.modelName: modelName is immutable (it was "food"); keep it, or create an object with the new modelName ' +
        "and another metadata.name",
    ),
  },
  {
    id: "M17 another criticality and pool",
    before: M.with({}),
    after: M.with({ criticality: "Critical", poolRef: { name: "other" } }),
    says: undefined,
  },
];
