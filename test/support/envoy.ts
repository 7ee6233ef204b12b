import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseDocument, YAMLMap } from "yaml";
import { envoy as findEnvoy } from "../../scripts/test-parts.ts";
import { poll } from "./poll.ts";
import { ROOT, TestProcess } from "./process.ts";

export interface EnvoyOptions {
  /** File in deploy/envoy/, without its ending. */
  readonly config: "standalone" | "override-host";
  /** Port of `sluice epp`. */
  readonly eppPort: number;
  /** Ports of the model servers, for the configuration that knows them. */
  readonly serverPorts: readonly number[];
}

/** A real Envoy with a shipped configuration, only the ports changed. */
export interface RunningEnvoy {
  readonly port: number;
  readonly adminPort: number;
  readonly process: TestProcess;
  /** Value of one counter or gauge, 0 when unknown. */
  stat(name: string): Promise<number>;
}

/** Starts Envoy 1.40 and waits until it is ready. */
export async function startEnvoy(options: EnvoyOptions): Promise<RunningEnvoy> {
  const [port, adminPort] = [await freePort(), await freePort()];
  const ports = new Map([
    [8081, port],
    [19000, adminPort],
    [9002, options.eppPort],
    [8000, options.serverPorts[0] ?? 1],
    [8001, options.serverPorts[1] ?? 1],
    [8002, options.serverPorts[2] ?? 1],
  ]);
  const document = parseDocument(readFileSync(join(ROOT, "deploy", "envoy", `${options.config}.yaml`), "utf8"));
  const swap = (node: unknown): void => {
    if (node instanceof YAMLMap) {
      const shipped = node.get("port_value");
      if (typeof shipped === "number") node.set("port_value", ports.get(shipped) ?? shipped);
    }
    if (node !== null && typeof node === "object" && "items" in node)
      for (const item of (node as { items: unknown[] }).items)
        swap(item !== null && typeof item === "object" && "value" in item ? (item as { value: unknown }).value : item);
  };
  swap(document.contents);
  const file = join(mkdtempSync(join(tmpdir(), "sluice-envoy-")), "envoy.yaml");
  writeFileSync(file, document.toString());
  const process = new TestProcess(findEnvoy(), [
    "-c",
    file,
    "--concurrency",
    "2",
    "--use-dynamic-base-id",
    "-l",
    "warning",
  ]);
  await poll("Envoy to be ready", async () => {
    if (process.exit !== undefined) throw new Error(process.stderr);
    return (await get(adminPort, "/ready")).startsWith("LIVE");
  });
  return {
    port,
    adminPort,
    process,
    async stat(name) {
      const page = await get(adminPort, `/stats?filter=${encodeURIComponent(`^${name.replaceAll(".", "\\.")}$`)}`);
      return Number(/: (\d+)/.exec(page)?.[1] ?? 0);
    },
  };
}

/** A port that was free a moment ago. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0));
    });
  });
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
