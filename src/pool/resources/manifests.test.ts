import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { SluiceError } from "../../base/inference/errors.ts";
import { type Manifests, readResources } from "./manifests.ts";
import { GROUP } from "./objects.ts";
import type { ReadOptions } from "./read.ts";

const read = (text: string, options?: ReadOptions): Manifests => readResources(text, "m.yaml", options);

function failureOf(text: string): SluiceError {
  try {
    read(text);
  } catch (error) {
    return error as SluiceError;
  }
  throw new Error("accepted");
}

/** What is wrong with a file, one line each, without the heading. */
const linesOf = (text: string): string[] => {
  const { message } = failureOf(text);
  return message.includes("\n") ? message.split("\n  ").slice(1) : [message.replace("invalid manifest: ", "")];
};

const POOL = `apiVersion: inference.networking.x-k8s.io/v1alpha2
kind: InferencePool
metadata: {name: llama, namespace: ml}
spec: {selector: {app: llama}, targetPortNumber: 8000, extensionRef: {name: llama-epp}}
`;
const MODEL = `apiVersion: inference.networking.x-k8s.io/v1alpha2
kind: InferenceModel
metadata: {name: reviews, namespace: ml}
spec:
  modelName: reviews
  criticality: Standard
  poolRef: {name: llama}
  targetModels: [{name: reviews-v1, weight: 90}, {name: reviews-v2, weight: 10}]
`;
const STABLE_POOL = `apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: llama, namespace: ml}
spec:
  selector: {matchLabels: {app: llama}}
  targetPorts: [{number: 8000}, {number: 8001}]
  endpointPickerRef: {name: llama-epp, port: {number: 9002}, failureMode: FailOpen}
`;
const ROUTE = `apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: llm, namespace: web}
spec:
  parentRefs: [{name: inference-gateway, namespace: infra}]
  rules: [{backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: llama, namespace: ml}]}]
`;
const named = ({ objects }: Manifests) => objects.map(({ kind, meta }) => `${kind} ${meta.namespace}/${meta.name}`);

