import { pendingCondition } from "./made.cases.ts";
import { I, M, type Manifest, O, P, R, V } from "./verdicts.cases.ts";

/** A status that somebody writes through the subresource. */
export interface StatusRow {
  readonly id: string;
  /** The object without it. */
  readonly object: Manifest;
  readonly status: unknown;
}
export interface RefusedStatus extends StatusRow {
  /** Pieces of the server's message; upper and lower case has changed between its versions. */
  readonly says: readonly string[];
}
export interface AcceptedStatus extends StatusRow {
  /** The whole status that the server keeps. */
  readonly stored: unknown;
}

const pool = V.with({});
const imported = I.object();
export const accepted = {
  type: "Accepted",
  status: "True",
  reason: "Accepted",
  message: "",
  lastTransitionTime: "2026-01-31T12:00:00Z",
};
export const gateway = { parentRef: { name: "gw", namespace: "infra" } };
const gatewayType = { group: "gateway.networking.k8s.io", kind: "Gateway" };
const nineConditions = Array.from({ length: 9 }, (_, i) => ({ ...accepted, type: `T${i}` }));

const refusedParent = (id: string, parent: unknown, ...says: string[]): RefusedStatus => ({
  id,
  object: pool,
  status: { parents: [parent] },
  says,
});
const refusedCondition = (change: object, ...says: string[]): RefusedStatus =>
  refusedParent("S3", { ...gateway, conditions: [{ ...accepted, ...change }] }, ...says);

export const REFUSED_STATUSES: readonly RefusedStatus[] = [
  {
    id: "P25",
    object: P.with({}),
    status: { parent: [{}] },
    says: ["status.parent[0].parentRef: Required value"],
  },
  refusedParent(
    "S1",
    { ...gateway, controllerName: "example.com" },
    "status.parents[0].controllerName",
    "should match",
  ),
  refusedParent(
    "S2",
    { ...gateway, conditions: [accepted, accepted] },
    "status.parents[0].conditions[1]",
    "Duplicate value",
  ),
  refusedCondition({ status: "Yes" }, 'Unsupported value: "Yes": supported values: "True", "False", "Unknown"'),
  refusedCondition({ reason: "" }, "at least 1 chars long"),
  refusedCondition({ lastTransitionTime: "now" }, "date-time"),
  refusedParent("S3", { ...gateway, conditions: nineConditions }, "must have at most 8 items"),
  {
    id: "S4",
    object: pool,
    status: { parents: Array(33).fill(gateway) },
    says: ["must have at most 32 items"],
  },
  refusedParent(
    "S5",
    { parentRef: { name: "gw", namespace: "a.b" } },
    "status.parents[0].parentRef.namespace",
    "should match",
  ),
  refusedParent("S6", { conditions: [] }, "status.parents[0].parentRef: Required value"),
  { id: "I1", object: imported, status: {}, says: ["status.controllers: Required value"] },
  {
    id: "I2",
    object: imported,
    status: { controllers: [{ name: "a.b/c" }, { name: "a.b/c" }] },
    says: ["status.controllers[1]", "Duplicate value"],
  },
  {
    id: "I2",
    object: imported,
    status: { controllers: Array.from({ length: 9 }, (_, i) => ({ name: `a.b/${i}` })) },
    says: ["must have at most 8 items"],
  },
];

const unlooked = (type: string) => ({ conditions: [pendingCondition(type)] });
const fullParent = { ...gateway, controllerName: "example.com/gw", conditions: [accepted] };
const controllers = [{ name: "example.com/gw", exportingClusters: [{ name: "west" }] }];

/** What controllers write, and defaults: filled only into what exists (api-resources 1.10). */
export const ACCEPTED_STATUSES: readonly AcceptedStatus[] = [
  {
    id: "a parent of v1",
    object: pool,
    status: { parents: [fullParent] },
    stored: { parents: [{ ...fullParent, parentRef: { ...gatewayType, ...gateway.parentRef } }] },
  },
  {
    id: "a parent of v1 without conditions",
    object: pool,
    status: { parents: [gateway] },
    stored: { parents: [{ parentRef: { ...gatewayType, ...gateway.parentRef } }] },
  },
  {
    id: "a parent of v1alpha2",
    object: P.with({}),
    status: { parent: [gateway] },
    stored: { parent: [{ parentRef: { ...gatewayType, ...gateway.parentRef }, ...unlooked("Accepted") }] },
  },
  { id: "an import", object: imported, status: { controllers }, stored: { controllers } },
  ...[M, O.x, O.llmd].map((base) => ({
    id: "no conditions yet",
    object: base.with({}),
    status: {},
    stored: unlooked("Ready"),
  })),
  ...[R.x, R.llmd].map((base) => ({
    id: "no conditions yet",
    object: base.with({}),
    status: {},
    stored: unlooked("Accepted"),
  })),
  {
    id: "conditions of a model",
    object: M.with({}),
    status: { conditions: [accepted] },
    stored: { conditions: [accepted] },
  },
];

/** The status that an object has as it is created; what it is created with is discarded. */
export const FRESH_STATUSES: readonly AcceptedStatus[] = [
  ...[V, M, O.x, R.llmd].map((base) => ({
    id: "nothing",
    object: base.with({}),
    status: { conditions: [] },
    stored: undefined,
  })),
  ...[P.with({}), P.object()].map((object) => ({
    id: "the sentinel of v1alpha2",
    object,
    status: { parent: [] },
    stored: {
      parent: [{ parentRef: { ...gatewayType, kind: "Status", name: "default" }, ...unlooked("Accepted") }],
    },
  })),
];
