import { poissonArrivals } from "./arrivals.ts";
import { chat } from "./chat.ts";
import { FLOW_POLICIES } from "./flow-policies.ts";
import type { WorkloadDefinition } from "./workload.ts";

const TENANTS = 2;

/** Requests come from the start, and the servers 20 s later, all at the same time. */
export const SCALE_FROM_ZERO: WorkloadDefinition = {
  name: "scale-from-zero",
  about:
    "chats of two tenants for a pool that has no server for the first 20 s: shows which requests are refused, and how the waiting requests arrive",
  rates: [5, 20, 60],
  rateUnit: "requests/s",
  servers: 8,
  preset: "qwen3-32b-2xh100",
  durationMs: 45_000,
  serversAtMs: 20_000,
  policies: FLOW_POLICIES,
  make: ({ rate, durationMs }) => ({
    start(port) {
      const { random } = port;
      const next = chat(port);
      poissonArrivals(port, rate, durationMs, () =>
        port.send({ ...next(), tenant: `tenant-${1 + random.below(TENANTS)}` }),
      );
    },
  }),
};
