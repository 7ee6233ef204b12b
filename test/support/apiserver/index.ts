import { apiServerBinaries } from "../../../scripts/test-parts.ts";
import { onFreePorts } from "../free-port.ts";
import { startReal } from "./real.ts";
import type { ApiServerOptions, TestApiServer } from "./server.ts";
import { startStandIn } from "./stand-in-server.ts";

export type { ApiAnswer } from "./admin.ts";
export type { SeenRequest } from "./front.ts";
export type { ApiObject } from "./object.ts";
export type { ApiServerOptions, TestApiServer } from "./server.ts";
export type { PolicyRule, TestUser } from "./users.ts";
export { startStandIn };

/**
 * Starts an API server on a free port of the loopback interface: a real one where KUBEBUILDER_ASSETS or the PATH has
 * kube-apiserver and etcd, the stand-in otherwise.
 * @throws PartMissing where SLUICE_API_SERVER=real and there is none
 */
export async function startApiServer(options: ApiServerOptions = {}): Promise<TestApiServer> {
  const binaries = apiServerBinaries();
  return binaries === undefined ? startStandIn(options) : onFreePorts(() => startReal(binaries, options));
}
