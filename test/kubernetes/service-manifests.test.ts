import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Agent, request } from "undici";
import { afterEach, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { startApiServer } from "../support/apiserver/index.ts";
import { clientAuthority } from "../support/certificates.ts";
import { ask } from "../support/client.ts";
import { newKeys } from "../support/keys.ts";
import { poll } from "../support/poll.ts";
import { ROOT, type TestProcess } from "../support/process.ts";
import { objectsOf, one, type Rendered } from "../support/rendered.ts";
import { startSims } from "../support/stack.ts";
import { expectService, probesOf, type Service, startPod } from "./service.cases.ts";

const folderOf = (service: Service): string => join(ROOT, "deploy", "manifests", service);
const read = (service: Service, name: string = service): Rendered[] =>
  objectsOf(readFileSync(join(folderOf(service), `${name}.yaml`), "utf8"));

const left: { stop(): Promise<void> }[] = [];
afterEach(async () => {
  await Promise.all(left.splice(0).map((each) => each.stop()));
});
function running(objects: readonly Rendered[], mine: Parameters<typeof startPod>[1]): TestProcess {
  const pod = startPod(objects, mine);
  left.push(pod);
  return pod;
}

describe("deploy/manifests/gateway", () => {
  it("runs a gateway with keys, hardened, that stops without a lost request", () => {
    expect(expectService(read("gateway"), "gateway")).toMatchObject({ keys: "/keys/keys.yaml" });
  });

  it("starts with its arguments: it asks for the keys of the Secret, and answers the probes", async () => {
    const objects = read("gateway");
    const sims = await startSims(2);
    left.push(...sims.map(({ process }) => process));
    const entries = sims.map(({ port }, i) => `- { name: vllm-${i}, address: 127.0.0.1, port: ${port} }`);
    one(objects, "ConfigMap")["data"]["endpoints.yaml"] = `endpoints:\n${entries.join("\n")}\n`;
    const { text, key } = await newKeys("me");
    const pod = running(objects, { "sluice-gateway-keys": { "keys.yaml": text } });
    await poll("the probes", async () => {
      const { live, ready } = await probesOf(pod, "admin");
      return live === 200 && ready === 200;
    });
    const models = `http://${await pod.listening("gateway")}/v1/models`;
    expect((await ask(models)).status).toBe(401);
    expect((await ask(models, { headers: { authorization: `Bearer ${key}` } })).status).toBe(200);
  });

  it("has a list of model servers that is an endpoints file", async () => {
    const { text } = await newKeys("me");
    const pod = running(read("gateway"), { "sluice-gateway-keys": { "keys.yaml": text } });
    const shown = await ask(`http://${await pod.listening("admin")}/debug/endpoints`);
    const { endpoints } = JSON.parse(shown.text) as { endpoints: { id: string }[] };
    expect(endpoints.map(({ id }) => id).sort()).toEqual(["default/vllm-0", "default/vllm-1"]);
  });

  it("has a patch for TLS that adds two arguments and the Secret", () => {
    const args = (objects: Rendered[]) => one(objects, "Deployment")["spec"].template.spec.containers[0].args;
    const added = ["--tls-cert=/tls/tls.crt", "--tls-key=/tls/tls.key"];
    expect(args(read("gateway", "tls"))).toEqual([...args(read("gateway")), ...added]);
    const { spec } = one(read("gateway", "tls"), "Deployment")["spec"].template;
    expect(spec.containers[0].volumeMounts).toEqual([{ name: "tls", mountPath: "/tls", readOnly: true }]);
    expect(spec.volumes[0].secret).toEqual({ secretName: "sluice-gateway-tls", defaultMode: 0o440 });
  });

  it("speaks TLS with that patch", async () => {
    const objects = read("gateway");
    const pod = one(objects, "Deployment")["spec"].template.spec;
    const patch = one(read("gateway", "tls"), "Deployment")["spec"].template.spec;
    // As a strategic merge does it: lists of named things grow, arguments are replaced.
    pod.containers[0].args = patch.containers[0].args;
    pod.containers[0].volumeMounts.push(...patch.containers[0].volumeMounts);
    pod.volumes.push(...patch.volumes);
    expectService(objects, "gateway");
    const { ca, server } = await clientAuthority();
    const { text, key } = await newKeys("me");
    const started = running(objects, {
      "sluice-gateway-keys": { "keys.yaml": text },
      "sluice-gateway-tls": { "tls.crt": server.cert, "tls.key": server.key },
    });
    const url = `https://${await started.listening("gateway")}/v1/models`;
    const dispatcher = new Agent({ connect: { ca, servername: "localhost" } });
    const statuses: number[] = [];
    for (const given of ["sk-wrong", key]) {
      const answer = await request(url, { dispatcher, headers: { authorization: `Bearer ${given}` } });
      await answer.body.dump();
      statuses.push(answer.statusCode);
    }
    await dispatcher.close();
    expect(statuses[0]).toBe(401);
    expect(statuses[1]).not.toBe(401);
  });
});

describe("deploy/manifests/dispatch", () => {
  const mine = {
    "sluice-dispatch-redis": { url: "redis://127.0.0.1:9/0" },
    "sluice-dispatch-key": { key: "sk-of-the-gateway\n" },
  };

  it("runs a dispatcher, hardened, that gives its messages back before it is killed", () => {
    const args = expectService(read("dispatch"), "dispatch");
    expect(Number(args["replica-count"])).toBe(one(read("dispatch"), "Deployment")["spec"].replicas);
  });

  it("starts with its arguments: alive, and not ready while its Redis is away", async () => {
    const pod = running(read("dispatch"), mine);
    await poll("the probes", async () => {
      const { live, ready } = await probesOf(pod, "health");
      return live === 200 && ready === 503;
    });
    expect(pod.stderr).not.toContain("sk-of-the-gateway");
    await pod.stop("SIGTERM");
    expect(pod.exit).toEqual({ code: 0, signal: null });
  });

  it("has examples of a PodMonitor and of a ScaledObject that meet its objects", () => {
    const { template } = one(read("dispatch"), "Deployment")["spec"];
    const { selector, podMetricsEndpoints } = one(read("dispatch", "monitoring"), "PodMonitor")["spec"];
    expect(template.metadata.labels).toMatchObject(selector.matchLabels);
    const ports = template.spec.containers[0].ports.map(({ name }: { name: string }) => name);
    expect(ports).toContain(podMetricsEndpoints[0].port);
    const { scaleTargetRef, minReplicaCount, triggers } = one(read("dispatch", "autoscaling"), "ScaledObject")["spec"];
    expect(scaleTargetRef.name).toBe(one(read("dispatch"), "Deployment").metadata.name);
    // Without a dispatcher nothing would publish the backlog.
    expect(minReplicaCount).toBe(1);
    expect(triggers[0].metadata.query).toContain("llm_d_async_async_broker_backlog{");
  });

  it("says which Secret has no key", async () => {
    const pod = running(read("dispatch"), { ...mine, "sluice-dispatch-key": { key: "" } });
    expect((await pod.ended()).code).toBe(1);
    expect(pod.stderr).toContain("--gateway-key-file");
    expect(pod.stderr).toContain("it is empty");
  });
});

describe.each<Service>(["gateway", "dispatch"])("deploy/manifests/%s", (service) => {
  it("goes into any namespace, and its kustomization names files that are there", () => {
    for (const { metadata } of read(service)) expect(metadata.namespace).toBeUndefined();
    const { resources } = parse(readFileSync(join(folderOf(service), "kustomization.yaml"), "utf8"));
    expect(resources).toEqual([`${service}.yaml`]);
    expect(readdirSync(folderOf(service))).toContain(`${service}.yaml`);
  });

  it("is what an API server takes as it is, each field known", async () => {
    const api = await startApiServer();
    try {
      await api.put({ apiVersion: "v1", kind: "Namespace", metadata: { name: "llm" } });
      for (const object of read(service)) {
        const { apiVersion, kind } = object;
        const root = apiVersion === "v1" ? "/api/v1" : `/apis/${apiVersion}`;
        const path = `${root}/namespaces/llm/${kind.toLowerCase()}s/${object.metadata.name}`;
        const query = "fieldManager=test&fieldValidation=Strict";
        const answer = await api.request("PATCH", `${path}?${query}`, object, {
          contentType: "application/apply-patch+yaml",
        });
        expect([object.kind, answer.status, answer.body]).toEqual([object.kind, 201, expect.anything()]);
      }
    } finally {
      await api.close();
    }
  });
});
