import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { parse, stringify } from "yaml";
import { onPath } from "../../scripts/part-cache.ts";
import { ask } from "../support/client.ts";
import { newKeys } from "../support/keys.ts";
import { ROOT, type TestProcess } from "../support/process.ts";
import { objectsOf, one, type Rendered } from "../support/rendered.ts";
import { argumentsOf, expectService, probesOf, type Service, startPod } from "./service.cases.ts";

const chartOf = (service: Service): string => join(ROOT, "deploy", "helm", `sluice-${service}`);
/** No source that scripts/test-parts.ts installs from has Helm: what it renders is tested where it is found. */
const helm = process.env["HELM"] ?? onPath("helm");

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: unknown;
}

type Values = Readonly<Record<string, unknown>>;

describe.each<Service>(["gateway", "dispatch"])("deploy/helm/sluice-%s", (service) => {
  const read = (name: string): string => readFileSync(join(chartOf(service), name), "utf8");
  const schema = (): Schema => JSON.parse(read("values.schema.json")) as Schema;

  it("has the version of the package", () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
    expect(parse(read("Chart.yaml"))).toMatchObject({ name: `sluice-${service}`, version, appVersion: version });
  });

  it("has a schema of just the values that values.yaml shows, to every depth", () => {
    const compare = (values: unknown, { properties, additionalProperties }: Schema, path: string): void => {
      if (properties === undefined) return;
      expect(additionalProperties, path).toBe(false);
      const known = Object.keys(properties).filter((key) => path !== "" || key !== "global");
      expect(Object.keys(values as Values).sort(), path).toEqual(known.sort());
      for (const key of known) compare((values as Values)[key], properties[key]!, `${path}/${key}`);
    };
    compare(parse(read("values.yaml")), schema(), "");
  });

  it("names only values that there are, and uses every one", () => {
    const used = readdirSync(join(chartOf(service), "templates")).flatMap((name) =>
      [...read(join("templates", name)).matchAll(/\.Values((?:\.[a-zA-Z]+)+)/g)].map(([, path]) => path!.slice(1)),
    );
    const { properties } = schema();
    for (const path of used) {
      let at: Schema | undefined = { properties: properties! };
      for (const key of path.split(".")) if (at?.properties !== undefined) at = at.properties[key];
      expect(at, path).toBeDefined();
    }
    const tops = new Set(used.map((path) => path.split(".")[0]));
    expect(Object.keys(properties!).filter((key) => !tops.has(key))).toEqual(["global"]);
  });
});

/** `helm template` of release `llm` in namespace `inference`. */
function template(service: Service, values: Values): { objects: Rendered[]; error: string } {
  const home = mkdtempSync(join(tmpdir(), "sluice-helm-"));
  writeFileSync(join(home, "values.yaml"), stringify(values));
  const { status, stdout, stderr } = spawnSync(
    helm!,
    [
      ...["template", "llm", chartOf(service), "--kube-version", "1.34.0", "--namespace", "inference"],
      ...["--values", join(home, "values.yaml")],
    ],
    { encoding: "utf8", env: { HOME: home, PATH: process.env["PATH"] } },
  );
  return { objects: status === 0 ? objectsOf(stdout) : [], error: status === 0 ? "" : stderr };
}

const SERVERS = [{ name: "a", address: "127.0.0.1", port: 9, models: ["sim"] }];
const GATEWAY = { endpoints: SERVERS, keys: { secretName: "team-keys" } };
const QUEUES = { queues: [{ queue_name: "q", igw_base_url: "http://llm-gateway:8080" }] };
const DISPATCH = { config: { transport: "redis-sortedset", "transport-config": QUEUES } };
const PICKER = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins: [{ type: queue-scorer }]\n";

const left: TestProcess[] = [];
afterEach(async () => {
  await Promise.all(left.splice(0).map((each) => each.stop()));
});

