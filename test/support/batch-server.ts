import { PROGRAM, TestProcess } from "./process.ts";

/** A `sluice batch-server` that runs. */
export interface TestBatchServer {
  readonly process: TestProcess;
  /** Of the API, with /v1. */
  readonly url: string;
  readonly adminUrl: string;
}

/** Starts `sluice batch-server` on free ports, with the answers of one folder. @param gatewayKey what the gateway asks for */
export function startBatchServer(
  folder: string,
  gateway: string,
  args: readonly string[] = [],
  gatewayKey?: string,
): Promise<TestBatchServer> {
  const env = gatewayKey === undefined ? process.env : { ...process.env, SLUICE_GATEWAY_KEY: gatewayKey };
  return start(["--dir", folder, "--gateway", gateway, ...args], env);
}

/** Starts one of several servers that share a store. */
export function startSharedServer(
  redis: string,
  spool: string,
  gateway: string,
  args: readonly string[],
): Promise<TestBatchServer> {
  return start(["--batch", redis, "--batch-spool", spool, "--gateway", gateway, ...args], process.env);
}

async function start(args: readonly string[], env: NodeJS.ProcessEnv): Promise<TestBatchServer> {
  const line = [...args, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
  const started = new TestProcess(process.execPath, [PROGRAM, "batch-server", ...line], { env });
  return {
    process: started,
    url: `http://${await started.listening("batch-api")}/v1`,
    adminUrl: `http://${await started.listening("admin")}`,
  };
}
