import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type DispatchStore, openStore, type StoreKind } from "../support/dispatch-store.ts";
import { GatewayProcess } from "../support/gateway-process.ts";
import { PROGRAM, sluice, TestProcess } from "../support/process.ts";

/** How a command ended. */
export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A line of a batch, in OpenAI's format. */
export function batchLine(customId: string, body: object = { prompt: customId }): string {
  return `${JSON.stringify({ custom_id: customId, method: "POST", url: "/v1/chat/completions", body })}\n`;
}

/** What people have: a store, a gateway, a dispatch.yaml that names both, and a folder for their files. */
export class Desk {
  readonly store: DispatchStore;
  readonly gateway: GatewayProcess;
  readonly folder = mkdtempSync(join(tmpdir(), "sluice-desk-"));
  readonly #started: TestProcess[] = [];

  private constructor(store: DispatchStore, gateway: GatewayProcess, transport: object) {
    this.store = store;
    this.gateway = gateway;
    const queue = { igw_base_url: gateway.url };
    const queues = [
      { queue_name: "q", ...queue },
      { queue_name: "fixed", result_queue_name: "elsewhere", ...queue },
    ];
    const config = {
      transport: store.transport.name,
      "transport-config": { ...store.transport.config, result_queue_name: "results", queues, ...transport },
      concurrency: 16,
      "bind-address": "127.0.0.1",
      "health-port": 0,
      "metrics-port": 0,
    };
    // JSON is YAML.
    writeFileSync(this.config, JSON.stringify(config));
  }

  /** @param transport further keys of the transport's configuration */
  static async open(kind: StoreKind, transport: object = {}): Promise<Desk> {
    return new Desk(await openStore(kind), await GatewayProcess.start(), transport);
  }

  get config(): string {
    return this.path("dispatch.yaml");
  }

  path(name: string): string {
    return join(this.folder, name);
  }

  write(name: string, text: string): string {
    writeFileSync(this.path(name), text);
    return this.path(name);
  }

  /** Whole lines of a file, which need not be there. */
  lines(name: string): string[] {
    if (!existsSync(this.path(name))) return [];
    return readFileSync(this.path(name), "utf8").split("\n").slice(0, -1);
  }

  start(...args: readonly string[]): TestProcess {
    const process = sluice(...args);
    this.#started.push(process);
    return process;
  }

  /** A command on the queues of the dispatch.yaml, to its end. */
  run(command: string, ...args: readonly string[]): Promise<Ended> {
    return ended(this.start(...command.split(" "), "--config", this.config, ...args));
  }

  /** The same with `input` on its standard input. */
  async pipe(input: string, command: string, ...args: readonly string[]): Promise<Ended> {
    const words = [...command.split(" "), "--config", this.config, ...args];
    const file = this.write("stdin", input);
    const script = `exec "$@" < '${file}'`;
    const process = new TestProcess("/bin/sh", ["-c", script, "sh", globalThis.process.execPath, PROGRAM, ...words]);
    this.#started.push(process);
    return ended(process);
  }

  /** Starts the dispatcher and waits until it listens. */
  async dispatch(): Promise<TestProcess> {
    const process = this.start("dispatch", "--config", this.config);
    await process.listening("metrics");
    return process;
  }

  async close(): Promise<void> {
    for (const process of this.#started) await process.stop();
    await this.gateway.stop();
    await this.store.close();
    rmSync(this.folder, { recursive: true });
  }
}

async function ended(process: TestProcess): Promise<Ended> {
  const { code } = await process.ended(60_000);
  return { code, stdout: process.stdout, stderr: process.stderr };
}
