import { describe, expect, it } from "vitest";
import { annotationWarnings, FAIRNESS_WEIGHT, fairnessWeight } from "./fairness-weight.ts";
import { readResource, readServed } from "./read.ts";

const annotated = (value: string, name = FAIRNESS_WEIGHT) => ({ annotations: { [name]: value } });

describe("the fairness weight of an object", () => {
  it.each([
    ["1", 1],
    ["2", 2],
    ["0.5", 0.5],
    ["0.001", 0.001],
    ["1000", 1000],
    ["999.999", 999.999],
    ["007", 7],
  ])("is the number of the annotation (%j)", (text, weight) => {
    expect(fairnessWeight(annotated(text))).toBe(weight);
    expect(annotationWarnings("InferenceModel", annotated(text))).toEqual([]);
  });

  it.each([
    "",
    "0",
    "0.000",
    "-1",
    "1000.001",
    "1001",
    "1e2",
    "0.0001",
    "NaN",
    "Infinity",
    "two",
    " 2",
    "2 ",
    "2,5",
    "0x2",
  ])("is none, with a warning, for %j", (text) => {
    expect(fairnessWeight(annotated(text))).toBeUndefined();
    expect(annotationWarnings("InferenceObjective", annotated(text))).toEqual([
      {
        path: ["metadata", "annotations", FAIRNESS_WEIGHT],
        problem: `${JSON.stringify(text)} is not a weight, so Sluice uses weight 1; write a number from 0.001 to 1000 with at most three decimals, such as "2"`,
      },
    ]);
  });

  it("has no effect on other kinds, under other names, and among annotations of others", () => {
    expect(annotationWarnings("InferencePool", annotated("2"))).toMatchObject([
      { problem: "has no effect on this kind; only on InferenceModel and InferenceObjective" },
    ]);
    expect(annotationWarnings("InferenceModel", annotated("2", "sluice.dev/fairness-wieght"))).toMatchObject([
      { problem: "is not an annotation of Sluice; did you mean `sluice.dev/fairness-weight`?" },
    ]);
    expect(annotationWarnings("InferenceModel", annotated("x", "example.com/fairness-weight"))).toEqual([]);
  });

  const api = { apiVersion: "inference.networking.x-k8s.io/v1alpha2" };
  const model = (weight: string) => ({
    ...{ ...api, kind: "InferenceModel" },
    metadata: { name: "chat", ...annotated(weight) },
    spec: { modelName: "chat", poolRef: { name: "pool" } },
  });
  const objective = (weight: string) => ({
    ...{ apiVersion: "llm-d.ai/v1alpha2", kind: "InferenceObjective" },
    metadata: { name: "gold", namespace: "llm", ...annotated(weight) },
    spec: { priority: 1, poolRef: { name: "pool" } },
  });

  it("stands in the objects that are read", () => {
    expect(readResource(model("3"))).toMatchObject({ object: { fairnessWeight: 3 }, warnings: [] });
    expect(readServed(objective("0.25"))).toMatchObject({ object: { fairnessWeight: 0.25 }, problems: [] });
  });

  it("leaves the object in force when it is bad, and names object and value", () => {
    const { object, broken, problems } = readServed(objective("much"));
    expect(object).toMatchObject({ kind: "InferenceObjective", priority: 1, fairnessWeight: undefined });
    expect(broken).toBe(false);
    expect(problems).toEqual([
      expect.stringMatching(
        /^InferenceObjective llm\/gold: metadata\.annotations.*fairness-weight.*: "much" is not a weight, so Sluice uses weight 1; write/,
      ),
    ]);
  });
});
