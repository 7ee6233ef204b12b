import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { envoy, haproxy, litellm, nginx, sglangRouter } from "../../scripts/test-parts.ts";
import { bootstrap } from "../../test/support/envoy.ts";
import { freePort, onFreePorts } from "../../test/support/free-port.ts";
import { poll } from "../../test/support/poll.ts";
import { ROOT, TestProcess } from "../../test/support/process.ts";
import type { Feature } from "./features.ts";
import {
  haproxyConfig,
  LITELLM_LAUNCHER,
  litellmConfig,
  nginxConfig,
  referencePickerConfig,
  SGLANG_LAUNCHER,
} from "./rivals.ts";

/** What all subjects stand in front of. */
export interface Rig {
  /** `IP:PORT` of the model servers. */
  readonly endpoints: readonly string[];
  /** The same as an endpoints file. */
  readonly endpointsFile: string;
  readonly model: string;
  /** A folder that ends with the run. */
  readonly folder: string;
  /** The command line of Sluice before the subcommand. */
  readonly main: readonly string[];
}

/** A subject that answers requests. */
export interface Running {
  readonly port: number;
  readonly model: string;
  readonly processes: readonly TestProcess[];
  /** A header that each request needs. */
  readonly header?: string | undefined;
}

export interface Subject {
  readonly name: string;
  /** Starts the subject on core 0, and waits until it answers. Throws `PartMissing` where this machine lacks it. */
  start(rig: Rig): Promise<Running>;
}

/** The environment variable that names a binary of the reference's picker. */
export const REFERENCE_PICKER = "SLUICE_REFERENCE_PICKER";
const LOOPBACK = "127.0.0.1";

function onCore0(program: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): TestProcess {
  return new TestProcess("taskset", ["-c", "0", program, ...args], { env: { ...process.env, ...env } });
}

const portOf = (address: string): number => Number(address.slice(address.lastIndexOf(":") + 1));

/** Whether a chat completion gets 200. */
function answers(port: number, model: string, header: string | undefined): Promise<boolean> {
  const body = JSON.stringify({ model, messages: [{ role: "user", content: "are you there?" }] });
  const [name, value] = header?.split(": ") ?? [];
  const headers = { "content-type": "application/json", ...(name === undefined ? {} : { [name]: value }) };
  return new Promise((resolve, reject) => {
    const options = { host: LOOPBACK, port, path: "/v1/chat/completions", method: "POST", headers, agent: false };
    request(options, (response) => {
      response.resume();
      response.on("end", () => resolve(response.statusCode === 200));
    })
      .on("error", reject)
      .end(body);
  });
}

async function ready(started: Omit<Running, "model">, { model }: Rig): Promise<Running> {
  const last = started.processes.at(-1)!;
  await last.until("the first answer", () => answers(started.port, model, started.header));
  return { ...started, model };
}

/**
 * `sluice gateway` with the default profile.
 * @param features none = all off
 * @param main the command line of another checkout
 */
export function gateway(name: string, features: readonly Feature[], main?: readonly string[]): Subject {
  return {
    name,
    async start(rig) {
      const folder = mkdtempSync(join(rig.folder, "gateway-"));
      const [program, ...before] = main ?? rig.main;
      const prepared = features.map((feature) => feature.prepare(folder, rig.main));
      const off = features.length === 0 ? ["--request-log", "off"] : [];
      const process = onCore0(program!, [
        ...[...before, "gateway", "--endpoints", rig.endpointsFile, "--listen", `${LOOPBACK}:0`],
        ...["--admin", `${LOOPBACK}:0`, "--log-level", "warn", ...off, ...prepared.flatMap(({ args }) => args)],
      ]);
      const port = portOf(await process.listening("gateway"));
      return ready({ port, processes: [process], header: prepared.find(({ header }) => header)?.header }, rig);
    },
  };
}

/** A program that gets its port by its configuration or arguments. */
function onOwnPort(name: string, start: (port: number, rig: Rig) => TestProcess): Subject {
  return {
    name,
    start: (rig) =>
      onFreePorts(async () => {
        const port = await freePort();
        return ready({ port, processes: [start(port, rig)] }, rig);
      }),
  };
}

function fileIn(rig: Rig, name: string, text: string): string {
  const file = join(rig.folder, name);
  writeFileSync(file, text);
  return file;
}