if (helm !== undefined) {
  const rendered = (service: Service, values: Values): Rendered[] => {
    const { objects, error } = template(service, values);
    expect(error).toBe("");
    return objects;
  };
  const running = (objects: Rendered[], mine: Parameters<typeof startPod>[1]): TestProcess => {
    const pod = startPod(objects, mine);
    left.push(pod);
    return pod;
  };

  describe("what Helm renders of sluice-gateway", () => {
    it("is a gateway with keys, which starts with its arguments", async () => {
      const objects = rendered("gateway", {
        ...GATEWAY,
        pickerConfig: PICKER,
        flags: { objective: ["batch=-1", "urgent=10"], "max-retries": 1, "body-budget": "64Mi", "debug-open": true },
      });
      expectService(objects, "gateway");
      expect(one(objects, "Deployment")["spec"].replicas).toBe(2);
      for (const { metadata } of objects) expect(metadata.namespace).toBe("inference");
      const { text, key } = await newKeys("me");
      const pod = running(objects, { "team-keys": { "keys.yaml": text } });
      const { endpoints } = JSON.parse((await ask(`http://${await pod.listening("admin")}/debug/endpoints`)).text) as {
        endpoints: { id: string }[];
      };
      expect(endpoints.map(({ id }) => id)).toEqual(["default/a"]);
      expect(await probesOf(pod, "admin")).toEqual({ live: 200, ready: 200 });
      const url = `http://${await pod.listening("gateway")}/v1/models`;
      expect((await ask(url)).status).toBe(401);
      expect((await ask(url, { headers: { authorization: `Bearer ${key}` } })).status).toBe(200);
    });

    it("alerts about the batches of its own pods", () => {
      const prometheusRule = { enabled: true, without: ["SluiceBatchWebhookFails"], labels: { team: "llm" } };
      const rule = one(rendered("gateway", { ...GATEWAY, prometheusRule }), "PrometheusRule");
      expect(rule.metadata).toMatchObject({ labels: { team: "llm" } });
      const { rules } = rule["spec"].groups[0];
      expect(rules.map(({ alert }: { alert: string }) => alert)).toEqual(["SluiceBatchWebhookGivenUp"]);
      expect(rules[0].expr).toContain(`namespace="inference",pod=~"llm-gateway-[a-z0-9]+-[a-z0-9]+"`);
      expect(rules[0].expr).not.toContain("job=~");
    });

    it("takes TLS, other ports, IPv6, further files and a drain of its own", () => {
      const objects = rendered("gateway", {
        endpointsConfigMap: "servers",
        open: true,
        ...{ replicas: 1, port: 8443, adminPort: 19002, bindAddress: "::", drainSeconds: 300 },
        tls: { secretName: "cert", clientCertificates: true },
        files: { "limits.yaml": "rules: []\n" },
        flags: { "request-log": "all" },
        service: { type: "LoadBalancer", annotations: { a: "b" } },
        monitoring: { enabled: true, labels: { release: "prometheus" } },
      });
      expect(expectService(objects, "gateway")).toEqual({
        ...{ endpoints: "/endpoints/endpoints.yaml", listen: "[::]:8443", admin: "[::]:19002", open: "true" },
        ...{ "tls-cert": "/tls/tls.crt", "tls-key": "/tls/tls.key", "client-ca": "/tls/ca.crt" },
        ...{ "drain-timeout": "300s", "request-log": "all", "log-format": "json" },
      });
      const service = one(objects, "Service", "llm-gateway")["spec"];
      expect([service.type, service.ports]).toEqual([
        "LoadBalancer",
        [{ name: "https", protocol: "TCP", port: 8443, targetPort: "http" }],
      ]);
      expect(one(objects, "ConfigMap")["data"]).toEqual({ "limits.yaml": "rules: []\n" });
      const { selector, endpoints } = one(objects, "ServiceMonitor")["spec"];
      const admin = one(objects, "Service", "llm-gateway-admin");
      expect((admin.metadata as { labels?: object }).labels).toMatchObject(selector.matchLabels);
      expect(endpoints[0].port).toBe(admin["spec"].ports[0].name);
    });

    it("takes sections of gateway.yaml, which count beside its flags", async () => {
      const objects = rendered("gateway", {
        ...GATEWAY,
        config: {
          limits: { rules: [{ key: "*", requestsPerMinute: 1_000_000 }] },
          cors: { origins: ["https://chat.example"] },
          admin: { open: true },
        },
      });
      expect(expectService(objects, "gateway")["config"]).toBe("/config/gateway.yaml");
      const pod = running(objects, { "team-keys": { "keys.yaml": (await newKeys("me")).text } });
      const limits = await ask(`http://${await pod.listening("admin")}/debug/limits`);
      expect(JSON.parse(limits.text)).toMatchObject({ rules: [{ rule: "key=*" }] });
      const headers = { origin: "https://chat.example" };
      const answer = await ask(`http://${await pod.listening("gateway")}/v1/models`, { headers });
      expect(answer.headers["access-control-allow-origin"]).toBe(headers.origin);
      expect(pod.stderr).not.toContain("on the command line wins over this key");
    });

    it("takes issuers of tokens in place of keys", () => {
      const jwt = [{ issuer: "https://i", audience: "a", jwks: "https://i/jwks" }];
      const flags = expectService(rendered("gateway", { endpoints: SERVERS, config: { keys: { jwt } } }), "gateway");
      expect([flags["keys"], flags["open"]]).toEqual([undefined, undefined]);
    });

    it.each([
      [{}, "endpoints is required"],
      [{ endpoints: SERVERS }, "keys.secretName is required"],
      [{ ...GATEWAY, open: true }, "open: true lets clients in without a key, but"],
      [
        { endpoints: SERVERS, open: true, config: { keys: { jwt: [{}] } } },
        "open: true lets clients in without a key, but",
      ],
      [{ ...GATEWAY, config: { listeners: [] } }, "config.listeners is set by the chart: use the value port"],
      [{ ...GATEWAY, config: { endpoints: {} } }, "config.endpoints is set by the chart: use the value endpoints"],
      [{ ...GATEWAY, config: { admin: { address: ":1" } } }, "config.admin.address is set by the chart"],
      [{ ...GATEWAY, config: { keys: { file: "a" } } }, "config.keys.file is set by the chart"],
      [{ ...GATEWAY, config: { keys: { open: false } } }, "config.keys.open is set by the chart: use the value open"],
      [{ ...GATEWAY, config: { drain: {} } }, "config.drain is set by the chart: use the value drainSeconds"],
      [{ ...GATEWAY, config: { picker: {} }, pickerConfig: PICKER }, "pickerConfig and config.picker"],
      [
        { ...GATEWAY, config: { log: { format: "json" } } },
        "config.log.format has no effect, because flags.log-format wins",
      ],
      [{ ...GATEWAY, flags: { config: "x" } }, "flags.config is set by the chart: use the value config"],
      [{ ...GATEWAY, files: { "gateway.yaml": "x" } }, "files: gateway.yaml is a file of the chart"],
      [{ ...GATEWAY, endpointsConfigMap: "x" }, "endpoints and endpointsConfigMap are both set"],
      [{ ...GATEWAY, tls: { clientCertificates: true } }, "tls.clientCertificates needs tls.secretName"],
      [{ ...GATEWAY, adminPort: 8080 }, "port and adminPort are both 8080"],
      [{ ...GATEWAY, flags: { listen: ":1" } }, "flags.listen is set by the chart: use the value port"],
      [{ ...GATEWAY, flags: { keys: "x" } }, "flags.keys is set by the chart: use the value keys.secretName"],
      [{ ...GATEWAY, flags: { "--v": 1 } }, 'flags: "--v" is no name of a flag'],
      [{ ...GATEWAY, flags: { "debug-open": false } }, "flags.debug-open is false: remove it"],
      [{ ...GATEWAY, files: { "picker.yaml": "x" } }, "files: picker.yaml is a file of the chart"],
      // What the schema refuses each release of Helm says in its own words.
      [{ ...GATEWAY, replica: 2 }, /additional propert(ies 'replica' not|y replica is not) allowed/i],
      [{ ...GATEWAY, endpoints: [{ name: "a", adress: "b", port: 1 }] }, /adress/],
      [{ ...GATEWAY, keys: { secretName: "Team_Keys" } }, /secretName/],
    ] as [Values, string | RegExp][])("refuses %j and says why", (values, why) => {
      expect(template("gateway", values).error).toMatch(why);
    });
  });

  describe("what Helm renders of sluice-dispatch", () => {
    const read = (name: string): string => readFileSync(join(chartOf("dispatch"), name), "utf8");

    it("is a dispatcher, which starts with its arguments", async () => {
      const objects = rendered("dispatch", {
        ...DISPATCH,
        replicas: 2,
        redis: { secretName: "redis" },
        gatewayKey: { secretName: "key" },
        flags: { v: 3, "max-response-bytes": 2_000_000 },
      });
      expect(expectService(objects, "dispatch")).toMatchObject({
        "replica-count": "2",
        "max-response-bytes": "2000000",
      });
      const pod = running(objects, { redis: { url: "redis://127.0.0.1:9/0" }, key: { key: "sk-1\n" } });
      await pod.until("the probes", async () => (await probesOf(pod, "health")).ready === 503);
      expect((await probesOf(pod, "health")).live).toBe(200);
    });

    it("replaces its pods when its configuration changes", () => {
      const sum = (values: Values) =>
        one(rendered("dispatch", values), "Deployment")["spec"].template.metadata.annotations["checksum/config"];
      expect(sum(DISPATCH)).toMatch(/^[0-9a-f]{64}$/);
      expect(sum({ config: { ...DISPATCH.config, concurrency: 3 } })).not.toBe(sum(DISPATCH));
    });

    it("is watched by PodMonitor, alerts and dashboard, and scaled by its backlog", () => {
      const objects = rendered("dispatch", {
        ...DISPATCH,
        podMonitor: { enabled: true, labels: { release: "prometheus" } },
        prometheusRule: { enabled: true, without: ["SluiceDispatchRetries"] },
        grafana: { dashboards: { enabled: true } },
        autoscaling: { enabled: true, prometheusURL: "http://prometheus:9090", maxReplicas: 6 },
      });
      const deployment = one(objects, "Deployment");
      expect(deployment["spec"].replicas).toBeUndefined();
      expect(argumentsOf(deployment["spec"].template.spec.containers[0].args)["replica-count"]).toBe("6");
      const { labels } = deployment["spec"].template.metadata;
      const { selector, podMetricsEndpoints } = one(objects, "PodMonitor")["spec"];
      expect(labels).toMatchObject(selector.matchLabels);
      expect(podMetricsEndpoints[0].port).toBe("metrics");
      const file = parse(read("alerts.yaml")) as { groups: { rules: { alert: string; expr: string }[] }[] };
      const names = file.groups[0]!.rules.map(({ alert }) => alert).filter((name) => name !== "SluiceDispatchRetries");
      const { rules } = one(objects, "PrometheusRule")["spec"].groups[0];
      expect(rules.map(({ alert }: { alert: string }) => alert)).toEqual(names);
      const mine = `namespace="inference",pod=~"llm-dispatch-[a-z0-9]+-[a-z0-9]+"`;
      for (const { expr } of rules as { expr: string }[]) {
        expect(expr).toContain(mine);
        expect(expr).not.toContain("job=~");
      }
      const board = one(objects, "ConfigMap", "llm-dispatch-dashboard");
      expect(JSON.parse(board["data"]["sluice-dispatch.json"])).toMatchObject({ uid: "sluice-dispatch" });
      const { scaleTargetRef, minReplicaCount, maxReplicaCount, triggers } = one(objects, "ScaledObject")["spec"];
      expect([scaleTargetRef.name, minReplicaCount, maxReplicaCount]).toEqual(["llm-dispatch", 1, 6]);
      expect(triggers[0].metadata.query).toContain(`llm_d_async_async_broker_backlog{${mine}}`);
      expect(one(objects, "PodDisruptionBudget")["spec"].maxUnavailable).toBe(1);
    });

    it.each([
      [{}, "config is required"],
      [
        { ...DISPATCH, monitoring: { enabled: true }, podMonitor: { enabled: true } },
        "monitoring.enabled and podMonitor.enabled are both true",
      ],
      [{ ...DISPATCH, autoscaling: { enabled: true } }, "autoscaling.prometheusURL is required"],
      [
        { ...DISPATCH, autoscaling: { enabled: true, prometheusURL: "http://p", minReplicas: 9 } },
        "autoscaling.minReplicas is 9, and maxReplicas 4",
      ],
      [{ ...DISPATCH, autoscaling: { minReplicas: 0 } }, /minReplicas/],
      [
        { config: { ...DISPATCH.config, transport: "redis-pubsub" }, replicas: 2 },
        "config.transport is redis-pubsub, which gives every message to every pod",
      ],
      [{ config: { transport: "sqlite" } }, "config.transport is sqlite"],
      [
        { config: { ...DISPATCH.config, "drain-timeout": "1m" } },
        "config.drain-timeout is set by the chart: use the value drainSeconds",
      ],
      [
        { ...DISPATCH, flags: { "replica-count": 2 } },
        "flags.replica-count is set by the chart: use the value replicas",
      ],
      [{ ...DISPATCH, metricsPort: 8081 }, "healthPort and metricsPort are both 8081"],
      [{ ...DISPATCH, files: { "dispatch.yaml": "x" } }, "files: dispatch.yaml is a file of the chart"],
      [{ ...DISPATCH, workers: 2 }, /workers/],
    ] as [Values, string | RegExp][])("refuses %j and says why", (values, why) => {
      expect(template("dispatch", values).error).toMatch(why);
    });
  });
}

describe("the arguments of a pod", () => {
  it("are read as flags with values, and anything else is refused", () => {
    expect(argumentsOf(["--a=b=c", "--open"])).toEqual({ a: "b=c", open: "true" });
    expect(() => argumentsOf(["a"])).toThrow();
  });
});
