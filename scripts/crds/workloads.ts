import type { Column, Definition } from "./definition.ts";
import {
  choice,
  conditions,
  group,
  integer,
  type Keywords,
  kindName,
  list,
  object,
  objectName,
  pending,
  rule,
  type Schema,
  text,
  weight,
} from "./schema.ts";

const GROUP = { experimental: "inference.networking.x-k8s.io", llmd: "llm-d.ai" };

const poolRef = (poolGroup: string): Schema =>
  object(
    "The InferencePool it belongs to, in the same namespace.",
    { name: objectName("Name of the pool.") },
    { group: group("API group of the pool.", poolGroup), kind: kindName("Kind of the pool.", "InferencePool") },
  );

/** A status that is a list of conditions. @param type of the condition that waits at first */
const status = (type: string): Schema =>
  object(
    "What controllers make of it.",
    {},
    { conditions: conditions("Known type: Accepted.", { default: [pending(type)] }) },
  );

const POOL: Column = { name: "Inference Pool", type: "string", jsonPath: ".spec.poolRef.name" };
const AGE: Column = { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" };

/** InferenceModel v1alpha2 (api-resources 1.4). */
export const model: Definition = {
  group: GROUP.experimental,
  version: "v1alpha2",
  kind: "InferenceModel",
  columns: [
    { name: "Model Name", type: "string", jsonPath: ".spec.modelName" },
    POOL,
    { name: "Criticality", type: "string", jsonPath: ".spec.criticality" },
    AGE,
  ],
  description: "A model name that requests may ask a pool for: how important they are and which models serve them.",
  spec: object(
    "The name and what is behind it.",
    {
      modelName: text(
        "The `model` of the requests that are meant. Of several objects with the same name in a pool the oldest counts.",
        { maxLength: 256, ...rule("self == oldSelf", "modelName is immutable") },
      ),
      poolRef: poolRef(GROUP.experimental),
    },
    {
      criticality: choice("How important the requests are; Standard is meant when left out.", [
        "Critical",
        "Standard",
        "Sheddable",
      ]),
      targetModels: list(
        "The models that requests are spread over; the name itself when left out.",
        object(
          "One model.",
          { name: text("The name under which the model servers know it.", { maxLength: 253 }) },
          { weight: weight("Its share of the requests, relative to the sum of all weights.") },
        ),
        {
          maxItems: 10,
          ...rule(
            "self.all(model, has(model.weight)) || self.all(model, !has(model.weight))",
            "Weights should be set for all models, or none of the models.",
          ),
        },
      ),
    },
  ),
  status: status("Ready"),
};

/** InferenceObjective (api-resources 1.7). @param format of the priority */
const objective = (objectiveGroup: string, format: Keywords): Definition => ({
  group: objectiveGroup,
  version: "v1alpha2",
  kind: "InferenceObjective",
  columns: [POOL, { name: "Priority", type: "string", jsonPath: ".spec.priority" }, AGE],
  description: "How important the requests are that name it in a header.",
  spec: object(
    "The pool and the priority.",
    { poolRef: poolRef("inference.networking.k8s.io") },
    {
      priority: integer(
        "Requests with a higher priority go first; 0 is meant when left out. Requests below 0 may be shed.",
        format,
      ),
    },
  ),
  status: status("Ready"),
});

/** InferenceModelRewrite (api-resources 1.8). */
const rewrite = (rewriteGroup: string): Definition => ({
  group: rewriteGroup,
  version: "v1alpha2",
  kind: "InferenceModelRewrite",
  columns: [POOL, AGE],
  description: "Rules that replace the model name of requests to a pool.",
  spec: object("The pool and the rules.", {
    poolRef: poolRef("inference.networking.k8s.io"),
    rules: list(
      "The rules. One that names the model goes before one for all models, and an earlier one before a later one.",
      object(
        "Which requests, and what they ask for then.",
        {},
        {
          matches: list(
            "The requests that are meant: those that fit any entry, or all when left out.",
            object("What a request looks like.", {
              model: object(
                "The model name of the request.",
                { value: text("The name.", { minLength: 1 }) },
                { type: choice("How names are compared.", ["Exact"], { default: "Exact" }) },
              ),
            }),
          ),
          targets: list(
            "The models that requests are spread over.",
            object(
              "One model.",
              { modelRewrite: text("The model name that requests are sent on with.") },
              { weight: weight("Its share of the requests, relative to the sum of all weights.") },
            ),
            { minItems: 1 },
          ),
        },
      ),
    ),
  }),
  status: status("Accepted"),
});

export const workloads: readonly Definition[] = [
  model,
  // Only the newer group declares the priority as int32.
  objective(GROUP.experimental, {}),
  objective(GROUP.llmd, { format: "int32" }),
  rewrite(GROUP.experimental),
  rewrite(GROUP.llmd),
];
