import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type EnvoyOptions, type RunningEnvoy, startEnvoy } from "./envoy.ts";
import { sluice, type TestProcess } from "./process.ts";

export function portOf(address: string): number {
  return Number(address.slice(address.lastIndexOf(":") + 1));
}

/** A temporary endpoints file for servers on loopback. */
export function endpointsFile(ports: readonly number[]): string {
  const file = join(mkdtempSync(join(tmpdir(), "sluice-endpoints-")), "endpoints.yaml");
  const entries = ports.map((port, i) => `- { name: server-${i + 1}, address: 127.0.0.1, port: ${port} }`);
  writeFileSync(file, `endpoints:\n${entries.join("\n")}\n`);
  return file;
}

export interface Sim {
  readonly process: TestProcess;
  readonly port: number;
  readonly url: string;
}

/** Starts simulators that answer at once unless `args` say otherwise. */
export async function startSims(count: number, args: readonly string[] = []): Promise<Sim[]> {
  const started = Array.from({ length: count }, () => sluice("sim", "--host", "127.0.0.1", "--port", "0", ...args));
  return Promise.all(
    started.map(async (process) => {
      const port = portOf(await process.listening("sim"));
      return { process, port, url: `http://127.0.0.1:${port}` };
    }),
  );
}

export interface Epp {
  readonly process: TestProcess;
  readonly port: number;
  readonly healthPort: number;
  readonly adminUrl: string;
}

/** Starts `sluice epp` as the shipped Envoy configurations expect it. @param grpcPort 0 = any */
export async function startEpp(endpoints: string, grpcPort = 0, args: readonly string[] = []): Promise<Epp> {
  const process = sluice(
    "epp",
    ...["--endpoints", endpoints, "--secure-serving=false", "--health-checking", "--bind-address", "127.0.0.1"],
    ...["--grpc-port", String(grpcPort), "--grpc-health-port", "0", "--metrics-port", "0", ...args],
  );
  const port = portOf(await process.listening("ext-proc"));
  const healthPort = portOf(await process.listening("health"));
  return { process, port, healthPort, adminUrl: `http://${await process.listening("admin")}` };
}

/** Simulators, picker and Envoy with one shipped configuration. */
export interface Stack {
  readonly sims: readonly Sim[];
  readonly endpoints: string;
  readonly epp: Epp;
  readonly envoy: RunningEnvoy;
  readonly url: string;
  stop(): Promise<void>;
}

export async function startStack(config: EnvoyOptions["config"], simArgs: readonly string[] = []): Promise<Stack> {
  const sims = await startSims(3, simArgs);
  const ports = sims.map((sim) => sim.port);
  const endpoints = endpointsFile(ports);
  const epp = await startEpp(endpoints);
  const envoy = await startEnvoy({ config, eppPort: epp.port, serverPorts: ports });
  return {
    sims,
    endpoints,
    epp,
    envoy,
    url: `http://127.0.0.1:${envoy.port}`,
    async stop() {
      await Promise.all([envoy.process.stop(), epp.process.stop(), ...sims.map((sim) => sim.process.stop())]);
    },
  };
}
