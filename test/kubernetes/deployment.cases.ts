import { expect } from "vitest";
import { validateConfig } from "../../src/commands/config/config-tools.ts";
import { parseEppFlags } from "../../src/commands/epp/epp-flags.ts";
import type { EppSettings } from "../../src/commands/epp/epp-settings.ts";
import { one, podOf, type Rendered } from "../support/rendered.ts";

/** Environment as the kubelet fills it in. */
const DOWNWARD: Readonly<Record<string, string>> = {
  "metadata.namespace": "inference",
  "metadata.name": "pool-epp-6d5f7c9b8-x2x1z",
  "spec.nodeName": "node-1",
};

/** Checks what replicas that share need besides: to be reached one by one, spread, and drained in turn. */
function expectReplicas(objects: readonly Rendered[], shares: boolean): void {
  const deployment = one(objects, "Deployment");
  const { matchLabels } = deployment["spec"].selector;
  const headless = objects.filter(({ kind, spec }) => kind === "Service" && spec.clusterIP === "None");
  const budgets = objects.filter(({ kind }) => kind === "PodDisruptionBudget");
  expect(headless.map(({ spec }) => spec.selector)).toEqual(shares ? [matchLabels] : []);
  expect(budgets.map(({ spec }) => spec)).toEqual(
    shares && deployment["spec"].replicas > 1 ? [{ maxUnavailable: 1, selector: { matchLabels } }] : [],
  );
  if (shares) expect(podOf(deployment).spec.topologySpreadConstraints[0].topologyKey).toBe("kubernetes.io/hostname");
}

/**
 * Checks what the container contract asks of the objects that run a picker (api-resources 6B.2): arguments that the entry
 * point reads, ports, probes and Service in agreement with them, a pod of the restricted profile.
 * @returns the settings that the arguments amount to
 */
export function expectContract(objects: readonly Rendered[]): EppSettings {
  const deployment = one(objects, "Deployment");
  const { spec, container } = podOf(deployment);
  const env = Object.fromEntries(
    container.env.map(({ name, value, valueFrom }: { name: string; value?: string; valueFrom?: Rendered }) => [
      name,
      value ?? DOWNWARD[valueFrom?.["fieldRef"]?.fieldPath],
    ]),
  );
  const settings = parseEppFlags(container.args, env) as EppSettings;
  expect(settings.warnings).toEqual([]);

  const ports = Object.fromEntries(
    container.ports.map(({ name, containerPort }: { name: string; containerPort: number }) => [name, containerPort]),
  );
  expect(ports).toMatchObject({
    grpc: settings.grpcPort,
    "grpc-health": settings.grpcHealthPort,
    metrics: settings.metricsPort,
  });
  const { replicas } = deployment["spec"];
  const shares =
    settings.peers !== undefined || container.env.some(({ name }: { name: string }) => name === "SLUICE_PEERS");
  // Replicas that share all serve; then the leader only writes status.
  const elected = settings.kubernetes?.leaderElection === true;
  expect(elected).toBe(replicas > 1 && (!shares || settings.kubernetes?.writeModelStatus === true));
  expectReplicas(objects, shares);
  const probe = { port: settings.grpcHealthPort };
  expect(container.livenessProbe).toEqual({
    grpc: { ...probe, service: "liveness" },
    initialDelaySeconds: 5,
    periodSeconds: 10,
  });
  expect(container.readinessProbe).toEqual({
    grpc: { ...probe, service: "readiness" },
    periodSeconds: 2,
  });

  // Side by side where both can be ready; a replica that waits to lead never is.
  const rollingUpdate =
    elected && !shares ? { maxSurge: "100%", maxUnavailable: "100%" } : { maxSurge: 1, maxUnavailable: 0 };
  expect(deployment["spec"].strategy).toEqual({ type: "RollingUpdate", rollingUpdate });
  // The drain, then what running streams get, all before the kill.
  expect(spec.terminationGracePeriodSeconds * 1000).toBeGreaterThan(settings.drainTimeout + 30_000);
  expect(container.lifecycle).toBeUndefined();
  expect(spec.serviceAccountName).toBe(one(objects, "ServiceAccount", spec.serviceAccountName).metadata.name);
  expect(container.command).toBeUndefined();
  // The restricted profile of Pod Security Standards.
  expect(spec.securityContext).toMatchObject({
    runAsNonRoot: true,
    runAsUser: 65532,
    seccompProfile: { type: "RuntimeDefault" },
  });
  expect(container.securityContext).toEqual({
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ["ALL"] },
  });

  const service = one(
    objects.filter(({ spec }) => spec?.clusterIP !== "None"),
    "Service",
  );
  expect(service["spec"].ports.slice(0, 2)).toEqual([
    { name: "grpc-ext-proc", protocol: "TCP", port: settings.grpcPort, appProtocol: "kubernetes.io/h2c" },
    { name: "http-metrics", protocol: "TCP", port: settings.metricsPort },
  ]);
  const { labels } = deployment["spec"].template.metadata;
  expect(labels).toMatchObject(deployment["spec"].selector.matchLabels);
  expect(labels).toMatchObject(service["spec"].selector);
  for (const pool of objects.filter(({ kind }) => kind === "InferencePool")) {
    const { endpointPickerRef, extensionRef } = pool["spec"];
    const { name, port, portNumber } = endpointPickerRef ?? extensionRef;
    expect([name, port?.number ?? portNumber]).toEqual([service.metadata.name, settings.grpcPort]);
  }
  for (const binding of objects.filter(({ kind }) => kind === "RoleBinding" || kind === "ClusterRoleBinding")) {
    one(objects, binding["roleRef"].kind, binding["roleRef"].name);
    for (const { kind, name } of binding["subjects"]) one(objects, kind, name);
  }

  const [mount] = container.volumeMounts;
  const volume = spec.volumes.find(({ name }: { name: string }) => name === mount.name);
  expect(mount).toMatchObject({ mountPath: "/config", readOnly: true });
  expect(settings.configFile).toMatch(/^\/config\//);
  expect(Object.keys(one(objects, "ConfigMap", volume.configMap.name)["data"])).toContain(
    settings.configFile!.slice("/config/".length),
  );
  return settings;
}

/** What is warned about in each configuration of a ConfigMap; fails on one that is refused. */
export async function configWarnings(map: Rendered): Promise<Readonly<Record<string, readonly string[]>>> {
  const found: Record<string, readonly string[]> = {};
  for (const [name, text] of Object.entries(map["data"] as Record<string, string>)) {
    const stdin = (async function* () {
      yield Buffer.from(text);
    })();
    const { error, warnings } = await validateConfig({ file: "-", allowExperimental: false, stdin });
    expect(error, name).toBeUndefined();
    found[name] = warnings;
  }
  return found;
}
