import { once } from "node:events";
import { mkdtempSync, writeFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { health } from "../support/epp-process.ts";
import { poll } from "../support/poll.ts";
import { PROGRAM, sluice, TestProcess } from "../support/process.ts";
import { endpointsFile, portOf } from "../support/stack.ts";

let running: TestProcess | undefined;
afterEach(() => running?.stop());

const config = (file: string, type = "file-discovery") => `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: ${type}
  parameters: {path: ${JSON.stringify(file)}}
dataLayer:
  discovery: {pluginRef: ${type}}
`;

describe("endpoints from the file of a configuration (R-56)", () => {
  it("no API server is asked though a pool is named and one could be, and that is said once", async () => {
    let asked = 0;
    const server = createServer((socket) => {
      asked++;
      socket.destroy();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as { port: number };
    const args = [
      "epp",
      "--config-text",
      config(endpointsFile([1])),
      "--bind-address",
      "127.0.0.1",
      "--grpc-port",
      "0",
    ];
    const kubernetes = ["--pool-name", "p", "--ha-enable-leader-election", "--metrics-endpoint-auth=true"];
    running = new TestProcess(
      process.execPath,
      [PROGRAM, ...args, "--grpc-health-port", "0", "--metrics-port", "0", ...kubernetes],
      { env: { ...process.env, KUBERNETES_SERVICE_HOST: "127.0.0.1", KUBERNETES_SERVICE_PORT: String(port) } },
    );
    const healthPort = portOf(await running.listening("health"));
    const admin = await running.listening("admin");
    // Without an election no replica waits, so that the probes of several replicas pass.
    for (const service of ["readiness", "liveness", "inference-extension"])
      expect(await health(healthPort, service)).toEqual({ serving: 1, grpc: 0 });
    expect((await fetch(`http://${admin}/metrics`)).status).toBe(200);
    expect(running.stderr.match(/Sluice does not use Kubernetes/g)).toHaveLength(1);
    expect(asked).toBe(0);
    server.close();
  });
});

describe("endpoints of other clusters from the file of a configuration (R-57)", () => {
  const start = (file: string, ...args: readonly string[]) => {
    const text = config(file, "multicluster-file-discovery");
    const ports = [
      "--grpc-port",
      "0",
      "--grpc-health-port",
      "0",
      "--metrics-port",
      "0",
      "--metrics-endpoint-auth=false",
    ];
    running = sluice("epp", "--config-text", text, "--bind-address", "127.0.0.1", ...ports, ...args);
    return running;
  };

  it("a server with a name is read where its labels say; being alpha, the plugin has to be allowed", async () => {
    const metrics = createHttpServer((_request, response) => response.end("vllm:num_requests_waiting 7\n"));
    await once(metrics.listen(0, "127.0.0.1"), "listening");
    const { port } = metrics.address() as AddressInfo;
    const labels = { metricsAddress: "127.0.0.1", metricsPort: String(port) };
    const file = join(mkdtempSync(join(tmpdir(), "sluice-clusters-")), "endpoints.json");
    writeFileSync(
      file,
      JSON.stringify({ endpoints: [{ name: "east", address: "gateway.east.invalid", port: 80, labels }] }),
    );
    const refused = start(file);
    await refused.ended();
    expect(refused.stderr).toContain("requires --allow-experimental-plugins");
    const admin = await start(file, "--allow-experimental-plugins").listening("admin");
    await poll("a scrape", async () => {
      const { endpoints } = (await (await fetch(`http://${admin}/debug/endpoints`)).json()) as {
        endpoints: readonly { hostPort: string; state: string; metrics: { waiting: number | null } }[];
      };
      const [east] = endpoints;
      return east?.hostPort === "gateway.east.invalid:80" && east.state === "up" && east.metrics.waiting === 7;
    });
    metrics.close();
  });
});
