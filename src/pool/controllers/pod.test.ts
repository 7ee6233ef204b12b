import { describe, expect, it } from "vitest";
import type { PodSnapshot, PoolMembership } from "../../base/inference/endpoint.ts";
import { membersOf, podSnapshot } from "./pod.ts";

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

const pod = (name: string, fake: Partial<PodSnapshot> = {}): PodSnapshot => ({
  namespace: "ns",
  name,
  uid: name,
  labels: { app: "vllm" },
  annotations: {},
  address: "10.0.0.1",
  deleting: false,
  ready: true,
  since: "",
  ...fake,
});
const pool = (ports: number[] = [8000], app = "vllm"): PoolMembership => ({
  namespace: "ns",
  selects: (labels) => labels["app"] === app,
  ports,
});
const names = (of: PoolMembership, ...pods: PodSnapshot[]): string[] => membersOf(of, pods).map(({ name }) => name);

describe("members of a pool (api-resources 3.4, 3.5)", () => {
  it("R-26, S-1: one endpoint per port and pod, named by rank, with address and labels of the pod", () => {
    expect(membersOf(pool([8000, 8001]), [pod("a", { address: "fd00::7" })])).toEqual([
      { namespace: "ns", name: "a-rank-0", address: "fd00::7", port: 8000, rank: 0, labels: { app: "vllm" } },
      { namespace: "ns", name: "a-rank-1", address: "fd00::7", port: 8001, rank: 1, labels: { app: "vllm" } },
    ]);
    expect(names(pool(), pod("a"), pod("b"))).toEqual(["a-rank-0", "b-rank-0"]);
  });

  it.each([
    ["not ready", { ready: false }],
    ["being deleted", { deleting: true }],
    ["without an address", { address: "" }],
    ["of another namespace", { namespace: "other" }],
    ["not selected", { labels: { app: "web" } }],
  ] as const)("R-22, S-3: leaves out a pod that is %s", (_, fake) => {
    expect(names(pool(), pod("a", fake), pod("b"))).toEqual(["b-rank-0"]);
  });

  it.each([
    ["8001", ["rank-1"]],
    [" 8001 , 8000", ["rank-0", "rank-1"]],
    ["8000,8000", ["rank-0"]],
    ["", []],
    ["abc", []],
    ["8000x,-8001,9000,0", []],
    ["08000", ["rank-0"]],
  ] as const)("R-27, S-2: active ports %j keep their ranks: %j", (text, ranks) => {
    for (const key of ["llm-d.ai/active-ports", "inference.networking.k8s.io/active-ports"])
      expect(names(pool([8000, 8001]), pod("a", { annotations: { [key]: text } }))).toEqual(
        ranks.map((rank) => `a-${rank}`),
      );
  });

  it("R-27: the newer annotation wins, even when it is empty", () => {
    const annotations = { "llm-d.ai/active-ports": "", "inference.networking.k8s.io/active-ports": "8000" };
    expect(names(pool(), pod("a", { annotations }))).toEqual([]);
  });
});
