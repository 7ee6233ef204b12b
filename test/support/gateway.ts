import { sluice, type TestProcess } from "./process.ts";
import { portOf } from "./stack.ts";

export interface TestGateway {
  readonly process: TestProcess;
  readonly url: string;
  readonly port: number;
  readonly adminUrl: string;
}

/** Starts `sluice gateway` on free ports. */
export async function startGateway(endpoints: string, args: readonly string[] = []): Promise<TestGateway> {
  const process = sluice(
    "gateway",
    "--endpoints",
    endpoints,
    "--listen",
    "127.0.0.1:0",
    "--admin",
    "127.0.0.1:0",
    ...args,
  );
  const address = await process.listening("gateway");
  return {
    process,
    url: `http://${address}`,
    port: portOf(address),
    adminUrl: `http://${await process.listening("admin")}`,
  };
}

/** An endpoint as `/debug/endpoints` shows it, as far as tests look. */
export interface ShownEndpoint {
  readonly id: string;
  readonly hostPort: string;
  readonly state: string;
  readonly cause: string;
  readonly inFlight: { readonly requests: number };
}
