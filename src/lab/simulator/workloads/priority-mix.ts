import { poissonArrivals } from "./arrivals.ts";
import { chat } from "./chat.ts";
import { FLOW_POLICIES } from "./flow-policies.ts";
import type { Workload, WorkloadDefinition, WorkloadSettings } from "./workload.ts";

/** Priorities, the shares of the requests that have them, cumulated, and their names in results. */
const CLASSES: readonly { readonly priority: number; readonly upTo: number; readonly kind: string }[] = [
  { priority: 100, upTo: 0.2, kind: "urgent" },
  { priority: 0, upTo: 0.7, kind: "normal" },
  { priority: -10, upTo: 1, kind: "sheddable" },
];
const TENANTS = 3;

/** Three priorities and three tenants, each tenant with requests of every priority. */
export const PRIORITY_MIX: WorkloadDefinition = {
  name: "priority-mix",
  about:
    "chats of priority 100, 0 and -10 (20, 50 and 30 %) from three tenants, up to overload: shows which requests wait, and which are refused",
  rates: [100, 160, 220, 280],
  rateUnit: "requests/s",
  servers: 8,
  preset: "qwen3-32b-2xh100",
  durationMs: 45_000,
  policies: FLOW_POLICIES,
  make: priorityMix,
};

function priorityMix({ rate, durationMs }: WorkloadSettings): Workload {
  return {
    start(port) {
      const { random } = port;
      const next = chat(port);
      poissonArrivals(port, rate, durationMs, () => {
        const share = random.next();
        const { priority, kind } = CLASSES.find(({ upTo }) => share < upTo)!;
        port.send({ ...next(), priority, kind, tenant: `tenant-${1 + random.below(TENANTS)}` });
      });
    },
  };
}
