import { spawnSync } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ENVOY_RELEASE, envoy as findEnvoy } from "../../scripts/test-parts.ts";
import { renderBootstrap } from "../../src/wires/envoy/bootstrap.ts";
import { type BootstrapOptions, ENVOY_VERSIONS, type Variant } from "../../src/wires/envoy/options.ts";
import { planBootstrap } from "../../src/wires/envoy/plan.ts";
import { OPTIONS } from "./envoy/pool.cases.ts";
import { freePort, onFreePorts } from "./free-port.ts";
import { TestProcess } from "./process.ts";
import { fixedLimit } from "./slowness.ts";

export interface EnvoyOptions {
  readonly variant: Variant;
  /** Port of `sluice epp`. */
  readonly eppPort: number;
  /** Ports of the model servers, for the variant that knows them. */
  readonly serverPorts: readonly number[];
  /** A release of `scripts/test-parts.ts`. */
  readonly release?: string;
  /** Wishes beside the ports; FailOpen in `override-host` unless given, as in the shipped file. */
  readonly bootstrap?: Partial<BootstrapOptions>;
  /** Worker threads. */
  readonly concurrency?: number;
  /** Last changes to the text, for what no option covers. */
  edit?(yaml: string): string;
}

/** A real Envoy with a configuration of `sluice envoy-config`. */
export interface RunningEnvoy {
  readonly port: number;
  readonly adminPort: number;
  readonly process: TestProcess;
  /** Value of one counter or gauge, 0 when unknown. */
  stat(name: string): Promise<number>;
  /** Counters and gauges whose names match a regular expression of Envoy. */
  stats(filter: string): Promise<ReadonlyMap<string, number>>;
  /**
   * Waits until so many pickers have passed their health check. Before that a configuration that fails open answers without a
   * picker. Envoy's workers know it as well then: they are told before this answer is given.
   */
  findsPickers(count?: number): Promise<void>;
}

const LOOPBACK = "127.0.0.1";

/** The bootstrap that `startEnvoy` runs. */
export function bootstrap(options: EnvoyOptions, port: number, adminPort: number): string {
  const { variant, serverPorts, release = ENVOY_RELEASE } = options;
  const version = ENVOY_VERSIONS.find((known) => release.startsWith(`${known}.`));
  if (version === undefined) throw new Error(`no configuration for Envoy ${release}`);
  const plan = planBootstrap({
    ...OPTIONS,
    variant,
    envoyVersion: version,
    listen: { host: LOOPBACK, port },
    admin: { host: LOOPBACK, port: adminPort },
    picker: { host: LOOPBACK, port: options.eppPort },
    failureMode: variant === "override-host" ? "FailOpen" : undefined,
    endpoints: variant === "override-host" ? serverPorts.map((known) => ({ host: LOOPBACK, port: known })) : [],
    subsetHeader: variant === "subset-hint" ? "x-pool-subset" : "",
    ...options.bootstrap,
  });
  return renderBootstrap(plan);
}

/** Starts Envoy and waits until it is ready. */
export function startEnvoy(options: EnvoyOptions): Promise<RunningEnvoy> {
  return onFreePorts(() => startOnce(options));
}

async function startOnce(options: EnvoyOptions): Promise<RunningEnvoy> {
  const [port, adminPort] = [await freePort(), await freePort()];
  const text = bootstrap(options, port, adminPort);
  const process = new TestProcess(findEnvoy(options.release), [
    ...["-c", inFile(options.edit?.(text) ?? text), "--use-dynamic-base-id", "-l", "warning"],
    ...["--concurrency", String(options.concurrency ?? 2)],
  ]);
  await process.until("Envoy to be ready", async () => (await get(adminPort, "/ready")).startsWith("LIVE"));
  const stat = async (name: string): Promise<number> => {
    const page = await get(adminPort, `/stats?filter=${encodeURIComponent(`^${name.replaceAll(".", "\\.")}$`)}`);
    return Number(/: (\d+)/.exec(page)?.[1] ?? 0);
  };
  return {
    port,
    adminPort,
    process,
    stat,
    async findsPickers(count = 1) {
      const all = async (): Promise<boolean> => (await stat("cluster.epp.membership_healthy")) === count;
      await process.until(`${count} pickers to pass their health checks`, all);
    },
    async stats(filter) {
      const page = await get(adminPort, `/stats?filter=${encodeURIComponent(filter)}`);
      return new Map([...page.matchAll(/^(.*): (\d+)$/gm)].map(([, name, value]) => [name!, Number(value)]));
    },
  };
}

/** What `envoy --mode validate` says of a configuration; "" when it is content. */
export function validate(yaml: string, release?: string): string {
  const { status, stderr } = spawnSync(
    findEnvoy(release),
    ["--mode", "validate", "--use-dynamic-base-id", "-l", "error", "-c", inFile(yaml)],
    { encoding: "utf8", timeout: fixedLimit(60_000) },
  );
  return status === 0 ? "" : `status ${status}: ${stderr}`;
}

function inFile(yaml: string): string {
  const file = join(mkdtempSync(join(tmpdir(), "sluice-envoy-")), "envoy.yaml");
  writeFileSync(file, yaml);
  return file;
}

function get(port: number, path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    request({ host: "127.0.0.1", port, path }, (response) => {
      let text = "";
      response.on("data", (chunk: Buffer) => {
        text += chunk.toString();
      });
      response.on("end", () => resolve(text));
    })
      .on("error", reject)
      .end();
  });
}
