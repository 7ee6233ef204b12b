import { SeededRandom } from "../../../base/clock/random.ts";
import { poissonArrivals } from "./arrivals.ts";
import { chat } from "./chat.ts";
import { FLOW_POLICIES } from "./flow-policies.ts";
import type { Workload, WorkloadDefinition, WorkloadPort, WorkloadSettings } from "./workload.ts";

/** Tenants with the same share of the servers, the noisy one among them. */
const TENANTS = 5;
/** The noisy tenant sends so many times its share. */
const TIMES = 10;
const NOISY = "noisy";

/**
 * Five tenants have a fifth of the servers each. Four send less than that; the rate is theirs. The fifth sends ten times as
 * much as each of them. Each tenant draws from a generator of its own, so the four send the same requests with and without the
 * fifth.
 */
export const NOISY_NEIGHBOUR: WorkloadDefinition = {
  name: "noisy-neighbour",
  about:
    "five tenants with equal shares; one sends ten times as much as each other tenant: shows whether the others get slower",
  rates: [5, 10, 15, 20],
  rateUnit: "requests/s of each other tenant",
  servers: 8,
  preset: "qwen3-32b-2xh100",
  durationMs: 45_000,
  policies: FLOW_POLICIES,
  make: noisyNeighbour,
};

function noisyNeighbour({ rate, durationMs }: WorkloadSettings): Workload {
  return {
    start(port) {
      for (let i = 1; i < TENANTS; i++) tenant(port, `quiet-${i}`, "quiet", rate, durationMs);
      tenant(port, NOISY, NOISY, TIMES * rate, durationMs);
    },
  };
}

/** Poisson arrivals of one tenant. */
function tenant(port: WorkloadPort, name: string, kind: string, rate: number, durationMs: number): void {
  const own: WorkloadPort = {
    clock: port.clock,
    random: new SeededRandom(port.random.below(2 ** 32)),
    send: (request, ended) => port.send(request, ended),
  };
  const next = chat(own);
  poissonArrivals(own, rate, durationMs, () => own.send({ ...next(), tenant: name, kind }));
}