describe("readResources", () => {
  it("reads the minimal objects of the API and leaves out what is of other kinds", () => {
    const { objects, warnings } = read([POOL, MODEL, STABLE_POOL, ROUTE].join("---\n"));
    const meta = {
      name: "llama",
      namespace: "ml",
      uid: "",
      creationTimestamp: 0,
      generation: 0,
      deleting: false,
      labels: {},
      annotations: {},
    };
    const picker = { group: "", kind: "Service", name: "llama-epp" };
    expect(objects).toEqual([
      {
        kind: "InferencePool",
        group: GROUP.experimental,
        meta,
        selector: { app: "llama" },
        targetPorts: [8000],
        appProtocol: "http",
        picker: { ...picker, port: undefined, failureMode: "FailClose" },
      },
      {
        kind: "InferenceModel",
        meta: { ...meta, name: "reviews" },
        modelName: "reviews",
        criticality: "Standard",
        targets: [
          { name: "reviews-v1", weight: 90 },
          { name: "reviews-v2", weight: 10 },
        ],
        poolRef: { group: GROUP.experimental, kind: "InferencePool", name: "llama" },
      },
      {
        kind: "InferencePool",
        group: GROUP.stable,
        meta,
        selector: { app: "llama" },
        targetPorts: [8000, 8001],
        appProtocol: "http",
        picker: { ...picker, port: 9002, failureMode: "FailOpen" },
      },
    ]);
    expect(warnings).toEqual([]);
  });

  it("reads JSON, lists of anything, lists of a kind whose items don't repeat it, and lists in lists", () => {
    const items = {
      apiVersion: "v1",
      kind: "List",
      items: [JSON.parse(JSON.stringify({ kind: "Secret", apiVersion: "v1" }))],
    };
    expect(read(JSON.stringify(items))).toEqual({ objects: [], warnings: [] });
    const indent = (text: string) => text.trimEnd().replaceAll("\n", "\n  ");
    const list = `kind: List\napiVersion: v1\nitems:\n- ${indent(POOL)}\n- ${indent(MODEL)}\n`;
    expect(named(read(list))).toEqual(["InferencePool ml/llama", "InferenceModel ml/reviews"]);
    expect(named(read(`kind: List\napiVersion: v1\nitems:\n- ${indent(list)}\n`))).toHaveLength(2);
    const models = `apiVersion: ${GROUP.experimental}/v1alpha2
kind: InferenceModelList
metadata: {resourceVersion: "1"}
items:
- {metadata: {name: a}, spec: {modelName: a, poolRef: {name: p}}}
- {metadata: {name: b}, spec: {modelName: b, poolRef: {}}}
`;
    expect(linesOf(models)).toEqual([
      "m.yaml:6:46: items[1].spec.poolRef.name: is missing; the name of the InferencePool",
    ]);
    expect(linesOf("kind: List\napiVersion: v1\n")).toEqual([
      "m.yaml:1:1: items: a list of objects needs `items: [...]`",
    ]);
  });

  it("reads what kubectl get -o yaml prints: server's metadata counts, status doesn't", () => {
    const text = `apiVersion: llm-d.ai/v1alpha2
kind: InferenceObjective
metadata:
  annotations: {note: "text"}
  creationTimestamp: "2026-01-31T12:00:00Z"
  deletionTimestamp: 2026-02-01T00:00:00+01:00
  finalizers: [a/b]
  generation: 3
  labels: {team: x}
  managedFields: [{manager: kubectl}]
  name: batch
  namespace: ml
  ownerReferences: []
  resourceVersion: "12"
  uid: 3f1c
spec: {priority: -10, poolRef: {name: p}}
status: {conditions: anything}
`;
    expect(read(text).objects).toEqual([
      {
        kind: "InferenceObjective",
        meta: {
          name: "batch",
          namespace: "ml",
          uid: "3f1c",
          creationTimestamp: Date.UTC(2026, 0, 31, 12),
          generation: 3,
          deleting: true,
          labels: { team: "x" },
          annotations: { note: "text" },
        },
        priority: -10,
        poolRef: { group: GROUP.stable, kind: "InferencePool", name: "p" },
      },
    ]);
  });

  it("takes null for absent, as the API server does", () => {
    const text = MODEL.replace("criticality: Standard", "criticality: null").replace(
      "{name: llama}",
      "{name: llama, kind: ~}",
    );
    expect(read(text.replace("namespace: ml", "creationTimestamp: null, namespace: null")).objects).toMatchObject([
      {
        criticality: undefined,
        poolRef: { kind: "InferencePool" },
        meta: { namespace: "default", creationTimestamp: 0 },
      },
    ]);
  });

  it("puts objects without a namespace where it is told", () => {
    const text = MODEL.replace(", namespace: ml", "");
    expect(named(read(text))).toEqual(["InferenceModel default/reviews"]);
    expect(named(read(text, { namespace: "team-a" }))).toEqual(["InferenceModel team-a/reviews"]);
    expect(named(read(MODEL, { namespace: "team-a" }))).toEqual(["InferenceModel ml/reviews"]);
  });

  it("warns of what is allowed and hardly meant, with its place", () => {
    const text = `apiVersion: ${GROUP.experimental}/v1alpha2
kind: InferencePool
metadata: {name: bare}
---
${POOL.replace("{app: llama}", '{"example~": llama}')}---
${MODEL.replace("modelName: reviews", 'modelName: ""')}`;
    const { objects, warnings } = read(text);
    expect(objects.map(({ kind }) => kind)).toEqual(["InferencePool", "InferenceModel"]);
    expect(warnings).toEqual([
      "m.yaml:1:1: InferencePool default/bare has no `spec` and no effect",
      'm.yaml:8:19: spec.selector["example~"]: no pod can have a label with this key, so the pool selects no pod',
      "m.yaml:14:3: spec.modelName: is empty and matches no request: every request names a model",
    ]);
  });

  it("ignores imports, which only controllers write, but not their mistakes", () => {
    const text = `apiVersion: ${GROUP.experimental}/v1alpha1\nkind: InferencePoolImport\nmetadata: {name: a}\n`;
    expect(read(text)).toEqual({ objects: [], warnings: [] });
    expect(linesOf(`${text}spec: {}\n`)).toEqual(["m.yaml:4:1: spec: unknown key `spec`"]);
  });

  it("lists every violation of every document, in the order of the file", () => {
    const text = [
      POOL.replace("8000", "0"),
      ROUTE,
      MODEL.replace("Standard", "standard").replace("weight: 10}", "wieght: 10}").replace("poolRef", "poolref"),
      STABLE_POOL,
    ].join("---\n");
    const error = failureOf(text);
    expect(error.code).toBe("DOCUMENT_INVALID");
    expect(error.message.split("\n")).toEqual([
      "invalid manifest, 5 problems:",
      "  m.yaml:4:32: spec.targetPortNumber: must be at least 1, got 0",
      "  m.yaml:16:1: spec.poolRef: is missing; the InferencePool of this object, for example `poolRef: {name: llama}`",
      '  m.yaml:18:3: spec.criticality: expected one of `Critical`, `Standard`, `Sheddable`, got the string "standard"; ' +
        "did you mean `Standard`?",
      "  m.yaml:19:3: spec.poolref: unknown key `poolref`; did you mean `poolRef`?",
      "  m.yaml:20:69: spec.targetModels[1].wieght: unknown key `wieght`; did you mean `weight`?",
    ]);
  });

  it("evaluates the CEL rules only where the structure is sound (api-resources 1.10)", () => {
    const uneven = MODEL.replace(", weight: 10}", "}");
    expect(linesOf(uneven)).toEqual([
      "m.yaml:8:3: spec.targetModels: Weights should be set for all models, or none of the models. (entry 2 has no weight)",
    ]);
    expect(linesOf(uneven.replace("Standard", "x"))).toEqual([expect.stringContaining("spec.criticality")]);
  });

  it.each([
    ["words", 'm.yaml:1:1: expected a mapping, got the string "words"'],
    ["apiVersion: v1", "m.yaml:1:1: kind: is missing; every Kubernetes object has one, for example InferencePool"],
    [MODEL.replace("kind: InferenceModel", 'kind: ""'), "m.yaml:2:1: kind: must not be empty"],
    [
      MODEL.replace("kind: InferenceModel", "kind: inferencemodels"),
      "m.yaml:2:1: kind: inference.networking.x-k8s.io has no kind `inferencemodels`; did you mean `InferenceModel`?",
    ],
    [
      POOL.replace("v1alpha2", "v1alpha1"),
      "m.yaml:1:1: apiVersion: InferencePool is known as `inference.networking.k8s.io/v1`, " +
        "`inference.networking.x-k8s.io/v1alpha2`, not as `inference.networking.x-k8s.io/v1alpha1`",
    ],
    [
      MODEL.replace("inference.networking.x-k8s.io", "inference.networking.k8s.io"),
      "m.yaml:1:1: apiVersion: InferenceModel is known as `inference.networking.x-k8s.io/v1alpha2`, " +
        "not as `inference.networking.k8s.io/v1alpha2`",
    ],
    [
      MODEL.replace("{name: llama}", "llama"),
      /poolRef: expected a mapping, got the string "llama"; .* `poolRef: \{name: llama\}`$/,
    ],
    [MODEL.replace("name: reviews, ", ""), /metadata\.name: is missing; every object needs a name of its own$/],
    [MODEL.replace("name: reviews,", "name: Reviews_1,"), /metadata\.name: must be lower-case .*, got "Reviews_1"$/],
    [MODEL.replace("namespace: ml", "namespace: ml.x"), /metadata\.namespace: must be .* such as team-a, got "ml\.x"$/],
    [MODEL.replace("namespace: ml", "generation: -1"), /metadata\.generation: must be at least 0, got -1$/],
    [
      MODEL.replace("namespace: ml", "creationTimestamp: 2026-02-30T00:00:00Z"),
      /creationTimestamp: expected a time such as 2026-01-31T12:00:00Z, got "2026-02-30T00:00:00Z"$/,
    ],
    [
      MODEL.replace("modelName: reviews", "modelName: 7"),
      /spec\.modelName: expected a string, got 7; put it in quotes$/,
    ],
    [POOL.replace("{app: llama}", "{__proto__: llama}"), /^m\.yaml:4:19: the key `__proto__` is not allowed/],
    [POOL.replace("{app: llama}", "{app: }"), /spec\.selector\.app: expected a string, got nothing$/],
    [`${POOL}extra: 1\n`, "m.yaml:5:1: extra: unknown key `extra`"],
    [
      STABLE_POOL.replace("port: {number: 9002}", "portNumber: 9002"),
      /endpointPickerRef\.portNumber: unknown key `portNumber`; v1 writes `port: \{number: 9002\}`$/,
    ],
  ])("says how to mend %j", (text, message) => {
    const lines = linesOf(text);
    expect(lines).toEqual([typeof message === "string" ? message : expect.stringMatching(message)]);
  });

  it("leaves other kinds alone, also in the groups of ours, also with names like ours elsewhere", () => {
    const others = [
      "{apiVersion: llm-d.ai/v1alpha1, kind: EndpointPickerConfig, plugins: []}",
      "{apiVersion: example.com/v1, kind: InferenceModels}",
      "{apiVersion: v1, kind: ConfigMapList}",
    ];
    expect(read(others.join("\n---\n"))).toEqual({ objects: [], warnings: [] });
    for (const nothing of ["", "# later\n", "---\n---\n# later\n---\n"])
      expect(read(nothing)).toEqual({ objects: [], warnings: [] });
  });

  it("counts characters as code points", () => {
    const emoji = "\u{1F600}";
    const long = (count: number) => MODEL.replace("modelName: reviews", `modelName: ${emoji.repeat(count)}`);
    expect(read(long(256)).objects).toHaveLength(1);
    expect(linesOf(long(257))).toEqual([expect.stringContaining("must have at most 256 characters, has 257")]);
  });

  it("answers any spec with objects or with its own error", () => {
    const kinds = ["InferencePool", "InferenceModel", "InferenceObjective", "InferenceModelRewrite", "List"];
    const versions = [`${GROUP.experimental}/v1alpha2`, `${GROUP.stable}/v1`, `${GROUP.llmd}/v1alpha2`];
    const key = fc.constantFrom(
      "selector",
      "poolRef",
      "name",
      "rules",
      "targetPorts",
      "weight",
      "items",
      "__proto__",
      "x",
    );
    const { tree } = fc.letrec((tie) => ({
      tree: fc.oneof(
        { depthSize: "small" },
        fc.constantFrom<unknown>(null, "", "a", 0, 1, -1.5, 1e300, true),
        fc.array(tie("tree"), { maxLength: 3 }),
        fc.dictionary(key, tie("tree"), { maxKeys: 4 }),
      ),
    }));
    const file = fc.record(
      {
        kind: fc.constantFrom(...kinds),
        apiVersion: fc.constantFrom(...versions),
        metadata: tree,
        spec: tree,
        items: tree,
      },
      { requiredKeys: ["kind", "apiVersion"] },
    );
    fc.assert(
      fc.property(file, (input) => {
        const text = JSON.stringify(input);
        try {
          read(text);
        } catch (error) {
          // No document may have this key, whatever it is about.
          const code = text.includes('"__proto__":') ? "DOCUMENT_SYNTAX" : "DOCUMENT_INVALID";
          expect(error).toMatchObject({ code });
        }
      }),
      { numRuns: 500 },
    );
  });
});
