import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { getJson } from "./client.ts";
import { type EnvoyOptions, type RunningEnvoy, startEnvoy } from "./envoy.ts";
import { freePort, onFreePorts } from "./free-port.ts";
import { sluice, type TestProcess } from "./process.ts";

export function portOf(address: string): number {
  return Number(address.slice(address.lastIndexOf(":") + 1));
}

/** A temporary endpoints file for servers on loopback. @param more further keys of every entry, each after a comma */
export function endpointsFile(ports: readonly number[], more = ""): string {
  const file = join(mkdtempSync(join(tmpdir(), "sluice-endpoints-")), "endpoints.yaml");
  const entries = ports.map((port, i) => `- { name: server-${i + 1}, address: 127.0.0.1, port: ${port}${more} }`);
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

/** What a simulator remembers of a request. */
export interface SeenRequest {
  readonly id: string;
  readonly bodySha256: string | null;
  readonly bodyLength: number;
  readonly repeatedDocument: boolean;
  readonly lengthMismatch: boolean;
  readonly aborted: boolean;
  readonly status: number | null;
  readonly headers: Readonly<Record<string, string>>;
}

/** The requests with this `x-test-id` that reached any of the servers, each with the port of the server. */
export async function seenBy(sims: readonly Sim[], id: string): Promise<(SeenRequest & { readonly port: number })[]> {
  const lists = await Promise.all(
    sims.map(async ({ url, port }) => {
      const { requests } = await getJson<{ requests: SeenRequest[] }>(`${url}/admin/requests`);
      return requests.map((request) => ({ ...request, port }));
    }),
  );
  return lists.flat().filter((request) => request.headers["x-test-id"] === id);
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

/** What a stack has besides the defaults. */
export interface StackOptions extends Partial<Omit<EnvoyOptions, "variant" | "eppPort" | "serverPorts">> {
  readonly simArgs?: readonly string[];
  readonly eppArgs?: readonly string[];
  /** Wishes that depend on where the model servers are. */
  bootstrapFor?(serverPorts: readonly number[]): EnvoyOptions["bootstrap"];
}

/** Starts them, and waits until Envoy knows that the picker is there. */
export async function startStack(variant: EnvoyOptions["variant"], options: StackOptions = {}): Promise<Stack> {
  const { simArgs, eppArgs, bootstrapFor, ...more } = options;
  const started: { stop(): Promise<unknown> }[] = [];
  const stop = async (): Promise<void> => void (await Promise.all(started.map((process) => process.stop())));
  try {
    const sims = await startSims(3, simArgs);
    started.push(...sims.map(({ process }) => process));
    const ports = sims.map((sim) => sim.port);
    const endpoints = endpointsFile(ports);
    // Some tests end it and start another one on its port.
    const epp = await onFreePorts(async () => startEpp(endpoints, await freePort(), eppArgs));
    started.push(epp.process);
    const envoy = await startEnvoy({
      variant,
      eppPort: epp.port,
      serverPorts: ports,
      ...more,
      bootstrap: { ...more.bootstrap, ...bootstrapFor?.(ports) },
    });
    started.push(envoy.process);
    await envoy.findsPickers();
    return { sims, endpoints, epp, envoy, url: `http://127.0.0.1:${envoy.port}`, stop };
  } catch (error) {
    // Nobody else knows of those that did start.
    await stop();
    throw error;
  }
}
