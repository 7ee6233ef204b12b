import { describe, expect, it } from "vitest";
import type { PodSnapshot, PoolMembership } from "../../base/inference/endpoint.ts";
import { membersOf } from "./membership.ts";

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
