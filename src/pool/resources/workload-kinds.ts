import { z } from "zod";
import { fairnessWeight } from "./fairness-weight.ts";
import { defineKind, type Kind, weightsAllOrNone } from "./kind.ts";
import { GROUP } from "./objects.ts";
import {
  defaulting,
  group,
  int32,
  kindName,
  mapping,
  objectName,
  optional,
  text,
  type UnknownKeys,
  weight,
  whole,
} from "./scalars.ts";

/** @param poolGroup the group of InferencePool that is meant where none is given */
function poolRef(poolGroup: string, unknownKeys: UnknownKeys) {
  return mapping(
    {
      group: defaulting(group(), poolGroup),
      kind: defaulting(kindName(), "InferencePool"),
      name: objectName("the name of the InferencePool"),
    },
    unknownKeys,
    "the InferencePool of this object, for example `poolRef: {name: llama}`",
  );
}

const HINTS = {
  "spec.poolRef.namespace": "remove it: the pool is always in the namespace of the object",
};

/** InferenceModel v1alpha2 (api-resources 1.4). */
export const model: Kind = defineKind({
  kind: "InferenceModel",
  group: GROUP.experimental,
  version: "v1alpha2",
  specRequired: false,
  schema: (unknownKeys) =>
    mapping(
      {
        modelName: text({ max: 256, missing: "the `model` of its requests" }),
        criticality: optional(z.enum(["Critical", "Standard", "Sheddable"])),
        targetModels: defaulting(
          z
            .array(
              mapping(
                {
                  name: text({ max: 253, missing: "the name under which the model servers know the model" }),
                  weight: optional(weight(unknownKeys)),
                },
                unknownKeys,
                "write for example `{name: llama-v1}`",
              ),
            )
            .max(10),
          [],
        ),
        poolRef: poolRef(GROUP.experimental, unknownKeys),
      },
      unknownKeys,
    ),
  rules: ({ targetModels }) => weightsAllOrNone(targetModels, ["spec", "targetModels"]),
  warnings: ({ modelName }) =>
    modelName === ""
      ? [{ path: ["spec", "modelName"], problem: "is empty and matches no request: every request names a model" }]
      : [],
  hints: HINTS,
  object: (meta, { modelName, criticality, targetModels, poolRef }) => ({
    kind: "InferenceModel",
    meta,
    modelName,
    criticality,
    targets: targetModels,
    fairnessWeight: fairnessWeight(meta),
    poolRef,
  }),
});

function objective(objectiveGroup: string, priority: () => z.ZodType<number>): Kind {
  return defineKind({
    kind: "InferenceObjective",
    group: objectiveGroup,
    version: "v1alpha2",
    specRequired: false,
    schema: (unknownKeys) =>
      mapping({ priority: optional(priority()), poolRef: poolRef(GROUP.stable, unknownKeys) }, unknownKeys),
    hints: HINTS,
    object: (meta, { priority, poolRef }) => ({
      kind: "InferenceObjective",
      meta,
      priority,
      fairnessWeight: fairnessWeight(meta),
      poolRef,
    }),
  });
}

function rewrite(rewriteGroup: string): Kind {
  return defineKind({
    kind: "InferenceModelRewrite",
    group: rewriteGroup,
    version: "v1alpha2",
    specRequired: false,
    schema: (unknownKeys) => {
      const match = mapping(
        {
          model: mapping(
            {
              type: defaulting(z.enum(["Exact"]), "Exact"),
              value: text({ min: 1, missing: "the `model` of the requests" }),
            },
            unknownKeys,
            "write for example `model: {value: llama}`",
          ),
        },
        unknownKeys,
        "write for example `{model: {value: llama}}`",
      );
      const target = mapping(
        {
          modelRewrite: text({ missing: "the model name that the model server gets" }),
          weight: optional(weight(unknownKeys)),
        },
        unknownKeys,
        "write for example `{modelRewrite: llama-v2}`",
      );
      const rule = mapping(
        { matches: defaulting(z.array(match), []), targets: defaulting(z.array(target).min(1), []) },
        unknownKeys,
      );
      return mapping(
        {
          poolRef: poolRef(GROUP.stable, unknownKeys),
          rules: z.array(rule, {
            error: ({ input }) =>
              input === undefined || input === null
                ? "is missing; write for example `rules: [{targets: [{modelRewrite: llama-v2}]}]`"
                : undefined,
          }),
        },
        unknownKeys,
      );
    },
    hints: HINTS,
    object: (meta, { poolRef, rules }) => ({
      kind: "InferenceModelRewrite",
      meta,
      rules: rules.map(({ matches, targets }) => ({
        matches: matches.map(({ model: { value } }) => value),
        targets: targets.map((target) => ({ name: target.modelRewrite, weight: target.weight })),
      })),
      poolRef,
    }),
  });
}

/**
 * InferenceObjective and InferenceModelRewrite in their first group and in their present one (api-resources 1.7, 1.8). Only the
 * newer group declares the priority as int32.
 */
export const objectives: readonly Kind[] = [
  objective(GROUP.llmd, int32),
  objective(GROUP.experimental, () => whole({})),
];
export const rewrites: readonly Kind[] = [rewrite(GROUP.llmd), rewrite(GROUP.experimental)];