/** The picker of Envoy: ours, or the binary of the reference. */
function startPicker(rig: Rig, reference: string | undefined, ports: readonly number[]): TestProcess {
  const [grpc, health, metrics] = ports.map(String) as [string, string, string];
  const listeners = ["--grpc-port", grpc, "--grpc-health-port", health, "--metrics-port", metrics];
  if (reference === undefined)
    return onCore0(rig.main[0]!, [
      ...[...rig.main.slice(1), "epp", "--endpoints", rig.endpointsFile, "--secure-serving=false"],
      ...["--bind-address", LOOPBACK, ...listeners, "--v=0"],
    ]);
  const config = fileIn(rig, "reference.yaml", referencePickerConfig(rig.endpointsFile));
  return onCore0(reference, [
    ...["--pool-name", "llm", "--pool-namespace", "default", "--config-file", config, "--secure-serving=false"],
    ...["--metrics-endpoint-auth=false", "--v=0", ...listeners],
  ]);
}

/** Envoy with one worker, and a picker on the same core. It fails closed, so no answer comes without the picker. */
function envoyWith(name: string, reference: string | undefined): Subject {
  return {
    name,
    start: (rig) =>
      onFreePorts(async () => {
        const program = envoy();
        const [port, admin] = [await freePort(), await freePort()];
        const ports = [await freePort(), await freePort(), await freePort()];
        const text = bootstrap({ variant: "standalone", eppPort: ports[0]!, serverPorts: [] }, port, admin);
        const config = fileIn(rig, "envoy.yaml", text);
        const picker = startPicker(rig, reference, ports);
        const proxy = onCore0(program, [
          ...["-c", config, "--use-dynamic-base-id", "-l", "error", "--concurrency", "1"],
        ]);
        return ready({ port, processes: [picker, proxy] }, rig);
      }),
  };
}

/** Everything that stands beside the gateway. */
export function rivals(): readonly Subject[] {
  const reference = process.env[REFERENCE_PICKER];
  return [
    onOwnPort("nginx", (port, rig) => {
      const folder = join(rig.folder, "nginx");
      mkdirSync(folder, { recursive: true });
      const config = fileIn(rig, "nginx.conf", nginxConfig(port, rig.endpoints, folder));
      return onCore0(nginx(), ["-e", "stderr", "-p", folder, "-c", config]);
    }),
    onOwnPort("haproxy", (port, rig) =>
      onCore0(haproxy(), ["-f", fileIn(rig, "haproxy.cfg", haproxyConfig(port, rig.endpoints))]),
    ),
    {
      name: "sglang-router",
      start: (rig) =>
        onFreePorts(async () => {
          const folder = sglangRouter();
          const [port, metrics] = [await freePort(), await freePort()];
          const router = onCore0(
            "python3",
            [
              ...["-c", SGLANG_LAUNCHER, "--host", LOOPBACK, "--port", String(port), "--policy", "cache_aware"],
              ...["--prometheus-host", LOOPBACK, "--prometheus-port", String(metrics), "--log-level", "error"],
              ...["--worker-urls", ...rig.endpoints.map((address) => `http://${address}`)],
            ],
            { PYTHONPATH: folder },
          );
          return ready({ port, processes: [router] }, rig);
        }),
    },
    {
      name: "LiteLLM",
      start: (rig) =>
        onFreePorts(async () => {
          const folder = litellm();
          const port = await freePort();
          const config = fileIn(rig, "litellm.json", litellmConfig(rig.model, rig.endpoints));
          // It gets no variable of this shell: it reads keys of clouds from them. Prices of models come from its own file.
          const proxy = new TestProcess(
            "taskset",
            [
              ...["-c", "0", "python3", "-c", LITELLM_LAUNCHER, "--config", config],
              ...["--host", LOOPBACK, "--port", String(port), "--num_workers", "1"],
            ],
            {
              cwd: rig.folder,
              env: {
                PATH: process.env["PATH"],
                HOME: rig.folder,
                PYTHONPATH: folder,
                LITELLM_LOCAL_MODEL_COST_MAP: "True",
                LITELLM_LOG: "ERROR",
              },
            },
          );
          return ready({ port, processes: [proxy] }, rig);
        }),
    },
    envoyWith("Envoy, sluice epp", undefined),
    ...(reference === undefined ? [] : [envoyWith("Envoy, reference epp", reference)]),
  ];
}

/** Ends a subject. SIGKILL comes second: the workers of nginx outlive a master that cannot end them. */
export async function stop({ processes }: Running): Promise<void> {
  await Promise.all(processes.map((process) => process.stop("SIGTERM", 5000).catch(() => process.stop("SIGKILL"))));
}

/** Starts the model servers on core 1. @returns their port */
export async function startServers(program: string, args: readonly string[]): Promise<number> {
  const servers = new TestProcess("taskset", ["-c", "1", program, ...args], { cwd: ROOT });
  const line = await poll("the model servers", () => /listening port=(\d+)/.exec(servers.stdout));
  return Number(line[1]);
}
