import type { Condition } from "../../../src/pool/resources/model-status.ts";
import {
  GROUP,
  type InferenceModel,
  type InferenceModelRewrite,
  type InferenceObjective,
  type InferencePool,
  type ObjectMeta,
  type PoolReference,
  type RewriteRule,
  type WeightedTarget,
} from "../../../src/pool/resources/objects.ts";

/** Hand-made objects for tests: in namespace `default`, of a v1alpha2 pool called `pool`, created at 0, unless said otherwise. */
export type Meta = Partial<ObjectMeta>;

function meta(name: string, more: Meta = {}): ObjectMeta {
  return {
    name,
    namespace: "default",
    uid: "",
    creationTimestamp: 0,
    generation: 1,
    deleting: false,
    labels: {},
    annotations: {},
    ...more,
  };
}

export function madePool(name = "pool", more: { meta?: Meta; group?: string } = {}): InferencePool {
  return {
    kind: "InferencePool",
    group: more.group ?? GROUP.experimental,
    meta: meta(name, more.meta),
    selector: { app: "vllm" },
    targetPorts: [8000],
    appProtocol: "http",
    picker: undefined,
  };
}

function reference(more: Partial<PoolReference> = {}): PoolReference {
  return { group: GROUP.experimental, kind: "InferencePool", name: "pool", ...more };
}

export function madeModel(
  name: string,
  modelName: string,
  more: {
    meta?: Meta;
    targets?: readonly WeightedTarget[];
    criticality?: InferenceModel["criticality"];
    poolRef?: Partial<PoolReference>;
  } = {},
): InferenceModel {
  return {
    kind: "InferenceModel",
    meta: meta(name, more.meta),
    modelName,
    criticality: more.criticality,
    targets: more.targets ?? [],
    poolRef: reference(more.poolRef),
  };
}

export function madeObjective(
  name: string,
  priority: number | undefined,
  more: { meta?: Meta; poolRef?: Partial<PoolReference> } = {},
): InferenceObjective {
  return { kind: "InferenceObjective", meta: meta(name, more.meta), priority, poolRef: reference(more.poolRef) };
}

export function madeRewrite(
  name: string,
  rules: readonly RewriteRule[],
  more: { meta?: Meta; poolRef?: Partial<PoolReference> } = {},
): InferenceModelRewrite {
  return { kind: "InferenceModelRewrite", meta: meta(name, more.meta), rules, poolRef: reference(more.poolRef) };
}

/** Targets from names with or without a weight: `"a"`, `"a:3"`. */
export function targets(...texts: readonly string[]): WeightedTarget[] {
  return texts.map((text) => {
    const [name = "", weight] = text.split(":");
    return { name, weight: weight === undefined ? undefined : Number(weight) };
  });
}

/** A rule in one line: models separated by commas ("" = every request), then targets as in `targets`. */
export function rule(models: string, ...texts: readonly string[]): RewriteRule {
  return { matches: models === "" ? [] : models.split(","), targets: targets(...texts) };
}

/** The condition that the API writes where no controller has been yet. @param type differs between kinds */
export function pendingCondition(type: string): Condition {
  return {
    type,
    status: "Unknown",
    reason: "Pending",
    message: "Waiting for controller",
    lastTransitionTime: "1970-01-01T00:00:00Z",
  };
}
