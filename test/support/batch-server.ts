import { PROGRAM, TestProcess } from "./process.ts";

/** A `sluice batch-server` that runs. */
export interface TestBatchServer {
  readonly process: TestProcess;
  /** Of the API, with /v1. */
  readonly url: string;
  readonly adminUrl: string;
}

/** Starts `sluice batch-server` on free ports, with the answers of one folder. @param gatewayKey what the gateway asks for */
export async function startBatchServer(
  folder: string,
  gateway: string,
  args: readonly string[] = [],
  gatewayKey?: string,
): Promise<TestBatchServer> {
  const line = ["--dir", folder, "--gateway", gateway, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", ...args];
  const env = gatewayKey === undefined ? process.env : { ...process.env, SLUICE_GATEWAY_KEY: gatewayKey };
  const started = new TestProcess(process.execPath, [PROGRAM, "batch-server", ...line], { env });
  return {
    process: started,
    url: `http://${await started.listening("batch-api")}/v1`,
    adminUrl: `http://${await started.listening("admin")}`,
  };
}
