import { chat } from "./chat.ts";
import { FLOW_POLICIES } from "./flow-policies.ts";
import type { Workload, WorkloadDefinition, WorkloadSettings } from "./workload.ts";

/** Milliseconds from the start to the burst: by then the metrics of idle servers are known. */
const AT_MS = 1000;
const TENANTS = 4;

/** All requests in one moment, nothing before and nothing after: metrics show none of them while they are placed. */
export const BURST: WorkloadDefinition = {
  name: "burst",
  about:
    "chats of four tenants, all at the same moment: shows how many requests above their limit the servers get in a burst",
  rates: [200, 400, 800],
  rateUnit: "requests at once",
  servers: 8,
  preset: "qwen3-32b-2xh100",
  durationMs: 45_000,
  policies: FLOW_POLICIES,
  make: burst,
};

function burst({ rate, durationMs }: WorkloadSettings): Workload {
  return {
    start(port) {
      const { random, clock } = port;
      const next = chat(port);
      clock.after(Math.min(AT_MS, durationMs), () => {
        for (let left = Math.max(1, Math.round(rate)); left > 0; left--)
          port.send({ ...next(), tenant: `tenant-${1 + random.below(TENANTS)}` });
      });
    },
  };
}
