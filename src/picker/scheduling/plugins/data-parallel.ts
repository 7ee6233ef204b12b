import { z } from "zod";
import { Rejection } from "../../../base/inference/outcomes.ts";
import { defineProfileHandler, defineRequestHook } from "../../../base/plugin/define.ts";

/** The header that tells a sidecar which rank was chosen (scheduling 3.7). */
const RANK = "x-data-parallel-host-port";

/** Published only as a part of the handlers that send requests to a sidecar. */
export const dataParallelHeaderHandler = defineRequestHook({
  type: "data-parallel-header-handler",
  describe:
    "Names the chosen endpoint to the sidecar in `x-data-parallel-host-port`, and removes this header from client requests.",
  create: () => ({
    preRequest({ endpoints, setHeader, removeHeader }) {
      removeHeader(RANK);
      setHeader(RANK, endpoints[0]!.hostPort);
    },
  }),
});

/** The parameter of handlers that may send requests to a sidecar. @param least 0 = the sidecar may be absent */
export function primaryPort(least: 0 | 1) {
  const error = `must be a port, from ${least} to 65535`;
  return z.int({ error }).min(least, { error }).max(65535, { error });
}

const NOTHING: readonly string[] = [];

/** scheduling 3.7. For proxies that cannot send a request to any port of a pod, such as Istio before 1.28.1. */
export const dataParallelProfileHandler = defineProfileHandler({
  type: "data-parallel-profile-handler",
  describe:
    "Deprecated: the only profile chooses a rank of data-parallel servers. Every request goes to one port of the chosen pod, where a sidecar passes the request on to the rank in `x-data-parallel-host-port`.",
  deprecated:
    "remove it: each rank is a separate endpoint, and proxies reach the rank at its port. Keep it with Istio before 1.28.1 and llm-d's sidecar",
  parameters: z.strictObject({
    primaryPort: primaryPort(1).default(8000).describe("Port of the sidecar that gets all requests."),
  }),
  companions: () => [{ definition: dataParallelHeaderHandler, parameters: {} }],
  create: ({ primaryPort }) => ({
    primaryPort,
    pick: ({ profiles, results }) => (results.size === 0 ? profiles : NOTHING),
    processResults({ profiles, results }) {
      const name = profiles[0]!;
      const result = results.get(name);
      return result instanceof Rejection ? result : name;
    },
  }),
});
