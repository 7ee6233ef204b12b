import { describe, expect, it } from "vitest";
import { podSnapshot } from "./pod.ts";

const ready = (...statuses: string[]) => ({ conditions: statuses.map((status) => ({ type: "Ready", status })) });
const metadata = { namespace: "ns", name: "one", uid: "u" };

describe("what is kept of a pod (api-resources 3.4)", () => {
  it("is what decides whether and where it serves", () => {
    const { name, ...kept } = podSnapshot({
      metadata: {
        ...metadata,
        labels: { app: "a" },
        annotations: { "llm-d.ai/active-ports": "8000", "kubectl.kubernetes.io/last-applied-configuration": "{}" },
        managedFields: [{}],
      },
      spec: { containers: [] },
      status: { podIP: "10.0.0.1", ...ready("True") },
    })!;
    expect([name, kept]).toEqual([
      "one",
      {
        ...{ namespace: "ns", uid: "u", labels: { app: "a" }, annotations: { "llm-d.ai/active-ports": "8000" } },
        ...{ address: "10.0.0.1", deleting: false, ready: true, since: "" },
      },
    ]);
  });

  it.each([
    ["without a status", {}, false],
    ["without conditions", { status: { phase: "Running" } }, false],
    ["not yet ready", { status: ready("False") }, false],
    ["of which nothing is known", { status: ready("Unknown") }, false],
    ["whose first condition of the type says so", { status: ready("True", "False") }, true],
    ["whose second one alone says so", { status: ready("False", "True") }, false],
  ])("%s it is ready: %j %s", (_, rest, expected) => {
    expect(podSnapshot({ metadata, ...rest })).toMatchObject({ ready: expected, address: "" });
  });

  it("is since when its node has had it, or else since when it exists", () => {
    const creationTimestamp = "2026-01-01T00:00:00Z";
    const startTime = "2026-01-01T00:05:00Z";
    const made = { metadata: { ...metadata, creationTimestamp } };
    expect(podSnapshot(made)?.since).toBe(creationTimestamp);
    expect(podSnapshot({ ...made, status: { startTime } })?.since).toBe(startTime);
  });

  it("is nothing without a name, and says when it is being deleted", () => {
    expect(podSnapshot({ metadata: { namespace: "ns" } })).toBeUndefined();
    expect(podSnapshot({})).toBeUndefined();
    expect(podSnapshot({ metadata: { ...metadata, deletionTimestamp: "2026-01-01T00:00:00Z" } })?.deleting).toBe(true);
  });
});
