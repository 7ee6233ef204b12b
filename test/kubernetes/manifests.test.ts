import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { onPath } from "../../scripts/part-cache.ts";
import { readResources } from "../../src/pool/resources/manifests.ts";
import { ROOT } from "../support/process.ts";
import { grantsOf, objectsOf, one, podOf, rights } from "../support/rendered.ts";
import { configWarnings, expectContract } from "./deployment.cases.ts";

const FOLDER = join(ROOT, "deploy", "manifests");
const read = (...names: readonly string[]) =>
  names.flatMap((name) => objectsOf(readFileSync(join(FOLDER, `${name}.yaml`), "utf8")));
const kubectl = onPath("kubectl");

describe("deploy/manifests", () => {
  it("R-59: runs a picker as the container contract says", () => {
    const settings = expectContract(read("rbac", "metrics-auth", "epp", "inference-pool"));
    const pool = one(read("inference-pool"), "InferencePool");
    expect(settings).toMatchObject({
      grpcPort: 9002,
      grpcHealthPort: 9003,
      metricsPort: 9090,
      tls: { secureServing: true },
      kubernetes: { namespace: "inference", members: { kind: "pool", name: pool.metadata.name }, metricsAuth: true },
    });
  });

  it("R-59: runs several when the three lines of leader-election.yaml are set", () => {
    const objects = read("rbac", "metrics-auth", "epp", "inference-pool", "leader-election");
    const deployment = one(objects, "Deployment");
    const { container } = podOf(deployment);
    deployment["spec"].replicas = 2;
    container.args.push("--ha-enable-leader-election");
    container.readinessProbe.grpc.service = "readiness";
    deployment["spec"].strategy.rollingUpdate = { maxSurge: "100%", maxUnavailable: "100%" };
    expectContract(objects);
  });

  it("runs several that share when the two lines of peers.yaml are set", () => {
    const objects = read("rbac", "metrics-auth", "epp", "inference-pool", "peers");
    const deployment = one(objects, "Deployment");
    deployment["spec"].replicas = 3;
    podOf(deployment).container.args.push("--peers=redis://valkey:6379");
    expect(expectContract(objects).peers).toMatchObject({ url: "redis://valkey:6379", name: "inference/vllm" });
  });

  it("R-38: gives the rights that each purpose needs, and none besides", () => {
    expect(grantsOf(read("rbac"), "Role")).toEqual(rights("pods", "pool", "models", "objectives", "events"));
    expect(grantsOf(read("leader-election"), "Role")).toEqual(rights("leases"));
    expect(grantsOf(read("model-status"), "Role")).toEqual(rights("modelStatus"));
    expect(grantsOf(read("metrics-auth"), "ClusterRole")).toEqual(rights("reviews", "scraper"));
    const bound = one(read("metrics-auth"), "ClusterRoleBinding")["roleRef"].name;
    expect(grantsOf([one(read("metrics-auth"), "ClusterRole", bound)], "ClusterRole")).toEqual(rights("reviews"));
  });

  it("goes into any namespace: only what belongs to the cluster names one", () => {
    const names = readdirSync(FOLDER).filter((name) => name.endsWith(".yaml") && name !== "kustomization.yaml");
    const objects = read(...names.map((name) => name.replace(/\.yaml$/, "")));
    expect(objects.map(({ kind }) => kind).sort()).toEqual(
      [
        ...["ClusterRole", "ClusterRole", "ClusterRoleBinding", "ConfigMap", "Deployment", "InferencePool", "Role"],
        ...["PodDisruptionBudget", "Role", "Role", "RoleBinding", "RoleBinding", "RoleBinding", "Service", "Service"],
        "ServiceAccount",
      ].sort(),
    );
    const where = objects.flatMap(({ kind, metadata, subjects = [] }) => [
      ...(metadata.namespace === undefined ? [] : [`${kind} ${metadata.namespace}`]),
      ...subjects.flatMap(({ namespace }: { namespace?: string }) => (namespace ? [`${kind} to ${namespace}`] : [])),
    ]);
    expect(where).toEqual(["ClusterRoleBinding to default"]);
  });

  it("has a kustomization that names files that are there", () => {
    const { resources } = parse(readFileSync(join(FOLDER, "kustomization.yaml"), "utf8")) as { resources: string[] };
    const there = readdirSync(FOLDER);
    expect(resources.length).toBeGreaterThan(3);
    for (const name of resources) expect(there).toContain(name);
  });

  it("has a configuration that is accepted without warning, and a pool that is valid", async () => {
    expect(await configWarnings(one(read("epp"), "ConfigMap"))).toEqual({ "default-plugins.yaml": [] });
    const { objects, warnings } = readResources(readFileSync(join(FOLDER, "inference-pool.yaml"), "utf8"), "pool");
    expect([objects.length, warnings]).toEqual([1, []]);
  });

  if (kubectl !== undefined)
    it("is what kubectl makes of it", () => {
      const out = execFileSync(kubectl, ["kustomize", FOLDER], {
        encoding: "utf8",
        // kubectl writes a cache there; and no configuration of its user may change the result.
        env: { ...process.env, HOME: mkdtempSync(join(tmpdir(), "sluice-kubectl-")) },
      });
      expectContract(objectsOf(out));
    });
});
