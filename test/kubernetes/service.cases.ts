import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import { ask } from "../support/client.ts";
import { compiledBefore, PROGRAM, TestProcess } from "../support/process.ts";
import { one, type Rendered } from "../support/rendered.ts";

/** The programs that have a chart and manifests besides the picker. */
export type Service = "gateway" | "dispatch";

/** What differs between the two. */
const SERVICES = {
  gateway: { ports: ["http", "admin"], probes: ["admin", "/healthz", "/ready"], metrics: "admin", afterDrain: 30 },
  dispatch: {
    ports: ["health", "metrics"],
    probes: ["health", "/healthz", "/readyz"],
    metrics: "metrics",
    afterDrain: 5,
  },
} as const;

/** The values of arguments `--name=value`; of a repeated one the last. */
export function argumentsOf(args: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(
    args.map((arg) => {
      const [, name, value] = /^--([a-z][a-z0-9-]*)(?:=(.*))?$/s.exec(arg) ?? [];
      expect(name, arg).toBeDefined();
      return [name!, value ?? "true"];
    }),
  );
}

/**
 * Checks the objects that run a gateway or a dispatcher: a pod of the restricted profile that reads whole folders, probes and
 * Services that meet its ports, and a stop that takes no request away.
 * @returns the arguments by name
 */
export function expectService(objects: readonly Rendered[], service: Service): Readonly<Record<string, string>> {
  const { ports, probes, metrics, afterDrain } = SERVICES[service];
  const deployment = one(objects, "Deployment");
  const { spec } = deployment["spec"].template;
  const [container, ...others] = spec.containers;
  expect([container.name, others]).toEqual([service, []]);
  expect(container.command).toEqual(["sluice", service]);
  const args = argumentsOf(container.args);

  // The restricted profile of Pod Security Standards, and no credentials of the cluster.
  expect(spec.automountServiceAccountToken).toBe(false);
  expect(spec.securityContext).toEqual({
    ...{ runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532 },
    seccompProfile: { type: "RuntimeDefault" },
  });
  expect(container.securityContext).toEqual({
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ["ALL"] },
  });
  expect(container.resources.limits.memory).toBeDefined();
  expect(container.resources.limits.cpu).toBeUndefined();

  const numbers =
    service === "gateway"
      ? [args["listen"], args["admin"]].map((address) => Number(/^(?:0\.0\.0\.0|\[::\]):(\d+)$/.exec(address!)?.[1]))
      : [Number(args["health-port"]), Number(args["metrics-port"])];
  expect(container.ports).toEqual(ports.map((name, i) => ({ name, containerPort: numbers[i] })));
  const [port, live, ready] = probes;
  expect(container.livenessProbe.httpGet).toEqual({ path: live, port });
  expect(container.readinessProbe.httpGet).toEqual({ path: ready, port });

  expect(deployment["spec"].strategy).toEqual({
    type: "RollingUpdate",
    rollingUpdate: { maxSurge: 1, maxUnavailable: 0 },
  });
  const drain = Number(/^(\d+)s$/.exec(args["drain-timeout"]!)?.[1]);
  expect(spec.terminationGracePeriodSeconds).toBeGreaterThan(drain + afterDrain);
  expect(container.lifecycle).toBeUndefined();

  const { matchLabels } = deployment["spec"].selector;
  const { labels } = deployment["spec"].template.metadata;
  expect(labels).toMatchObject(matchLabels);
  expect(spec.topologySpreadConstraints.length).toBeGreaterThan(0);
  const exposed = objects.filter(({ kind }) => kind === "Service").map((each) => each["spec"]);
  for (const of of exposed) {
    expect(labels).toMatchObject(of.selector);
    for (const { targetPort } of of.ports) expect(ports).toContain(targetPort);
  }
  // Who may use the models gets no way to the metrics: they are a Service of their own.
  const scraped = exposed.filter((of) => of.ports.some(({ targetPort }: Rendered) => targetPort === metrics));
  expect(scraped.map((of) => [of.type, of.ports.length])).toEqual([["ClusterIP", 1]]);
  const budgets = objects.filter(({ kind }) => kind === "PodDisruptionBudget");
  expect(budgets.length).toBe(deployment["spec"].replicas > 1 ? 1 : 0);
  for (const budget of budgets) expect(budget["spec"]).toEqual({ maxUnavailable: 1, selector: { matchLabels } });

  const mounted = Object.fromEntries(container.volumeMounts.map(({ name, ...mount }: Rendered) => [name, mount]));
  for (const { name, secret } of spec.volumes) {
    // Not a file of it (`subPath`), which would never change.
    expect(mounted[name], name).toEqual({ mountPath: `/${name}`, readOnly: true });
    if (secret !== undefined) expect(secret.defaultMode).toBe(0o440);
  }
  return args;
}

/** Contents of the Secrets and of foreign ConfigMaps: name of the object, then of the entry. */
export type Contents = Readonly<Record<string, Readonly<Record<string, string>>>>;

/**
 * Starts the program of a pod with the rendered arguments, files and environment, on free ports of loopback.
 * @param mine contents of the objects that are not among the rendered ones
 */
export function startPod(objects: readonly Rendered[], mine: Contents = {}): TestProcess {
  const { spec } = one(objects, "Deployment")["spec"].template;
  const [container] = spec.containers;
  const folders = new Map<string, string>();
  for (const { name, configMap, secret } of spec.volumes) {
    const source = configMap?.name ?? secret.secretName;
    const data = configMap === undefined || mine[source] ? mine[source] : one(objects, "ConfigMap", source)["data"];
    const folder = mkdtempSync(join(tmpdir(), `sluice-pod-${name}-`));
    for (const [file, text] of Object.entries((data ?? {}) as Record<string, string>))
      writeFileSync(join(folder, file), text, { mode: 0o440 });
    folders.set(name, folder);
  }
  const local = (arg: string): string => {
    for (const { name, mountPath } of container.volumeMounts)
      if (arg.includes(`=${mountPath}/`)) return arg.replace(`=${mountPath}/`, `=${folders.get(name)}/`);
    return arg
      .replace(/^(--(?:listen|admin))=.*/, "$1=127.0.0.1:0")
      .replace(/^(--(?:health|metrics)-port)=.*/, "$1=0")
      .replace(/^--bind-address=.*/, "--bind-address=127.0.0.1");
  };
  const env = (container.env ?? []).map(({ name, value, valueFrom }: Rendered) => {
    const { name: secret, key } = valueFrom?.["secretKeyRef"] ?? {};
    return [name, value ?? mine[secret]?.[key]];
  });
  const [program, ...words] = container.command;
  expect(program).toBe("sluice");
  return new TestProcess(process.execPath, [PROGRAM, ...words, ...container.args.map(local)], {
    cwd: "/",
    env: { PATH: process.env["PATH"], ...compiledBefore(), ...Object.fromEntries(env) },
  });
}

/** Asks the probes of a pod's program. @param name of the ready line of their port */
export async function probesOf(pod: TestProcess, name: "admin" | "health"): Promise<{ live: number; ready: number }> {
  const at = `http://${await pod.listening(name)}`;
  const ready = name === "admin" ? "/ready" : "/readyz";
  return { live: (await ask(`${at}/healthz`)).status, ready: (await ask(`${at}${ready}`)).status };
}
